//! What the rules of all users share: for which servers one is, how it begins, and its notes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::config::{HostPort, Login, RedisConfig, SentinelConfig, Servers};

/// Why a pattern is not the key itself.
pub(super) const WIDENED: &str =
    "a ? stands for white space or NUL in a key, which no ACL pattern can contain";

/// The rule for the servers, or for the Sentinels, of one Redis store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// The name of the Redis store.
    pub redis: Arc<str>,
    /// What to know before using it, each a sentence.
    pub notes: Vec<String>,
    /// A line for `redis-cli`. The password is the placeholder `PASSWORD`.
    pub line: String,
}

impl fmt::Display for AclRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        writeln!(f, "{}", self.line)
    }
}

/// A server's version, as far as its ACLs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    /// 7 of 7.2.4.
    pub major: u32,
    /// 2 of 7.2.4.
    pub minor: u32,
}

impl ServerVersion {
    pub(super) const V6_2: ServerVersion = ServerVersion { major: 6, minor: 2 };
    pub(super) const V7_0: ServerVersion = ServerVersion { major: 7, minor: 0 };
    /// The newest version that changes what `discover` needs.
    pub(crate) const V7_2: ServerVersion = ServerVersion { major: 7, minor: 2 };
    /// From here on the fields of a hash can have deadlines. Valkey 9 has them, too.
    pub(super) const V7_4: ServerVersion = ServerVersion { major: 7, minor: 4 };
}

/// 7.0: later versions accept the same rule.
impl Default for ServerVersion {
    fn default() -> ServerVersion {
        ServerVersion::V7_0
    }
}

impl FromStr for ServerVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerVersion, String> {
        const REMEDY: &str = "write a version like 6, 6.2, 7.0 or 8";
        let mut numbers =
            text.split('.').map(|part| part.parse::<u32>().map_err(|_| REMEDY.to_owned()));
        let major = numbers.next().unwrap_or_else(|| Err(REMEDY.to_owned()))?;
        let minor = numbers.next().unwrap_or(Ok(0))?;
        if major < 6 {
            return Err(
                "ACLs came with Redis 6; an older server knows one password only".to_owned()
            );
        }
        Ok(ServerVersion { major, minor })
    }
}

/// The beginning of a rule. `default` is suggested where the configuration names no user.
pub(super) fn opening(login: &Login, default: &str, version: ServerVersion) -> Vec<Vec<u8>> {
    let user = login.username.as_deref().unwrap_or(default);
    let mut words = vec!["ACL", "SETUSER", user, "reset", "on", ">PASSWORD"];
    if version >= ServerVersion::V6_2 {
        words.push("resetchannels");
    }
    words.push("-@all");
    words.into_iter().map(Vec::from).collect()
}

/// Which servers get a rule, and how.
pub(super) fn where_to(redis: &RedisConfig) -> String {
    let configured = addresses(redis.servers.configured());
    match &redis.servers {
        Servers::One(_) => {
            format!(
                "redis {:?} at {configured}: replace PASSWORD, then give this line to redis-cli",
                redis.name
            )
        }
        Servers::Nodes(_) => on_each(redis, &configured),
        Servers::Sentinel(SentinelConfig { master, .. }) => {
            on_each(redis, &format!("the master {master:?} and all its replicas"))
        }
        Servers::Cluster(_) => on_each(
            redis,
            &format!("all servers of the cluster of {configured}, masters and replicas"),
        ),
    }
}

/// Servers do not replicate their users. A replica without the rule would refuse the agent after
/// its promotion.
fn on_each(redis: &RedisConfig, servers: &str) -> String {
    format!(
        "redis {:?}: replace PASSWORD, then give this line to redis-cli on each server: {servers} \
         (users are not replicated), and then ACL SAVE if it has an aclfile, else CONFIG REWRITE: a \
         restart forgets users that are not saved",
        redis.name
    )
}

/// A note about the user of a rule. `within` is the block in which the configuration names it.
pub(super) fn user_note(login: &Login, default: &str, within: &str) -> Option<String> {
    match login.username.as_deref() {
        Some("default") => {
            Some("this changes the user `default`: give lockwatch a user of its own".to_owned())
        }
        Some(_) => None,
        None => Some(format!(
            "set `username: {default}` and the password in the configuration as well{within}"
        )),
    }
}

pub(super) fn addresses(servers: &[HostPort]) -> String {
    servers.iter().map(HostPort::to_string).collect::<Vec<_>>().join(", ")
}
