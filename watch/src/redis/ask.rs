//! One question about a task. The ACL rule, the redaction of traces, the servers of a task in a
//! cluster and the keys whose changes are announced all follow from the questions, so none of them
//! can forget one.

use alloc::string::String;
use alloc::vec::Vec;

use crate::redis::reply::Command;

/// A command about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The command.
    pub command: Command,
    /// The keys that it reads.
    pub key: Keys,
    /// What its words and its reply may show.
    pub class: Class,
}

/// The keys that a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// The second word of the command.
    Second,
    /// The third word: the second one names what is asked of it.
    Third,
    /// Each word but the first. What stands between these parts of a key is learned from Redis.
    Like(Vec<Vec<u8>>),
}

/// What the words of a command and its reply may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A number without identity: a count, a duration or an instant.
    Number,
    /// Such a number as text.
    Digits,
    /// The server's clock.
    Clock,
    /// The type of a key.
    Type,
    /// Channels, and how many listen to each.
    Listeners,
    /// Members of a sorted set and their scores, or scores alone.
    Scores,
    /// Text that users write for display.
    Text,
    /// A scan of such text.
    Texts,
    /// A scan of instances and their hosts.
    Hosts,
    /// A scan of instances and their claims.
    Claims,
    /// The lock's value. Its library knows what of it is secret.
    Holders,
    /// Members of a sorted set and their scores. The members are holders: the lock's library knows
    /// what of one is secret.
    Members,
    /// Keys that name holders. The lock's library knows what of a name is secret.
    Named,
    /// Any bytes.
    Bytes,
}

impl Ask {
    /// A command whose second word is the key.
    pub fn new(class: Class, command: Command) -> Ask {
        Ask { command, key: Keys::Second, class }
    }

    /// A command whose second word says what is asked of the key that follows.
    pub fn within(class: Class, command: Command) -> Ask {
        Ask { command, key: Keys::Third, class }
    }

    /// A command without a key.
    pub fn keyless(class: Class, command: Command) -> Ask {
        Ask { command, key: Keys::None, class }
    }

    /// The single key that is read.
    pub fn key(&self) -> Option<&[u8]> {
        let place = match self.key {
            Keys::Second => 1,
            Keys::Third => 2,
            Keys::None | Keys::Like(_) => return None,
        };
        self.command.args.get(place).map(Vec::as_slice)
    }

    /// The name of the command in an ACL rule.
    pub fn name(&self) -> String {
        // A command with words before its key, or without a key, is a container of commands.
        let words = if matches!(self.key, Keys::None | Keys::Third) { 2 } else { 1 };
        let names = self.command.args.iter().take(words);
        let names: Vec<_> = names.map(|word| String::from_utf8_lossy(word)).collect();
        names.join("|").to_lowercase()
    }
}
