//! Slots: tasks that are read together, and the turns in which their details are requested.

use core::ops::Range;

use lockwatch_judge::time::Mono;

/// Maximum number of tasks in one batch, unless most of them need only a glance. It limits how long
/// a batch keeps the server busy.
pub const BATCH_TASKS: usize = 250;

/// Tasks that are read together.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) entries: Range<usize>,
    /// The next tick.
    pub(super) next_at: Mono,
    /// Number of ticks so far.
    pub(super) sweep: u64,
    pub(super) reading: bool,
    /// The last attempt failed: due as soon as there is a connection.
    pub(super) retry: bool,
}

impl Slot {
    /// Whether its next tick comes within `ms`, or was the last one to come, and none of its tasks
    /// is being read or failed.
    pub(super) fn is_due_within(&self, ms: u64, now: Mono, interval_ms: u64) -> bool {
        let is_near = self.next_at <= now.plus_ms(ms) && now.since_ms(self.next_at) < interval_ms;
        is_near && !self.reading && !self.retry
    }

    /// Moves the next tick beyond `now`; returns the number of ticks passed. The rhythm keeps its
    /// phase.
    pub(super) fn pass_ticks(&mut self, now: Mono, interval_ms: u64) -> u64 {
        let passed = now.since_ms(self.next_at) / interval_ms + 1;
        self.next_at = self.next_at.plus_ms(interval_ms.saturating_mul(passed));
        self.sweep = self.sweep.saturating_add(passed);
        passed
    }
}

/// Whether details of the entry at `position` are requested in a `sweep`.
pub(super) fn is_turn(sweep: u64, position: usize, every: u64) -> bool {
    sweep.wrapping_add(position as u64) % every == 1 % every
}

/// The newest sweep up to `sweep` in which it was its turn, perhaps one before the first sweep.
pub(super) fn last_turn(sweep: u64, position: usize, every: u64) -> u64 {
    let ago = (sweep.wrapping_add(position as u64) % every + every - 1 % every) % every;
    sweep.wrapping_sub(ago)
}

/// The `part`-th of `parts` even shares of `total` things.
pub(super) fn share(total: usize, parts: usize, part: usize) -> Range<usize> {
    total * part / parts..total * (part + 1) / parts
}
