//! Hints that a key of a task changed. They make reads due earlier, within a budget.
//!
//! A task that changes continuously is read a few times at once, then a few times per second. A
//! hint about a task that is already due, or is read for another reason, costs nothing. All hinted
//! reads share two budgets: one of batches, because each batch adds fixed commands, and one of
//! reads, which may at most double the reads of the regular rhythm. Reads over a budget wait for
//! it. They also wait while anything else is due, which may cover them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::entry::Entry;
use super::slot::BATCH_TASKS;
use crate::redis::wake_ups::{Bucket, polls_per_s};
use lockwatch_judge::time::Mono;

/// Maximum number of batches of hinted tasks without a pause. The first changes after a quiet time
/// are not delayed.
const BATCHES_AT_ONCE: u32 = 16;
/// Additional batches per second. Under load, hints within 25 ms share a batch.
const BATCHES_PER_S: u64 = 40;
/// Minimum budget of hinted reads per second, for a small number of tasks.
const READS_PER_S_MIN: u64 = 1_000;

/// The effect of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hinted {
    /// The task will be read because of the hint.
    Planned,
    /// The task was already due.
    Coalesced,
    /// There is no such task.
    Foreign,
}

/// Entries to be read because of hints, and the remaining budgets.
#[derive(Clone, Debug)]
pub(super) struct Hints {
    due: BTreeSet<(Mono, usize)>,
    batches: Bucket,
    reads: Bucket,
    reads_per_s: u64,
}

impl Hints {
    /// The hints for `tasks` tasks, each of which is read every `interval_ms` anyway.
    pub(super) fn new(tasks: usize, interval_ms: u64) -> Hints {
        let reads_per_s = polls_per_s(tasks, interval_ms).max(READS_PER_S_MIN);
        Hints {
            due: BTreeSet::new(),
            batches: Bucket::full(BATCHES_AT_ONCE),
            reads: Bucket::full(burst(reads_per_s)),
            reads_per_s,
        }
    }

    /// Continues with the remaining budgets of `before`.
    pub(super) fn spend_as(&mut self, before: &Hints) {
        self.batches = before.batches;
        self.reads = before.reads;
    }

    /// Schedules an entry that is not being read for `at`.
    pub(super) fn insert(&mut self, at: Mono, position: usize) {
        self.due.insert((at, position));
    }

    /// An entry is being read, or cannot be read, so its hint is done.
    pub(super) fn answer(&mut self, entry: &mut Entry, position: usize) {
        if let Some(at) = entry.hint_at.take() {
            self.due.remove(&(at, position));
        }
    }

    /// When the next batch may be sent, if any entry waits.
    pub(super) fn next_at(&self) -> Option<Mono> {
        let (at, _) = *self.due.first()?;
        Some(at.max(self.batches.ready_at(1, BATCHES_PER_S, at)).max(self.reads.ready_at(
            1,
            self.reads_per_s,
            at,
        )))
    }

    /// Whether a separate batch may be sent at `now`.
    pub(super) fn may_send(&self, now: Mono) -> bool {
        self.next_at().is_some_and(|at| at <= now)
    }

    /// A separate batch was sent at `now`.
    pub(super) fn sent(&mut self, now: Mono) {
        self.batches.take(1, BATCHES_PER_S, BATCHES_AT_ONCE, now);
    }

    /// Removes at most `most` entries that are due at `now`.
    pub(super) fn take_due(&mut self, most: usize, now: Mono) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, position)) = self.due.first().copied().filter(|(at, _)| *at <= now)
            && self.reads.ready_at(1, self.reads_per_s, now) <= now
        {
            self.due.pop_first();
            self.reads.take(1, self.reads_per_s, burst(self.reads_per_s), now);
            taken.push(position);
        }
        taken
    }
}

/// Maximum number of reads without a pause: the budget of a quarter of a second, and at least one
/// whole batch.
fn burst(reads_per_s: u64) -> u32 {
    u32::try_from(reads_per_s / 4).unwrap_or(u32::MAX).max(BATCH_TASKS as u32)
}
