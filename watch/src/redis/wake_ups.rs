//! Change notifications, as far as they are decided without a socket: the keys for which a server
//! is requested to report changes (CLIENT TRACKING), and how many changes are too many. A reported
//! change is a hint to read now, never evidence.

mod bucket;
mod prefixes;

pub use bucket::Bucket;
pub use prefixes::{PREFIXES_MAX, prefixes};

use alloc::vec::Vec;

use crate::redis::read::watched_asks;
use lockwatch_judge::spec::{Key, TaskSpec};

/// Number of changes per second that is always allowed. It costs at most a few percent of one core
/// of the server.
const CHANGES_PER_S_MIN: u64 = 1_000;
/// Maximum number of changes per second. Above it, notifications cost more than reading 100,000
/// locks each second.
const CHANGES_PER_S_MAX: u64 = 15_000;
/// Between the two limits, the allowed number of changes is one per this many reads of polling.
const POLLS_PER_CHANGE: u64 = 6;

/// Maximum number of changes that a server may report per second. More cost it more than polling
/// does.
pub fn changes_per_s(tasks: usize, interval_ms: u64) -> u64 {
    (polls_per_s(tasks, interval_ms) / POLLS_PER_CHANGE).clamp(CHANGES_PER_S_MIN, CHANGES_PER_S_MAX)
}

/// Number of tasks that polling reads per second.
pub fn polls_per_s(tasks: usize, interval_ms: u64) -> u64 {
    (tasks as u64).saturating_mul(1_000) / interval_ms.max(1)
}

/// The keys of `spec` whose change may change its verdict at once: what guards it, and the
/// parts of which that is so.
///
/// The other keys are excluded. Progress and claims change continuously in normal operation, some
/// of them each millisecond, and they are evidence only over time. Host names are for display only,
/// and one hash has those of all tasks.
pub fn watched_keys(spec: &TaskSpec) -> Vec<Key> {
    let asks = watched_asks(spec);
    let mut keys: Vec<Key> = asks.iter().filter_map(|ask| Some(ask.key()?.to_vec())).collect();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests;
