//! Where the users' switches of a task are.

use lockwatch_judge::spec::{Codec, Key, TaskSpec, WantedSource, WantedSpec};
use lockwatch_watch::command;
use lockwatch_watch::redis::reply::Command;

use crate::text::identity::escape;

/// Maximum number of users that are read, as the agent reads them.
const USERS: &str = "1000";

/// What holds the switches. None of these has more users than it has names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A hash: a field for each user.
    Hash(Key),
    /// A set: its members want the task.
    Set(Key),
    /// A string key for each user.
    Keys(Vec<Key>),
}

/// The switches of a task, and how they are encoded.
///
/// # Errors
/// Why no user of this task has a switch, for a person.
pub fn source(task: &TaskSpec) -> Result<(Source, Codec), String> {
    let name = escape(task.name.as_bytes());
    let Some(WantedSpec { source, codec }) = &task.wanted else {
        return Err(format!(
            "the task {name} has no switches: it has no `wanted`. Say where its users switch it, \
             for example `wanted: {{hash: \"{name}:users\"}}`"
        ));
    };
    let plain = |word: &str, means: &str| {
        Err(format!(
            "the task {name} has no switches: `wanted: {word}` says that {means}. To let users \
             switch it, write where, for example `wanted: {{hash: \"{name}:users\"}}`"
        ))
    };
    match source {
        WantedSource::Hash(key) => Ok((Source::Hash(key.clone()), *codec)),
        WantedSource::Set(key) => Ok((Source::Set(key.clone()), *codec)),
        WantedSource::Keys(keys) => Ok((Source::Keys(keys.clone()), *codec)),
        WantedSource::Counter(key) => Err(format!(
            "the task {name} is wanted by a count, in {}: a count has no users, so nobody's switch \
             can be set or shown. Keep the switches in a hash, a set or single keys",
            escape(key)
        )),
        WantedSource::Always => plain("always", "it is to run at all times"),
        WantedSource::Never => plain("never", "nobody wants it"),
    }
}

impl Source {
    /// Its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Source::Hash(_) => "hash",
            Source::Set(_) => "set",
            Source::Keys(_) => "keys",
        }
    }

    /// All its keys.
    pub fn keys(&self) -> &[Key] {
        match self {
            Source::Hash(key) | Source::Set(key) => std::slice::from_ref(key),
            Source::Keys(keys) => keys,
        }
    }

    /// The key whose server has all of them: in a cluster they share a slot.
    pub(super) fn first(&self) -> &[u8] {
        self.keys().first().map(Vec::as_slice).unwrap_or_default()
    }

    /// The commands that switching sends, by their names in an ACL rule. `fields_end`: the server
    /// has TTLs of fields.
    pub fn commands(&self, fields_end: bool) -> &'static [&'static str] {
        match self {
            Source::Hash(_) if fields_end => {
                &["exec", "hmget", "hpexpireat", "hpexpiretime", "hscan", "hset", "multi", "type"]
            }
            Source::Hash(_) => &["hmget", "hscan", "hset", "type"],
            Source::Set(_) => &["sadd", "sismember", "srem", "sscan", "type"],
            Source::Keys(_) => &["exists", "getrange", "pttl", "set", "type"],
        }
    }

    /// The agent's own questions, which its user may ask.
    pub(super) fn asks(&self) -> Vec<Command> {
        match self {
            Source::Hash(key) => vec![command!("HSCAN", key, "0", "COUNT", USERS)],
            Source::Set(key) => vec![command!("SSCAN", key, "0", "COUNT", USERS)],
            Source::Keys(keys) => keys.iter().flat_map(|key| text_asks(key)).collect(),
        }
    }
}

/// Reads a string with a size limit. `EXISTS` tells an empty one from an absent one.
pub(super) fn text_asks(key: &[u8]) -> [Command; 2] {
    [command!("EXISTS", key), command!("GETRANGE", key, "0", "255")]
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::spec::StoreIndex;
    use lockwatch_watch::redis::libraries;

    use super::*;

    fn message(wanted: Option<WantedSource>) -> String {
        let task = TaskSpec {
            wanted: wanted.map(|source| WantedSpec { source, codec: Codec::Raw }),
            ..TaskSpec::new("out", StoreIndex(0), libraries::lock(b"out:lock", "redisson"))
        };
        source(&task).unwrap_err()
    }

    #[test]
    fn without_users_there_is_nothing_to_switch() {
        assert!(
            message(Some(WantedSource::Counter(b"n".to_vec()))).contains("a count has no users")
        );
        assert!(message(Some(WantedSource::Always)).contains("`wanted: always` says"));
        assert!(message(Some(WantedSource::Never)).contains("`wanted: never` says"));
        assert!(message(None).contains("`wanted: {hash: \"out:users\"}`"));
    }
}
