//! Server-assisted wake-ups, as far as they can be decided without a socket: for which keys a
//! server is asked to tell of changes, and how many changes are too many. A change that is told is
//! a hint that it is worth reading now, never evidence.

mod bucket;
mod prefixes;

pub use bucket::Bucket;
pub use prefixes::{PREFIXES_MAX, prefixes};

use core::{iter, slice};

use crate::spec::{Key, TaskSpec, WantedSource};

/// So many changes each second are never too many: a few percent of a core of the server, at worst.
const CHANGES_PER_S_MIN: u64 = 1_000;
/// So many always are: from here on, telling them costs more than reading 100,000 locks each
/// second.
const CHANGES_PER_S_MAX: u64 = 15_000;
/// Between the two, changes may come to this share of what polling reads: one in so many.
const POLLS_PER_CHANGE: u64 = 6;

/// How many changes a server may tell each second. More cost it more than polling does.
pub fn changes_per_s(tasks: usize, interval_ms: u64) -> u64 {
    (polls_per_s(tasks, interval_ms) / POLLS_PER_CHANGE).clamp(CHANGES_PER_S_MIN, CHANGES_PER_S_MAX)
}

/// How many tasks polling reads each second.
pub fn polls_per_s(tasks: usize, interval_ms: u64) -> u64 {
    (tasks as u64).saturating_mul(1_000) / interval_ms.max(1)
}

/// The keys of `task` whose change may change its verdict at once: the lock, the switches and the
/// pause.
///
/// Not the others. Progress and claims change as long as all is well, some of them each
/// millisecond, and what they prove they prove over time; host names are for people, and one hash
/// has those of all tasks.
pub fn watched_keys(task: &TaskSpec) -> impl Iterator<Item = &Key> {
    let switches = match task.wanted.as_ref().map(|wanted| &wanted.source) {
        Some(WantedSource::Hash(key) | WantedSource::Set(key) | WantedSource::Counter(key)) => {
            slice::from_ref(key)
        }
        Some(WantedSource::Keys(several)) => several,
        Some(WantedSource::Always | WantedSource::Never) | None => &[],
    };
    iter::once(&task.lock.key).chain(switches).chain(&task.paused_until)
}

#[cfg(test)]
mod tests;
