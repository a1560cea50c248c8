//! The replies of a server to the commands of the watcher, as Redis gives them.

mod info;
mod scores;
mod values;

use lockwatch_watch::redis::reply::{Command, Reply};

use crate::server::{Entry, Health, Server, Value};
use values::{bytes, too_large, wrong_type};
pub(crate) use values::{error, is_too_large};

impl Server {
    /// The answer to one command at `now`.
    pub(crate) fn execute(&mut self, command: &Command, now: u64) -> Reply {
        let words = &command.args;
        let name = words.first().map(Vec::as_slice).unwrap_or_default();
        if let Some(refusal) = self.refusal(name, words) {
            return refusal;
        }
        let key = words.get(1).map(Vec::as_slice).unwrap_or_default();
        let entry = |server: &Server| server.get(key, now).cloned();
        match name {
            b"TIME" => {
                let shown = self.clock.at(now);
                Reply::Array(vec![
                    number(shown.div_euclid(1_000)),
                    number(shown.rem_euclid(1_000) * 1_000 + 417),
                ])
            }
            b"ECHO" => Reply::Bytes(key.to_vec()),
            b"INFO" => self.info(key),
            b"ROLE" => self.role(),
            b"PEXPIRETIME" => Reply::Int(match self.get(key, now) {
                None => -2,
                Some(Entry { deadline: None, .. }) => -1,
                Some(Entry { deadline: Some(at), .. }) => *at,
            }),
            b"PTTL" => Reply::Int(match self.get(key, now) {
                None => -2,
                Some(Entry { deadline: None, .. }) => -1,
                Some(Entry { deadline: Some(at), .. }) => at - self.clock.at(now),
            }),
            b"EXISTS" => {
                let there = words.iter().skip(1).filter(|key| self.get(key, now).is_some()).count();
                Reply::Int(i64::try_from(there).unwrap_or(i64::MAX))
            }
            b"HSCAN" => match self.get(key, now).map(|entry| &entry.value) {
                None => scanned(Vec::new()),
                Some(Value::Huge) => too_large(),
                Some(Value::Hash(fields)) => scanned(
                    fields.iter().flat_map(|(field, value)| [bytes(field), bytes(value)]).collect(),
                ),
                Some(_) => wrong_type(),
            },
            b"SSCAN" => match self.get(key, now).map(|entry| &entry.value) {
                None => scanned(Vec::new()),
                Some(Value::Set(members)) => {
                    scanned(members.iter().map(|member| bytes(member)).collect())
                }
                Some(_) => wrong_type(),
            },
            b"HMGET" => {
                let asked = words.iter().skip(2);
                match self.get(key, now).map(|entry| &entry.value) {
                    None => Reply::Array(asked.map(|_| Reply::Nil).collect()),
                    Some(Value::Hash(fields)) => {
                        Reply::Array(asked.map(|name| field(fields, name)).collect())
                    }
                    Some(_) => wrong_type(),
                }
            }
            b"GETRANGE" => match entry(self).map(|entry| entry.value) {
                None => Reply::Bytes(Vec::new()),
                Some(Value::Text(mut text)) => {
                    let last =
                        words.get(3).and_then(|last| std::str::from_utf8(last).ok()?.parse().ok());
                    text.truncate(last.map_or(usize::MAX, |last: usize| last.saturating_add(1)));
                    Reply::Bytes(text)
                }
                Some(_) => wrong_type(),
            },
            b"STRLEN" => match entry(self).map(|entry| entry.value) {
                None => Reply::Int(0),
                Some(Value::Text(text)) => {
                    Reply::Int(i64::try_from(text.len()).unwrap_or(i64::MAX))
                }
                Some(_) => wrong_type(),
            },
            b"TYPE" => Reply::Bytes(
                match entry(self).map(|entry| entry.value) {
                    None => &b"none"[..],
                    Some(Value::Text(_)) => b"string",
                    Some(Value::Hash(_) | Value::Huge) => b"hash",
                    Some(Value::Set(_)) => b"set",
                    Some(Value::List(_)) => b"list",
                    Some(Value::Scores(..)) => b"zset",
                }
                .to_vec(),
            ),
            b"LLEN" => match entry(self).map(|entry| entry.value) {
                None => Reply::Int(0),
                Some(Value::List(length)) => Reply::Int(i64::try_from(length).unwrap_or(i64::MAX)),
                Some(_) => wrong_type(),
            },
            b"ZCARD" | b"ZRANGE" | b"ZCOUNT" | b"ZMSCORE" | b"ZSCORE" => {
                self.scores(name, key, words, now)
            }
            b"PUBSUB" => {
                let channels =
                    words.iter().skip(2).flat_map(|channel| [bytes(channel), Reply::Int(0)]);
                Reply::Array(channels.collect())
            }
            b"CLIENT" | b"READONLY" | b"SELECT" => Reply::Bytes(b"OK".to_vec()),
            b"HELLO" => Reply::Nil,
            b"SUBSCRIBE" => Reply::Array(vec![Reply::Bytes(b"subscribe".to_vec())]),
            b"PING" => Reply::Bytes(b"PONG".to_vec()),
            _ => error("ERR", "unknown command"),
        }
    }

    /// Why a command is refused before it is executed.
    fn refusal(&self, name: &[u8], words: &[Vec<u8>]) -> Option<Reply> {
        // Redis looks for the command before anything else.
        if name == b"PEXPIRETIME" && !self.has_pexpiretime {
            return Some(error("ERR", "unknown command"));
        }
        // The commands that Redis answers while it loads, or while a script runs.
        let always = [&b"INFO"[..], b"ROLE", b"TIME"].contains(&name);
        // These are about no key.
        let keyless = [&b"ECHO"[..], b"CLIENT", b"READONLY", b"HELLO", b"SUBSCRIBE", b"PING"];
        let keyless = always || keyless.contains(&name);
        match self.health {
            Health::Loading if !always => {
                return Some(error("LOADING", "Redis is loading the dataset in memory"));
            }
            Health::Busy => return Some(error("BUSY", "Redis is busy running a script.")),
            _ => {}
        }
        if self.alone && !keyless {
            return Some(error("CLUSTERDOWN", "The cluster is down"));
        }
        let moved = |word: &Vec<u8>| self.away.iter().any(|tag| word.starts_with(tag));
        if !always && !self.away.is_empty() && words.get(1).is_some_and(moved) {
            return Some(error("MOVED", "1234 10.0.0.9:6379"));
        }
        let ending = self.forbids.as_deref()?;
        let named = words.iter().skip(1).any(|word| word.ends_with(ending));
        (named && name != b"ECHO").then(|| error("NOPERM", "No permissions to access a key"))
    }
}

fn scanned(items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::Bytes(b"0".to_vec()), Reply::Array(items)])
}

fn field(fields: &[(Vec<u8>, Vec<u8>)], name: &[u8]) -> Reply {
    fields.iter().find(|(known, _)| known == name).map_or(Reply::Nil, |(_, value)| bytes(value))
}

/// A number as text, as in the reply to `TIME`.
fn number(value: i64) -> Reply {
    Reply::Bytes(value.to_string().into_bytes())
}
