//! When changes are told so often that telling them costs the server more than polling does: it is
//! asked to stop for a while.

use super::{Bucket, polls_per_s};
use crate::time::Mono;

/// So many changes each second are never too many: a few percent of a core of the server, at worst.
const PER_S_MIN: u64 = 1_000;
/// So many always are: from here on, telling them costs more than reading 100,000 locks each
/// second.
const PER_S_MAX: u64 = 15_000;
/// Between the two, changes may come to this share of what polling reads: one in so many.
const POLLS_PER_CHANGE: u64 = 6;
/// A burst of so many seconds' worth is endured: everybody may start at once.
const BURST_S: u32 = 5;
/// How long the server is left alone at first, and at most.
const PAUSE_MS: (u64, u64) = (60_000, 900_000);
/// After so long without a flood, the next one is a first one.
const FORGET_MS: u64 = 900_000;

/// Judges how often a server tells of changes.
#[derive(Clone, Debug)]
pub struct Flood {
    per_s: u64,
    bucket: Bucket,
    pause_ms: u64,
    /// When the newest pause was over.
    resumed: Mono,
}

impl Flood {
    /// For a server of which `tasks` are read every `interval_ms`.
    pub fn new(tasks: usize, interval_ms: u64) -> Flood {
        let per_s = limit(tasks, interval_ms);
        Flood { per_s, bucket: Bucket::full(burst(per_s)), pause_ms: PAUSE_MS.0, resumed: Mono(0) }
    }

    /// Other tasks are read from now on.
    pub fn change(&mut self, tasks: usize, interval_ms: u64) {
        self.per_s = limit(tasks, interval_ms);
    }

    /// So many changes each second are endured.
    pub fn per_s(&self) -> u64 {
        self.per_s
    }

    /// The server told of `changes` keys. Too many: it shall be left alone for this many
    /// milliseconds.
    pub fn told(&mut self, changes: u32, now: Mono) -> Option<u64> {
        if self.bucket.take(changes, self.per_s, burst(self.per_s), now) {
            return None;
        }
        if now.since_ms(self.resumed) > FORGET_MS {
            self.pause_ms = PAUSE_MS.0;
        }
        let pause_ms = self.pause_ms;
        self.pause_ms = pause_ms.saturating_mul(2).min(PAUSE_MS.1);
        self.resumed = now.plus_ms(pause_ms);
        Some(pause_ms)
    }
}

fn limit(tasks: usize, interval_ms: u64) -> u64 {
    (polls_per_s(tasks, interval_ms) / POLLS_PER_CHANGE).clamp(PER_S_MIN, PER_S_MAX)
}

fn burst(per_s: u64) -> u32 {
    u32::try_from(per_s).unwrap_or(u32::MAX).saturating_mul(BURST_S)
}
