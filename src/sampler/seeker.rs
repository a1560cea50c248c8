//! Asks servers of a cluster for its layout repeatedly, and publishes the layout that most of them
//! report.
//!
//! A server that has lost its state, or is in the minority of a partition, reports a layout of its
//! own. So several are asked, and those that see the cluster as serving are preferred. Of two
//! layouts with as many votes, the one that serves more slots wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::topology::cluster::{self, SlotMap};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::urgency::Turn;
use crate::config::{ClusterConfig, Endpoint, HostPort, RedisConfig};
use crate::redis;

/// Maximum number of servers that are asked in one round.
const ASKED: usize = 5;
/// Number of intervals between two rounds without a reason to hurry.
const EVERY: u32 = 5;
/// Maximum number of rounds in one interval, however many reasons to hurry there are.
const HURRIES: u32 = 10;

/// Asks until the receiver of `maps` is gone.
pub(super) async fn seek(
    config: RedisConfig,
    cluster: ClusterConfig,
    mut turn: Turn,
    maps: mpsc::Sender<Result<SlotMap, Unknown>>,
) {
    let mut seeker = Seeker::new(config, cluster);
    let mut told_why = None;
    loop {
        let began = Instant::now();
        let map = seeker.ask().await;
        let why = map.as_ref().err().copied();
        if let (Some(why), true) = (why, told_why != why) {
            let (redis, remedy) = (&*seeker.config.name, lockwatch_watch::redis::remedy(why));
            tracing::warn!(redis, why = why.name(), remedy, "no server tells the cluster's layout");
        }
        told_why = why;
        let interval = seeker.config.interval;
        // A slot that nobody serves may be taken over at any moment.
        let calm = map.as_ref().is_ok_and(|map| map.uncovered() == 0);
        let pause = if calm { interval * EVERY } else { interval };
        if maps.send(map).await.is_err() || !turn.wait(pause).await {
            return;
        }
        sleep_until(began + interval / HURRIES).await;
    }
}

struct Seeker {
    config: RedisConfig,
    cluster: ClusterConfig,
    /// Connections that are not in use.
    idle: BTreeMap<HostPort, Arc<redis::Connection>>,
    /// Requests in flight. A slow server delays nothing, and is not asked again until it has
    /// answered.
    asking: JoinSet<Answered>,
    asked: BTreeSet<HostPort>,
    /// The number of this round: answers to earlier rounds are no votes.
    round: u64,
    /// The servers of the newest layout: those that serve slots first.
    known: Vec<HostPort>,
    /// Number of known servers to skip, because the ones before them do not see the cluster as
    /// serving.
    skip: usize,
}

/// The round of a request, the server, and the result.
type Answered = (u64, HostPort, Result<LayoutReply, redis::Failure>);

/// A server's answer, and the connection that it came over.
struct LayoutReply {
    connection: Arc<redis::Connection>,
    map: Result<SlotMap, Unknown>,
    serves: bool,
}

/// A layout, and whether the server that reported it sees the cluster as serving.
type Vote = (SlotMap, bool);

impl Seeker {
    fn new(config: RedisConfig, cluster: ClusterConfig) -> Seeker {
        Seeker {
            config,
            cluster,
            idle: BTreeMap::new(),
            asking: JoinSet::new(),
            asked: BTreeSet::new(),
            round: 0,
            known: Vec::new(),
            skip: 0,
        }
    }

    /// Asks one round.
    async fn ask(&mut self) -> Result<SlotMap, Unknown> {
        let whom = candidates(&self.cluster.nodes, &self.known, self.skip);
        while let Some(answered) = self.asking.try_join_next() {
            self.take(answered);
        }
        self.idle.retain(|at, _| whom.contains(at));
        self.round += 1;
        for at in whom.iter().filter(|at| !self.asked.contains(*at)).cloned().collect::<Vec<_>>() {
            let (endpoint, open, round) =
                (self.config.endpoint(at.clone()), self.idle.remove(&at), self.round);
            self.asked.insert(at.clone());
            self.asking.spawn(async move { (round, at, question(&endpoint, open).await) });
        }
        let (votes, why) = self.hear(&whom).await;
        let Some((map, serves)) = most_told(&votes) else { return Err(why) };
        // One configured server stays in each round, so one less is skipped.
        self.skip = if *serves { 0 } else { self.skip.saturating_add(ASKED - 1) };
        let (mut known, masters) = (map.masters(), map.masters());
        known.extend(map.nodes().into_iter().filter(|node| !masters.contains(node)));
        self.known = known
            .iter()
            .filter_map(|node| self.cluster.peers.resolve(node, &self.cluster.nodes))
            .collect();
        if self.skip >= self.known.len() {
            self.skip = 0;
        }
        Ok(map.clone())
    }

    /// Collects the answers: all of them, or enough to settle the vote. After the first answer, the
    /// others have one interval.
    async fn hear(&mut self, whom: &[HostPort]) -> (Vec<Vote>, Unknown) {
        let (mut votes, mut why) = (Vec::new(), Unknown::Connect);
        let patience = self.config.interval.min(self.config.timeout);
        // A server that must be dialled first may take longer; its answer counts next round.
        let mut until = Instant::now() + self.config.timeout;
        while whom.iter().any(|at| self.asked.contains(at)) && !is_settled(&votes, whom.len()) {
            let answered = tokio::select! {
                answered = self.asking.join_next() => answered,
                () = sleep_until(until) => None,
            };
            let Some(answered) = answered else { break };
            match self.take(answered) {
                Some(Ok(vote)) => {
                    until = until.min(Instant::now() + patience);
                    votes.push(vote);
                }
                Some(Err(reason)) => why = reason,
                None => {}
            }
        }
        (votes, why)
    }

    /// Takes in an answer; returns its vote if it belongs to this round.
    fn take(&mut self, answered: Result<Answered, JoinError>) -> Option<Result<Vote, Unknown>> {
        let (round, at, answer) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                tracing::error!(redis = &*self.config.name, %error, "a question for the layout \
                    was dropped");
                // A task that panicked does not name its server.
                self.asking = JoinSet::new();
                self.asked.clear();
                return None;
            }
        };
        self.asked.remove(&at);
        let vote = match answer {
            Ok(LayoutReply { connection, map, serves }) => {
                self.idle.insert(at, connection);
                map.map(|map| (map, serves))
            }
            Err(failure) => {
                tracing::debug!(redis = &*self.config.name, node = %at, %failure, "a server does \
                    not tell the layout");
                Err(failure.why)
            }
        };
        (round == self.round).then_some(vote)
    }
}

/// Whether further answers cannot change the result: more than half of those asked report the same
/// layout, and see it as serving.
fn is_settled(votes: &[Vote], asked: usize) -> bool {
    let agree = |map: &SlotMap| {
        votes.iter().filter(|(other, serves)| *serves && map.same_owners(other)).count()
    };
    votes.iter().any(|(map, serves)| *serves && agree(map) * 2 > asked)
}

/// The servers to ask: those of the newest layout after the first `skip` of them, then the
/// configured ones.
fn candidates(configured: &[HostPort], known: &[HostPort], skip: usize) -> Vec<HostPort> {
    let mut all: Vec<HostPort> = Vec::new();
    let newest = known.iter().skip(skip).chain(known).take(ASKED - 1);
    // One configured server stays in, so that a cluster whose servers have all moved can be found
    // again.
    for at in newest.chain(configured).chain(known) {
        if !all.contains(at) && all.len() < ASKED {
            all.push(at.clone());
        }
    }
    all
}

/// Asks one server, over an idle connection or a new one.
async fn question(
    endpoint: &Endpoint,
    open: Option<Arc<redis::Connection>>,
) -> Result<LayoutReply, redis::Failure> {
    let connection = match open {
        Some(connection) => connection,
        None => Arc::new(redis::connect(endpoint, None, 0).await?.0),
    };
    let replies = connection.exec(&cluster::commands(connection.caps().pexpiretime)).await?;
    let (layout, state) = replies.split_at_checked(1).unwrap_or_default();
    let map = cluster::decode(layout, &endpoint.at.host);
    Ok(LayoutReply { connection, map, serves: state.first().is_some_and(cluster::serves) })
}

/// The layout with the most votes, preferably of servers that see the cluster as serving; of
/// equals, the one that serves most slots.
fn most_told(votes: &[Vote]) -> Option<&Vote> {
    let count = |map: &SlotMap| votes.iter().filter(|(other, _)| map.same_owners(other)).count();
    votes
        .iter()
        .max_by_key(|(map, serves)| (*serves, count(map), std::cmp::Reverse(map.uncovered())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockwatch_watch::redis::reply::Reply;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::config::{Login, Peers, Servers};

    fn at(host: &str) -> HostPort {
        HostPort { host: host.to_owned(), port: 6379 }
    }

    #[test]
    fn a_configured_server_is_always_asked() {
        let known: Vec<HostPort> = (0..9).map(|number| at(&format!("known-{number}"))).collect();
        for skip in [0, 4, 8, 20] {
            let asked = candidates(&[at("seed")], &known, skip);
            assert_eq!(asked.len(), ASKED);
            assert!(asked.contains(&at("seed")));
        }
        assert_eq!(candidates(&[at("seed"), at("seed")], &[], 0), [at("seed")]);
        assert_eq!(candidates(&[at("seed")], &known, 4)[..4], known[4..8], "others are asked");
        assert_eq!(
            candidates(&[at("seed")], &known[..2], 0),
            [at("known-0"), at("known-1"), at("seed")]
        );
    }

    /// A layout in which this host serves the slots up to `last`.
    fn map(host: &str, last: i64) -> SlotMap {
        let server = Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(6379)]);
        let range = Reply::Array(vec![Reply::Int(0), Reply::Int(last), server]);
        cluster::decode(&[Reply::Array(vec![range])], "asked").unwrap()
    }

    #[test]
    fn those_who_see_the_cluster_serve_are_heard_first() {
        let (new, old, lonely) = (map("new", 16_383), map("old", 16_383), map("old", 5));
        type LayoutReply<'a> = &'a [(&'a SlotMap, bool)];
        let table: [(&str, LayoutReply<'_>, Option<&SlotMap>); 6] = [
            ("nobody", &[], None),
            ("most", &[(&old, true), (&new, true), (&new, true)], Some(&new)),
            ("a minority that knows it", &[(&old, false), (&old, false), (&new, true)], Some(&new)),
            ("a lonely one", &[(&lonely, false), (&new, false)], Some(&new)),
            ("a lonely one that boasts", &[(&lonely, true), (&new, true)], Some(&new)),
            ("nobody else", &[(&lonely, false)], Some(&lonely)),
        ];
        for (what, votes, wanted) in table {
            let votes: Vec<Vote> =
                votes.iter().map(|(map, serves)| ((*map).clone(), *serves)).collect();
            assert_eq!(most_told(&votes).map(|(map, _)| map), wanted, "{what}");
        }
    }

    async fn connection() -> Arc<redis::Connection> {
        let config = config(Vec::new());
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
        // The last reply is to READONLY, which is sent to servers of a cluster.
        let greeting = format!("+OK\r\n+OK\r\n{role}-NOPERM no\r\n-NOPERM no\r\n:-2\r\n+OK\r\n");
        there.write_all(greeting.as_bytes()).await.unwrap();
        Arc::new(redis::greet_over(here, &config.endpoint(at("any")), None, None).await.unwrap().0)
    }

    fn config(nodes: Vec<HostPort>) -> RedisConfig {
        RedisConfig {
            name: "main".into(),
            servers: Servers::Cluster(cluster_config(nodes)),
            db: 0,
            login: Login::default(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            assume_master: false,
            wake_ups: false,
        }
    }

    fn cluster_config(nodes: Vec<HostPort>) -> ClusterConfig {
        ClusterConfig { nodes, peers: Peers { allowed: None, announce_map: BTreeMap::new() } }
    }

    /// A server in the minority of a partition does not know that, and may be the fastest.
    #[tokio::test]
    async fn whoever_answers_first_does_not_decide() {
        let _rule = crate::truth::rule("1 evidence");
        let (new, old) = (map("new", 16_383), map("old", 16_383));
        let whom = [at("lonely"), at("a"), at("b")];
        let mut seeker = Seeker::new(config(whom.to_vec()), cluster_config(whom.to_vec()));
        for (at, map, after_ms) in
            [(&whom[0], &old, 0), (&whom[1], &new, 50), (&whom[2], &new, 100)]
        {
            let told =
                LayoutReply { connection: connection().await, map: Ok(map.clone()), serves: true };
            let (at, round) = (at.clone(), seeker.round);
            seeker.asked.insert(at.clone());
            seeker.asking.spawn(async move {
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                (round, at, Ok(told))
            });
        }
        let (votes, _) = seeker.hear(&whom).await;
        assert_eq!(votes.len(), 3, "two that agree are enough only if the third is not heard yet");
        assert_eq!(most_told(&votes).map(|(map, _)| map), Some(&new));
    }

    #[test]
    fn a_layout_is_settled_by_more_than_half_of_those_asked() {
        let (new, old) = (map("new", 16_383), map("old", 16_383));
        let vote = |map: &SlotMap, serves| (map.clone(), serves);
        assert!(!is_settled(&[], 0));
        assert!(is_settled(&[vote(&new, true)], 1));
        assert!(!is_settled(&[vote(&new, true)], 2));
        assert!(!is_settled(&[vote(&new, true), vote(&old, true)], 3));
        assert!(is_settled(&[vote(&new, true), vote(&old, true), vote(&new, true)], 3));
        assert!(!is_settled(&[vote(&new, false), vote(&new, false)], 3));
    }
}
