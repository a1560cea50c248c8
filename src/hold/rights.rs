//! What a Redis user must be allowed to do, learned from the commands themselves.

use std::collections::BTreeSet;

use lockwatch_watch::redis::reply::Command;

use super::{Holder, scripts};

/// Commands, keys and channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// By their names in an ACL rule.
    pub commands: BTreeSet<String>,
    /// What is read or written.
    pub keys: BTreeSet<Vec<u8>>,
    /// What is listened to or published on.
    pub channels: BTreeSet<Vec<u8>>,
}

impl Rights {
    /// Those of a guard that holds the lock under `key`.
    pub fn of_lock(key: &[u8], is_cluster: bool) -> Rights {
        let mut rights = Rights::default();
        let field = Holder::new("", 1);
        for command in [
            scripts::take(key, field.field(), 0, 0, ""),
            scripts::renew(key, field.field(), 0),
            scripts::give_back(key, field.field(), is_cluster),
            scripts::fence(key, field.field()),
        ] {
            rights.add_script(&command);
        }
        // What a guard asks about a key that is no lock, and about a lock that changed.
        rights.add(&["type", "hexists"], key);
        if !is_cluster {
            // Before Redis 7 there is no such command.
            rights.commands.remove("spublish");
        }
        rights.channels.insert(scripts::channel(key));
        rights
    }

    /// Adds these commands, and a key.
    pub fn add(&mut self, commands: &[&str], key: &[u8]) {
        self.commands.extend(commands.iter().map(|command| (*command).to_owned()));
        self.keys.insert(key.to_vec());
    }

    /// Adds all of these.
    pub fn join(&mut self, others: Rights) {
        self.commands.extend(others.commands);
        self.keys.extend(others.keys);
        self.channels.extend(others.channels);
    }

    /// Adds `EVAL`, the commands that the script calls, and its keys.
    fn add_script(&mut self, eval: &Command) {
        let [_, script, count, rest @ ..] = &eval.args[..] else { return };
        let (script, count) = (String::from_utf8_lossy(script), String::from_utf8_lossy(count));
        self.commands.insert("eval".to_owned());
        let calls = script.split("call('").skip(1).filter_map(|call| call.split_once('\''));
        self.commands.extend(calls.map(|(command, _)| command.to_owned()));
        self.keys.extend(rest.iter().take(count.parse().unwrap_or(0)).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_follow_from_the_scripts() {
        let rights = Rights::of_lock(b"a:lock", false);
        let commands: Vec<&str> = rights.commands.iter().map(String::as_str).collect();
        let expected = "del eval exists get hdel hexists hset incr pexpire pttl publish set type";
        assert_eq!(commands.join(" "), expected);
        let keys = [&b"a:lock"[..], b"redisson_lock_token:{a:lock}"].map(<[u8]>::to_vec);
        assert_eq!(rights.keys, BTreeSet::from(keys));
        assert!(rights.channels.contains(&b"redisson_lock__channel:{a:lock}"[..]));
        assert!(Rights::of_lock(b"a:lock", true).commands.contains("spublish"));
    }
}
