//! Finds the server that takes writes for a key: the one that decides for the agent, too. The
//! servers are asked with the agent's own login, so that the login for writing needs no such
//! rights.

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::names_no_master;
use lockwatch_watch::redis::reply::ServerError;
use lockwatch_watch::redis::topology::{Announced, cluster, sentinel};
use lockwatch_watch::remedy;
use tokio::task::JoinSet;

use crate::config::{ClusterConfig, HostPort, Peers, RedisConfig, SentinelConfig, Servers};
use crate::io::{Connection, Failure, connect};
use crate::text::identity::escape;

/// Why a command about a store was not carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The configuration or the question does not allow it.
    #[error("{0}")]
    Usage(String),
    /// Redis, or what it holds, does not allow it; or it is not certain that it was done.
    #[error("{0}")]
    Refused(String),
    /// Redis cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}

/// What an operator can do about a server that gave no answer.
pub fn to_error(at: &HostPort, failure: Failure) -> Trouble {
    let text = format!("{at}: {failure}. {}", remedy(failure.why));
    match failure.why {
        Unknown::Dns | Unknown::Connect | Unknown::Closed | Unknown::Timeout => {
            Trouble::Unreachable(format!("cannot reach redis at {text}"))
        }
        _ => Trouble::Refused(format!("cannot use redis at {text}")),
    }
}

/// The server to write to, as far as others can say.
///
/// # Errors
/// Nobody says, or it is not allowed.
pub async fn deciding(redis: &RedisConfig, key: &[u8]) -> Result<HostPort, Trouble> {
    match &redis.servers {
        Servers::One(at) => Ok(at.clone()),
        Servers::Nodes(nodes) => one_master(ask_all(redis, nodes).await),
        Servers::Sentinel(sentinels) => by_sentinels(redis, sentinels).await,
        Servers::Cluster(cluster) => by_cluster(redis, cluster, key).await,
    }
}

/// What each server said; in the order of the list.
type Said<T> = Vec<(HostPort, Result<T, Failure>)>;

/// Asks all servers at once, so that silent ones cost one timeout.
async fn all<T, F>(servers: &[HostPort], ask: impl Fn(HostPort) -> F) -> Said<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let mut asking = JoinSet::new();
    for (number, at) in servers.iter().enumerate() {
        let (at, answer) = (at.clone(), ask(at.clone()));
        asking.spawn(async move { (number, at, answer.await) });
    }
    let mut said = asking.join_all().await;
    said.sort_by_key(|(number, ..)| *number);
    said.into_iter().map(|(_, at, answer)| (at, answer)).collect()
}

async fn ask_all(redis: &RedisConfig, nodes: &[HostPort]) -> Said<Option<Role>> {
    all(nodes, |at| {
        let endpoint = redis.endpoint(at);
        async move { connect(&endpoint).await.map(|connection| connection.role()) }
    })
    .await
}

/// The one server that says it is master.
fn one_master(said: Said<Option<Role>>) -> Result<HostPort, Trouble> {
    let is_master = |answer: &Result<_, Failure>| matches!(answer, Ok(Some(Role::Master)));
    let mut masters = said.iter().filter(|(_, answer)| is_master(answer)).map(|(at, _)| at);
    match (masters.next(), masters.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(one), Some(other)) => Err(Trouble::Refused(format!(
            "{one} and {other} both say that they are master; a switch in only one of them would \
             mislead. {}",
            remedy(Unknown::TwoMasters)
        ))),
        _ => Err(nobody(&said, Unknown::NoMaster)),
    }
}

/// Nobody decides: because nobody can be reached, or because of `why`.
fn nobody<T>(said: &Said<T>, why: Unknown) -> Trouble {
    let failures = said.iter().filter_map(|(at, answer)| Some((at, answer.as_ref().err()?)));
    let failures: Vec<String> = failures.map(|(at, failure)| format!("{at}: {failure}")).collect();
    if failures.len() == said.len()
        && let Some((at, Err(failure))) = said.first()
        && let Trouble::Unreachable(_) = to_error(at, failure.clone())
    {
        return Trouble::Unreachable(format!("cannot reach redis: {}", failures.join("; ")));
    }
    let failures: String = failures.iter().map(|failure| format!(" ({failure})")).collect();
    Trouble::Refused(format!("no server takes writes. {}{failures}", remedy(why)))
}

async fn by_sentinels(
    redis: &RedisConfig,
    sentinels: &SentinelConfig,
) -> Result<HostPort, Trouble> {
    let SentinelConfig { master, nodes, peers } = sentinels;
    let said = all(nodes, |at| {
        let endpoint = redis.sentinel_endpoint(at);
        let (commands, name) = (sentinel::commands(master), master.clone());
        async move {
            let connection = connect(&endpoint).await?;
            let replies = connection.exec(&commands).await?;
            let failed = |why| names_no_master(why, &replies, &name, connection.masters());
            sentinel::decode(&replies).map_err(failed)
        }
    })
    .await;
    let mut quorum = sentinel::Quorum::new(nodes.len(), u64::MAX);
    for (number, (_, answer)) in said.iter().enumerate() {
        let answer = answer.clone().map_err(|failure| failure.why);
        quorum.answered(number, Mono::at(0), answer);
    }
    match quorum.master(Mono::at(0)) {
        Ok(announced) => reachable(peers, &announced, nodes),
        Err(_) if said.iter().any(|(_, answer)| is_stranger(answer)) => {
            Err(Trouble::Refused(format!(
                "the Sentinels know no master called {}; correct `master` in the block `sentinel` \
                 of redis {}",
                escape(master.as_bytes()),
                escape(redis.name.as_bytes())
            )))
        }
        Err(why) => Err(nobody(&said, why)),
    }
}

/// Whether a Sentinel does not know the master's name.
fn is_stranger<T>(answer: &Result<T, Failure>) -> bool {
    answer.as_ref().is_err_and(|failure| failure.why == Unknown::MasterName)
}

async fn by_cluster(
    redis: &RedisConfig,
    cluster: &ClusterConfig,
    key: &[u8],
) -> Result<HostPort, Trouble> {
    let said = all(&cluster.nodes, |at| {
        let endpoint = redis.endpoint(at);
        async move { layout(&connect(&endpoint).await?, &endpoint.at.host).await }
    })
    .await;
    let Some(map) = said.iter().find_map(|(_, answer)| answer.as_ref().ok()) else {
        return Err(nobody(&said, Unknown::ClusterDown));
    };
    let owner = map.owner(cluster::slot(key)).ok_or_else(|| {
        Trouble::Refused(format!(
            "nobody serves the slot of {}. {}",
            escape(key),
            remedy(Unknown::ClusterDown)
        ))
    })?;
    reachable(&cluster.peers, owner, &cluster.nodes)
}

async fn layout(connection: &Connection, host: &str) -> Result<cluster::SlotMap, Failure> {
    let replies = connection.exec(&cluster::commands(connection.caps().sharded)).await?;
    let [layout, state] = replies.as_slice() else {
        return Err(Failure::new(Unknown::Protocol, "no layout was sent"));
    };
    if !cluster::serves(state) {
        return Err(Failure::new(Unknown::ClusterDown, "it says that the cluster is down"));
    }
    cluster::decode(std::slice::from_ref(layout), host)
        .map_err(|why| Failure::new(why, "it gave no layout of use"))
}

/// Where an announced server is reached.
fn reachable(
    peers: &Peers,
    announced: &Announced,
    configured: &[HostPort],
) -> Result<HostPort, Trouble> {
    peers.resolve(announced, configured).ok_or_else(|| {
        Trouble::Refused(format!(
            "{announced} takes writes, but the configuration does not allow it. {}",
            remedy(Unknown::ForeignAddress)
        ))
    })
}

/// Where `MOVED <slot> <host>:<port>` sends to. Without a host it is the one that was asked.
///
/// # Errors
/// It sends nowhere, or where the configuration does not allow it.
pub fn moved(
    redis: &RedisConfig,
    asked: &HostPort,
    error: &ServerError,
) -> Result<HostPort, Trouble> {
    let to = std::str::from_utf8(&error.detail).ok().and_then(|detail| {
        let (host, port) = detail.split_whitespace().nth(1)?.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        let host = if host.is_empty() { &asked.host } else { host };
        Announced::new(host, port.parse().ok()?)
    });
    match (&redis.servers, to) {
        (Servers::Cluster(cluster), Some(to)) => reachable(&cluster.peers, &to, &cluster.nodes),
        _ => Err(Trouble::Refused(format!(
            "{asked} belongs to a cluster and refuses the key; write its servers into `cluster: \
             {{nodes: […]}}` of redis {}",
            escape(redis.name.as_bytes())
        ))),
    }
}

/// A replica may not even be read: it may lag, or have been forgotten.
///
/// # Errors
/// It is no master.
pub fn check_role(redis: &RedisConfig, at: &HostPort, role: Option<Role>) -> Result<(), Trouble> {
    match role {
        Some(Role::Master) => Ok(()),
        None if redis.assume_master => Ok(()),
        Some(Role::Replica) => Err(Trouble::Refused(read_only(redis, at))),
        _ => Err(Trouble::Refused(format!(
            "{at} does not say that it is a master. {}",
            remedy(Unknown::NotMaster)
        ))),
    }
}

/// What to do about a server that takes no writes.
pub fn read_only(redis: &RedisConfig, at: &HostPort) -> String {
    let then = match &redis.servers {
        Servers::One(_) => {
            "Configure the master's address, or all servers with `nodes`, `sentinel` or `cluster`"
        }
        _ => "There is a failover, perhaps; try again in a moment",
    };
    format!("{at} is a read-only replica: writes go to its master. {then}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn at(port: u16) -> HostPort {
        HostPort { host: "127.0.0.1".to_owned(), port }
    }

    fn silent() -> Result<Option<Role>, Failure> {
        Err(Failure::new(Unknown::Connect, "refused"))
    }

    #[test]
    fn only_one_master_is_written_to() {
        let (master, replica) = (Ok(Some(Role::Master)), Ok(Some(Role::Replica)));
        let said = |answers: &[&Result<Option<Role>, Failure>]| {
            one_master((1..).map(at).zip(answers.iter().map(|answer| (*answer).clone())).collect())
        };
        assert_eq!(said(&[&replica, &master, &silent()]), Ok(at(2)));
        let two = said(&[&master, &master]).unwrap_err();
        assert!(two.to_string().contains("127.0.0.1:1 and 127.0.0.1:2 both say"), "{two}");
        assert!(matches!(said(&[&replica, &silent()]), Err(Trouble::Refused(_))));
        assert!(matches!(said(&[&silent(), &silent()]), Err(Trouble::Unreachable(_))));
    }

    #[test]
    fn a_moved_key_is_followed_only_where_that_is_allowed() {
        let text = "redis: {main: {cluster: {nodes: ['127.0.0.1:1'], allow_peers: [10.0.0.0/8]}}, \
                    one: {url: 'redis://127.0.0.1:1'}}\ntasks: [{name: a, redis: main, lock: {key: \
                    a}}]\n";
        let config = Config::parse(text, Path::new("x.yml")).unwrap();
        let to = |redis: usize, detail: &str| {
            let error = ServerError { code: b"MOVED".to_vec(), detail: detail.into() };
            moved(&config.redises[redis], &at(1), &error).map(|at| at.to_string())
        };
        assert_eq!(to(0, "866 127.0.0.1:7").as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(to(0, "866 :7").as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(to(0, "866 10.1.2.3:7").as_deref(), Ok("10.1.2.3:7"));
        for refused in ["866 192.0.2.1:7", "866", "866 10.0.0.1:x", "866 10.0.0.1:0"] {
            assert!(to(0, refused).is_err(), "{refused}");
        }
        assert!(to(1, "866 127.0.0.1:7").unwrap_err().to_string().contains("`cluster: {nodes"));
    }
}
