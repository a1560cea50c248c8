//! The servers of one Redis store: a single one, several without Sentinel, those that Sentinels
//! monitor, or a cluster.

use std::path::Path;

use lockwatch_watch::redis::store::{
    Cluster as ClusterConfig, HostPort, Sentinels as SentinelConfig, Servers,
};
use serde_yaml::Value;

use super::block::Block;
use super::login::{self, Login};
use super::mistake::Reported;
use super::peers;
use super::schema::{BlockSpec, CLUSTER, SENTINEL};
use super::url::{self, REDIS_PORT, SENTINEL_PORT, ServerUrl, Transport};
use super::values::{kind, name, text};

/// Maximum number of servers in one list. More are not written by people.
const NODES_MAX: usize = 100;

const IN_URL: &str = "write it into the URL: `redis://host:port/db`";

/// The servers of a store, and what its block says only together with them.
pub(super) struct Found {
    pub(super) servers: Servers,
    /// Database number.
    pub(super) db: u32,
    /// Credentials for the Sentinels.
    pub(super) sentinel_login: Login,
    pub(super) transports: Transports,
}

/// Which ways to reach servers their addresses name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transports {
    pub(super) plain: bool,
    pub(super) tls: bool,
    pub(super) socket: bool,
}

impl Transports {
    /// An address without a scheme says nothing.
    fn of(all: impl Iterator<Item = Option<Transport>> + Clone) -> Transports {
        let has = |transport| all.clone().any(|one| one == Some(transport));
        Transports {
            plain: has(Transport::Plain),
            tls: has(Transport::Tls),
            socket: has(Transport::Socket),
        }
    }

    /// All servers of a list are reached in the same way: who forgets one `s` sends a password
    /// in clear text.
    fn alike(self, block: &Block<'_>) -> Result<Transports, Reported> {
        if self.tls && (self.plain || self.socket) {
            let message = "has addresses with TLS (`rediss://`) and others without; write all of \
                           them alike";
            return Err(block.report("nodes", message));
        }
        Ok(self)
    }
}

/// Reads the servers, the number of their database and the Sentinels' credentials from the block
/// of a Redis store. `dir` is the base of relative paths.
pub(super) fn read(block: &Block<'_>, dir: &Path) -> Result<Found, Reported> {
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
            refused.and(nodes)
        }
        "sentinel" => {
            let sentinel = read_sentinel(block, dir);
            Ok(Found { db: db?.unwrap_or(0), ..sentinel? })
        }
        "cluster" => {
            let cluster = read_cluster(block);
            Ok(Found { db: db?.unwrap_or(0), ..cluster? })
        }
        url => {
            let refused = refuse_db(block, IN_URL);
            let server = block.required(url, IN_URL, |value| url::parse(&text(value)?));
            let ServerUrl { at, db, transport } = server?;
            let transports = Transports::of(std::iter::once(Some(transport)));
            refused.and(Ok(found(Servers::One(at), db, transports)))
        }
    }
}

fn found(servers: Servers, db: u32, transports: Transports) -> Found {
    Found { servers, db, sentinel_login: Login::default(), transports }
}

fn refuse_db(block: &Block<'_>, remedy: &str) -> Result<(), Reported> {
    if block.value("db").is_some() { Err(block.report("db", remedy)) } else { Ok(()) }
}

fn read_nodes(block: &Block<'_>) -> Result<Found, Reported> {
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
    let transports = Transports::of(urls.iter().map(|url| Some(url.transport))).alike(block)?;
    let nodes = urls.into_iter().map(|url| url.at).collect();
    Ok(found(Servers::Nodes(nodes), db, transports))
}

fn read_sentinel(block: &Block<'_>, dir: &Path) -> Result<Found, Reported> {
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
    let (nodes, transports) = nodes?;
    let servers = Servers::Sentinel(SentinelConfig { master: master?, nodes, peers: peers? });
    Ok(Found { sentinel_login: login?, ..found(servers, 0, transports) })
}

fn read_cluster(block: &Block<'_>) -> Result<Found, Reported> {
    let cluster = child(block, "cluster", &CLUSTER)?;
    let nodes =
        read_servers(&cluster, REDIS_PORT, "write `nodes: [redis://a:6379, redis://b:6379]`");
    let peers = peers::read(&cluster);
    let (nodes, transports) = nodes?;
    Ok(found(Servers::Cluster(ClusterConfig { nodes, peers: peers? }), 0, transports))
}

/// A block whose presence [`read`] has checked.
fn child<'a>(block: &Block<'a>, field: &str, spec: &BlockSpec) -> Result<Block<'a>, Reported> {
    block.child(field, spec)?.ok_or(Reported)
}

fn read_servers(
    block: &Block<'_>,
    default_port: u16,
    remedy: &str,
) -> Result<(Vec<HostPort>, Transports), Reported> {
    let read = |value: &Value| url::server(&text(value)?, default_port);
    let same = |(a, _): &(HostPort, _), (b, _): &(HostPort, _)| a.is_same(b);
    let servers = block.required_list("nodes", NODES_MAX, remedy, read, same)?;
    let transports = Transports::of(servers.iter().map(|(_, transport)| *transport));
    let transports = transports.alike(block)?;
    Ok((servers.into_iter().map(|(at, _)| at).collect(), transports))
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
