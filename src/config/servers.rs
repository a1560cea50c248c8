//! The servers of one Redis store: a single one, several without Sentinel, those that Sentinels
//! monitor, or a cluster.

use std::path::Path;

use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::schema::{BlockSpec, CLUSTER, NO_CLUSTER_DB, SENTINEL};
use super::url::{self, REDIS_PORT, SENTINEL_PORT, ServerUrl};
use super::values::{kind, name, text};
use super::{ClusterConfig, HostPort, Login, SentinelConfig, Servers, login, peers};

/// Maximum number of servers in one list. More are not written by people.
const NODES_MAX: usize = 100;

const IN_URL: &str = "write it into the URL: `redis://host:port/db`";

/// Reads the servers, the number of their database and the Sentinels' credentials from the block of a Redis store. `dir` is the
/// base of relative paths.
pub(super) fn read(block: &Block<'_>, dir: &Path) -> Result<(Servers, u32, Login), Reported> {
    let form = block.exactly_one(
        &["url", "nodes", "sentinel", "cluster"],
        "name the server with `url: redis://host:port/db`, or several with `nodes`, `sentinel` or \
         `cluster`",
    );
    let db = block.optional("db", database);
    match form? {
        "nodes" => {
            let refused = refuse_db(block, IN_URL);
            let nodes = read_nodes(block);
            refused.and(nodes).map(|(servers, db)| (servers, db, Login::default()))
        }
        "sentinel" => {
            let sentinel = read_sentinel(block, dir);
            let (sentinel, login) = sentinel?;
            Ok((Servers::Sentinel(sentinel), db?.unwrap_or(0), login))
        }
        "cluster" => {
            let refused = refuse_db(block, NO_CLUSTER_DB);
            let cluster = read_cluster(block);
            refused.and(Ok((Servers::Cluster(cluster?), 0, Login::default())))
        }
        url => {
            let refused = refuse_db(block, IN_URL);
            let server = block.required(url, IN_URL, |value| url::parse(&text(value)?));
            let ServerUrl { at, db } = server?;
            refused.and(Ok((Servers::One(at), db, Login::default())))
        }
    }
}

fn refuse_db(block: &Block<'_>, remedy: &str) -> Result<(), Reported> {
    if block.value("db").is_some() { Err(block.report("db", remedy)) } else { Ok(()) }
}

fn read_nodes(block: &Block<'_>) -> Result<(Servers, u32), Reported> {
    let read = |value: &Value| url::parse(&text(value)?);
    let same = |a: &ServerUrl, b: &ServerUrl| a.at.is_same(&b.at);
    let urls = block.required_list(
        "nodes",
        NODES_MAX,
        "write `nodes: [redis://a:6379, redis://b:6379]`",
        read,
        same,
    )?;
    let db = urls.first().map_or(0, |url| url.db);
    if let Some(other) = urls.iter().find(|url| url.db != db) {
        let message = format!(
            "names database {db} and database {}; a master and its replicas have the same one",
            other.db
        );
        return Err(block.report("nodes", message));
    }
    Ok((Servers::Nodes(urls.into_iter().map(|url| url.at).collect()), db))
}

fn read_sentinel(block: &Block<'_>, dir: &Path) -> Result<(SentinelConfig, Login), Reported> {
    let sentinel = child(block, "sentinel", &SENTINEL)?;
    let master = sentinel.required(
        "master",
        "write the name that the Sentinels know: `master: mymaster`",
        name,
    );
    let nodes = read_servers(
        &sentinel,
        SENTINEL_PORT,
        "write `nodes: [10.0.0.5:26379, 10.0.0.6:26379, 10.0.0.7:26379]`",
    );
    let login = login::read(&sentinel, dir);
    let peers = peers::read(&sentinel);
    Ok((SentinelConfig { master: master?, nodes: nodes?, peers: peers? }, login?))
}

fn read_cluster(block: &Block<'_>) -> Result<ClusterConfig, Reported> {
    let cluster = child(block, "cluster", &CLUSTER)?;
    let nodes =
        read_servers(&cluster, REDIS_PORT, "write `nodes: [redis://a:6379, redis://b:6379]`");
    let peers = peers::read(&cluster);
    Ok(ClusterConfig { nodes: nodes?, peers: peers? })
}

/// A block whose presence [`read`] has checked.
fn child<'a>(block: &Block<'a>, field: &str, spec: &BlockSpec) -> Result<Block<'a>, Reported> {
    block.child(field, spec)?.ok_or(Reported)
}

fn read_servers(
    block: &Block<'_>,
    default_port: u16,
    remedy: &str,
) -> Result<Vec<HostPort>, Reported> {
    block.required_list(
        "nodes",
        NODES_MAX,
        remedy,
        |value| url::server(&text(value)?, default_port),
        HostPort::is_same,
    )
}

fn database(value: &Value) -> Result<u32, String> {
    let db = value
        .as_u64()
        .and_then(|db| u32::try_from(db).ok())
        .filter(|db| i32::try_from(*db).is_ok());
    db.ok_or_else(|| match value {
        Value::Number(_) => {
            "is not the number of a database; write a whole number: `db: 1`".to_owned()
        }
        _ => format!("is {}; write the number of a database: `db: 1`", kind(value)),
    })
}
