//! A lock, its holders, and what surrounds it.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::tests::words;
use super::values::{At, Seconds, Text, Unknown};

/// The lock of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Lock {
    /// Escaped.
    pub key: Text,
    /// The library that makes it, as in the configuration.
    pub library: Text,
    /// By the newest reading; `null` when that gave no answer.
    pub held: Option<bool>,
    /// The same after confirmation.
    #[cfg_attr(test, schemars(with = "words::LockFact"))]
    pub fact: Text,
    /// Why the newest reading gave no answer.
    pub unknown: Option<Unknown>,
    /// `null` unless held.
    pub hold: Option<Hold>,
    /// Who waits for it, where that is known.
    pub waiters: Option<u64>,
    /// Those at the head of its queue, in their order, where the store shows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<Contender>>,
    /// The token last given out, where that is known.
    pub fencing_token: Option<i64>,
    /// Full lifetime of a hold, where configured or learned.
    pub lease_seconds: Option<Seconds>,
    /// Pause between two renewals, where known.
    pub renewal_period_seconds: Option<Seconds>,
    /// What each of its stores shows, in the order of the configuration. Only of a lock that stands
    /// on several; its instants then are on the agent's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<StoreShows>>,
}

impl Lock {
    /// Whether it is held by a session, and ends with it.
    pub fn ends_with_session(&self) -> bool {
        let holds = |it: &Contender| &*it.stands == "holds" && it.session.is_some();
        self.queue.as_ref().is_some_and(|queue| queue.iter().any(holds))
    }
}

/// An entry in the queue of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Contender {
    /// Its name in the queue; escaped.
    pub name: Text,
    /// What it does there.
    #[cfg_attr(test, schemars(with = "words::Stands"))]
    pub stands: Text,
    /// The session with which it ends, as in the holder; `null`: with none. Escaped.
    pub session: Option<Text>,
    /// When it came, by the store's clock. A holder has waited before it got the lock.
    pub since: At,
    /// What it says of itself; escaped.
    pub says: Option<Text>,
}

/// What one of several stores shows of a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StoreShows {
    /// The store's name; escaped.
    pub store: Text,
    /// When it was last read, by the agent's clock.
    pub at: At,
    /// Its holders, none if it is free there; `null` when it was not read, or too long ago.
    pub holders: Option<Vec<Holder>>,
    /// Why the newest reading gave no answer.
    pub unknown: Option<Unknown>,
}

/// The present hold. Its instants are of the server's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Hold {
    /// Whether holders exclude each other.
    #[cfg_attr(test, schemars(with = "words::Mode"))]
    pub mode: Text,
    /// Who holds it.
    pub holders: Vec<Holder>,
    /// Readers that died but still block writers.
    pub ghosts: u32,
    /// When it was acquired; `null` when that was not seen.
    pub acquired: At,
    /// Held for at least this long.
    pub held_seconds: Seconds,
    /// What was left of the lease at the newest reading.
    pub ttl_seconds: Option<Seconds>,
    /// When the lease ends.
    pub deadline: At,
    /// Held without any TTL; `null` when the deadline is unknown.
    pub persistent: Option<bool>,
    /// A holder's value is a time in the past, and the lock's library does not say whether that is
    /// when the holder began or when its lease ends.
    pub value_is_past: bool,
    /// When it was last renewed.
    pub last_renewal: At,
    /// How much later than its schedule that was.
    pub last_renewal_latency_seconds: Option<Seconds>,
    /// TTL that was left then.
    pub last_renewal_margin_seconds: Option<Seconds>,
    /// How late the next renewal is by now; 0 when it is not.
    pub renewal_overdue_seconds: Seconds,
}

/// Who holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Holder {
    /// Escaped, or eight hex digits of its SHA-256 where it is a secret; never with the thread.
    /// Empty: the lock's value is the same for every holder.
    pub holder: Text,
    /// Whether `holder` is a digest.
    pub digest: bool,
    /// Its host by the hash `hosts`; escaped.
    pub host: Option<Text>,
    /// How often it has entered the lock.
    pub entries: Option<u32>,
}

/// What a server that does not decide shows of the lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Witness {
    /// `host:port`; escaped.
    pub node: Text,
    /// The role that it reports.
    #[cfg_attr(test, schemars(with = "words::Role"))]
    pub role: Text,
    /// When it was read, by the agent's clock.
    pub at: At,
    /// `null` when it shows none.
    pub holders: Option<Vec<Holder>>,
    /// How far a replica's deadline is behind; `null` when that is unknown.
    pub behind_seconds: Option<Seconds>,
}

/// The runs of a task's script, as its guards state them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Runs {
    /// The newest runs that ended, oldest first: at most three.
    pub ended: Vec<EndedRun>,
    /// Runs that go on, as far as their guards wrote it last.
    pub present: Vec<PresentRun>,
    /// The script fails again and again; `null` when that is unknown.
    pub failing: Option<bool>,
    /// Number of fields among the claims that no guard wrote, or not completely.
    pub unreadable: u32,
}

/// A run of a task's script that ended. Its instants are of the server's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EndedRun {
    /// The host of the guard; escaped.
    pub host: Text,
    /// When it began.
    pub from: At,
    /// When it ended, or the next guard began if its own stated no end.
    pub to: At,
    /// 128 and more for a signal; `null`: its guard was killed with it, and stated none.
    pub exit_code: Option<u8>,
    /// The guard ended it, for whatever reason.
    pub asked: bool,
}

/// A run of a task's script that goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PresentRun {
    /// The host of the guard; escaped.
    pub host: Text,
    /// When it began, by the server's clock.
    pub from: At,
}
