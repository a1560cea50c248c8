//! Queues of delayed tasks.

use serde::{Deserialize, Serialize};

use super::lock::Holder;
#[cfg(test)]
use super::tests::words;
use super::values::{At, Seconds, Text, Unknown};

/// A queue of delayed tasks. Instants are of the server's clock; figures are `null` when unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Queue {
    /// The sorted set; escaped.
    pub zset: Text,
    /// The unit of its scores.
    #[cfg_attr(test, schemars(with = "Option<words::Unit>"))]
    pub unit: Option<Text>,
    /// The keys of the locks, with `{id}` for the id; escaped; `null` if there are none.
    pub lock: Option<Text>,
    /// The library that makes the locks, as in the configuration.
    pub library: Text,
    /// A due member may wait for this long while no other one leaves.
    pub max_late_seconds: Seconds,
    /// Why the newest reading gave no answer.
    pub unknown: Option<Unknown>,
    /// How many members there are.
    pub members: Option<u64>,
    /// How many of them are due.
    pub due: Option<u64>,
    /// When the next one is due; `null` also if there is none.
    pub next: At,
    /// How many are locked, of those that are looked at.
    pub executing: Option<u64>,
    /// More members are due than are looked at.
    pub executing_more: Option<bool>,
    /// How long the oldest due member has been due whose lock is free; 0 without one.
    pub oldest_due_seconds: Option<Seconds>,
    /// How long a member waits, or none left, once that is too long; otherwise 0.
    pub late_seconds: Seconds,
    /// When a due member left last, or got another score; `null` if that was never seen.
    pub moved: At,
    /// The members that have been due for longest, at most 100.
    pub first: Vec<Member>,
    /// Locks whose members left.
    pub orphans: Vec<Orphan>,
    /// Counts.
    pub totals: QueueTotals,
}

impl Queue {
    /// The members that are executed, the oldest first.
    pub fn executions(&self) -> impl Iterator<Item = (&Member, &Execution)> {
        self.first.iter().filter_map(|member| Some((member, member.execution.as_ref()?)))
    }

    /// The oldest member that waits for somebody to execute it.
    pub fn oldest_waiting(&self) -> Option<&Member> {
        self.first.iter().find(|member| member.execution.is_none() && !member.unread)
    }
}

/// A due member of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "QueueMember"))]
#[serde(default)]
pub struct Member {
    /// Escaped.
    pub id: Text,
    /// `null`: at once.
    pub due: At,
    /// `null` while its lock is free, or was never read.
    pub execution: Option<Execution>,
    /// Its lock could not be read.
    pub unread: bool,
    /// How long it has waited for somebody to execute it.
    pub free_seconds: Seconds,
}

/// Who holds a member's lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Execution {
    /// Who they are.
    pub holders: Vec<Holder>,
    /// When the lock ends, and the next try may begin; `null`: never, or unknown.
    pub until: At,
    /// The holder fell silent.
    pub dead: bool,
}

/// A lock whose member left the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "OrphanLock"))]
#[serde(default)]
pub struct Orphan {
    /// The member; escaped.
    pub id: Text,
    /// Who holds the lock.
    pub execution: Execution,
}

/// Counts since the agent watches the queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueTotals {
    /// Due members that left.
    pub departed: u64,
    /// Of them, those whose lock was ever seen held.
    pub departed_locked: u64,
    /// Of them, those that were never seen locked: not executed, or faster than the readings.
    pub vanished: u64,
    /// Times that another worker took the lock of a member that was executed before.
    pub executed_again: u64,
    /// Locks that expired before their member left.
    pub expired: u64,
    /// Locks that outlived their member for more than 5 seconds.
    pub orphaned: u64,
}
