//! Reads the server's own description before the scan, and names the ACL rule that the scan needs.

use std::fmt;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::command;
use lockwatch_watch::redis::accept::{databases, info_field};
use lockwatch_watch::redis::reply::Reply;

use crate::commands::acl::{self, ServerVersion};
use crate::config::{ClusterConfig, HostPort, Peers, RedisConfig, Servers};
use crate::io::{Connection, Failure};
use crate::text::identity::escape;
use crate::text::numbers::count;

/// The server that is scanned.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Its address.
    pub(super) at: HostPort,
    /// The version that it reports.
    pub(super) version: Option<String>,
    /// The role that it reports.
    pub(super) role: Option<Role>,
    /// The address of its master, if it is a replica.
    pub(super) master: Option<String>,
    /// Whether it belongs to a cluster.
    pub(super) in_cluster: bool,
    /// Number of keys in this database; `None` if it is not reported.
    pub(super) keys: Option<u64>,
    /// Number of channels that somebody listens to; `None` if it is not reported.
    pub(super) channels: Option<u64>,
    /// The databases that have keys, with their number.
    pub(super) databases: Vec<(u32, u64)>,
}

impl Server {
    /// Reads the description.
    pub(super) async fn ask(connection: &Connection, at: HostPort) -> Result<Server, Failure> {
        let commands = [
            command!("INFO", "replication"),
            command!("INFO", "cluster"),
            command!("INFO", "keyspace"),
            command!("DBSIZE"),
            command!("INFO", "stats"),
        ];
        let replies = connection.exec(&commands).await?;
        let [replication, cluster, keyspace, size, stats] = replies.as_slice() else {
            return Ok(Server::silent(connection, at));
        };
        let field = |reply: &Reply, name: &str| {
            let value = info_field(reply.as_bytes()?, name)?;
            Some(escape(value).into_owned())
        };
        let master = field(replication, "master_host").zip(field(replication, "master_port"));
        Ok(Server {
            master: master.map(|(host, port)| format!("{host}:{port}")),
            in_cluster: field(cluster, "cluster_enabled").as_deref() == Some("1"),
            keys: size.as_int().and_then(|keys| u64::try_from(keys).ok()),
            channels: field(stats, "pubsub_channels").and_then(|count| count.parse().ok()),
            databases: databases(keyspace.as_bytes().unwrap_or_default()),
            ..Server::silent(connection, at)
        })
    }

    fn silent(connection: &Connection, at: HostPort) -> Server {
        Server {
            at,
            version: connection.version().map(|version| version.to_string()),
            role: connection.role(),
            master: None,
            in_cluster: false,
            keys: None,
            channels: None,
            databases: Vec::new(),
        }
    }

    /// The databases other than this one that have keys, for a sentence.
    pub(super) fn elsewhere(&self, db: u32) -> Option<String> {
        let others = self.databases.iter().filter(|(other, _)| *other != db);
        let named = others.map(|(other, keys)| format!("{other} ({})", count(*keys, "key")));
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| named.join(", "))
    }

    pub(super) fn is_replica(&self) -> bool {
        matches!(self.role, Some(Role::Replica))
    }
}

/// `Redis 7.0.15, master`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version.as_deref() {
            Some(version) if version.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                f.write_str(version)?;
            }
            Some(version) => write!(f, "Redis {version}")?,
            None => f.write_str("Redis of unknown version")?,
        }
        let role = if self.is_replica() { "replica" } else { "master" };
        write!(f, ", {role}{}", if self.in_cluster { " of a cluster" } else { "" })
    }
}

/// The `redis` block to print: a server of a cluster stands for its cluster.
pub(super) fn redis_of(redis: &RedisConfig, server: &Server) -> RedisConfig {
    if !server.in_cluster || server.at.socket().is_some() {
        return redis.clone();
    }
    let servers =
        Servers::Cluster(ClusterConfig { nodes: vec![server.at.clone()], peers: Peers::default() });
    RedisConfig { servers, ..redis.clone() }
}

/// Whether a failure may be due to missing permission.
pub(super) fn is_refusal(why: Unknown) -> bool {
    matches!(why, Unknown::NoPermission | Unknown::RoleRefused)
}

/// The ACL rule that the scan needs, as a hint below an error.
pub(super) fn rule(redis: &RedisConfig, version: Option<&str>) -> String {
    let version = match version {
        // What follows of its version for a rule is not numbered as for Redis.
        Some(version) if version.starts_with("Valkey") => ServerVersion::V7_2,
        version => version.and_then(|version| version.parse().ok()).unwrap_or_default(),
    };
    let rule = acl::discovery(redis, ServerVersion::min(version, ServerVersion::V7_2));
    format!(
        "discover needs a user that may read all keys, and nothing else; replace PASSWORD, and \
         give redis-cli:\n  {}",
        rule.line
    )
}
