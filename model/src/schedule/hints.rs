//! Hints: "a key of this task changed". They make reads due earlier and cost no more than their
//! budget allows.
//!
//! A task that changes without a pause is read some times at once, then a few times a second. A
//! hint about a task that is waiting to be read, or that is read for another reason, costs nothing.
//! All hinted reads together share two budgets: one of batches, since each batch asks the server
//! some questions of its own, and one of reads, which may at most double what the rhythm reads
//! anyway. What exceeds a budget waits for it, and while anything else is due it waits too; the
//! rhythm may be first.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::BATCH_TASKS;
use super::entry::Entry;
use crate::time::Mono;
use crate::wake_ups::{Bucket, polls_per_s};

/// So many batches of hinted tasks may follow each other without a pause: the first changes after a
/// quiet time are not gathered.
const BATCHES_AT_ONCE: u32 = 16;
/// And so many more each second: under load, what is hinted at within 25 ms shares a batch.
const BATCHES_PER_S: u64 = 40;
/// Hinted reads that are allowed each second however few tasks there are.
const READS_PER_S_MIN: u64 = 1_000;

/// What became of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hinted {
    /// The task will be read because of it.
    Planned,
    /// The task was waiting to be read already.
    Coalesced,
    /// There is no such task.
    Foreign,
}

/// Entries that are to be read because of a hint, and what that may cost.
#[derive(Clone, Debug)]
pub(super) struct Hints {
    due: BTreeSet<(Mono, usize)>,
    batches: Bucket,
    reads: Bucket,
    reads_per_s: u64,
}

impl Hints {
    /// Those of `tasks` tasks, each of which is read every `interval_ms` anyway.
    pub(super) fn new(tasks: usize, interval_ms: u64) -> Hints {
        let reads_per_s = polls_per_s(tasks, interval_ms).max(READS_PER_S_MIN);
        Hints {
            due: BTreeSet::new(),
            batches: Bucket::full(BATCHES_AT_ONCE),
            reads: Bucket::full(burst(reads_per_s)),
            reads_per_s,
        }
    }

    /// Goes on with what `before` had left of its budgets.
    pub(super) fn spend_as(&mut self, before: &Hints) {
        self.batches = before.batches;
        self.reads = before.reads;
    }

    /// An entry that is not being read is to be read at `at`.
    pub(super) fn insert(&mut self, at: Mono, position: usize) {
        self.due.insert((at, position));
    }

    /// An entry is being read, or cannot be: its hint has done what it can.
    pub(super) fn answer(&mut self, entry: &mut Entry, position: usize) {
        if let Some(at) = entry.hint_at.take() {
            self.due.remove(&(at, position));
        }
    }

    /// When the next batch may go out, if there is anything for it.
    pub(super) fn next_at(&self) -> Option<Mono> {
        let (at, _) = *self.due.first()?;
        Some(at.max(self.batches.ready_at(1, BATCHES_PER_S, at)).max(self.reads.ready_at(
            1,
            self.reads_per_s,
            at,
        )))
    }

    /// Whether a batch of its own may go out at `now`.
    pub(super) fn may_send(&self, now: Mono) -> bool {
        self.next_at().is_some_and(|at| at <= now)
    }

    /// A batch of its own goes out at `now`.
    pub(super) fn sent(&mut self, now: Mono) {
        self.batches.take(1, BATCHES_PER_S, BATCHES_AT_ONCE, now);
    }

    /// Takes out at most `most` entries that are due at `now`.
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

/// So many reads may follow each other without a pause: a quarter of a second's worth, and at least
/// one whole batch.
fn burst(reads_per_s: u64) -> u32 {
    u32::try_from(reads_per_s / 4).unwrap_or(u32::MAX).max(BATCH_TASKS as u32)
}
