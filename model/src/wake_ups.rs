//! Server-assisted wake-ups, as far as they can be decided without a socket: for which keys a
//! server is asked to tell of changes, and how many changes are too many. A change that is told is
//! a hint that it is worth reading now, never evidence.

mod bucket;
mod flood;
mod prefixes;

pub use bucket::Bucket;
pub use flood::Flood;
pub use prefixes::{PREFIXES_MAX, prefixes};

use core::{iter, slice};

use crate::spec::{Key, TaskSpec, WantedSource};

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
