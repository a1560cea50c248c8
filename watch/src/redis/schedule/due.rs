//! Which tasks are due: makes the next batch, of slots in their rhythm and of all other reads.

use alloc::vec::Vec;

use super::entry::Alone;
use super::slot::Slot;
use super::{BATCH_TASKS, Batch, BatchKind, GATHER_MS, Schedule, Sizes};
use lockwatch_judge::time::Mono;

impl Schedule {
    /// Returns the next batch that is due at `now` without hints, if any. The caller must report
    /// how it ended. When more is due than can be read, slots take turns among themselves and with
    /// all other reads, so that no task starves.
    pub fn due(&mut self, now: Mono) -> Option<Batch> {
        let others_first = core::mem::take(&mut self.others_turn);
        let others = if others_first { self.due_beside(now) } else { None };
        others.or_else(|| self.due_regular(now)).or_else(|| self.due_beside(now))
    }

    /// Returns the next batch of tasks that are due at `now` only because of hints, if any. The
    /// caller must report how it ended, and should call this when nothing else is due: hinted reads
    /// may wait, because regular reads cover those tasks too.
    pub fn due_hinted(&mut self, now: Mono) -> Option<Batch> {
        if !self.hints.may_send(now) {
            return None;
        }
        let mut tasks = Vec::new();
        for position in self.hints.take_due(BATCH_TASKS, now) {
            let Some(entry) = self.entries.get_mut(position) else { continue };
            entry.reading = true;
            entry.follow_hint(now);
            if let Some(at) = entry.extra_at {
                self.extras.remove(&(at, position));
            }
            tasks.push(entry.task);
        }
        if tasks.is_empty() {
            return None;
        }
        self.hints.sent(now);
        Some(Batch { kind: BatchKind::Extra, tasks, withheld: Vec::new() })
    }

    fn due_regular(&mut self, now: Mono) -> Option<Batch> {
        let count = self.slots.len();
        let first = self.oldest;
        let mut turns = (0..count).map(|turn| (first + turn) % count);
        let (next, batch) = turns.find_map(|slot| self.due_slots(slot, now))?;
        (self.oldest, self.others_turn) = (next, true);
        Some(batch)
    }

    fn due_beside(&mut self, now: Mono) -> Option<Batch> {
        self.due_suspects(now).or_else(|| self.due_extras(now))
    }

    /// The batch that begins with the slot at `first`, if that slot is due, and the position after
    /// it.
    fn due_slots(&mut self, first: usize, now: Mono) -> Option<(usize, Batch)> {
        if !self.begin_slot(first, now) {
            return None;
        }
        let slots = self.slots_in_batch(first, now);
        let mut batch = Batch {
            kind: BatchKind::Regular { first, slots },
            tasks: Vec::new(),
            withheld: Vec::new(),
        };
        for position in first..first + slots {
            if position > first
                && let Some(slot) = self.slots.get_mut(position)
            {
                slot.pass_ticks(slot.next_at, self.interval_ms);
            }
            self.read_slot(position, &mut batch);
        }
        if batch.tasks.is_empty() && batch.withheld.is_empty() && !self.entries.is_empty() {
            return None;
        }
        self.slots_of(batch.kind).for_each(|slot| slot.reading = true);
        Some((first + slots, batch))
    }

    /// Whether the slot at `position` is due; advances its ticks.
    fn begin_slot(&mut self, position: usize, now: Mono) -> bool {
        let Some(slot) = self.slots.get_mut(position) else { return false };
        let sweep = slot.sweep;
        let passed = if slot.next_at <= now { slot.pass_ticks(now, self.interval_ms) } else { 0 };
        if passed > 1 || (passed == 1 && slot.reading) {
            if self.skipped_sweep.is_none_or(|newest| newest < sweep) {
                self.skipped = self.skipped.saturating_add(1);
            }
            self.skipped_sweep = self.skipped_sweep.max(Some(slot.sweep - 1));
        }
        if slot.reading || (passed == 0 && !slot.retry) {
            return false;
        }
        slot.retry = false;
        true
    }

    /// Number of slots that share the batch beginning with the slot at `first`: those whose ticks
    /// come soon too, when nearly all their tasks need only a glance. This saves the fixed cost of
    /// a batch, and the batch still keeps the server busy for no longer than any other.
    fn slots_in_batch(&self, first: usize, now: Mono) -> usize {
        let Sizes { joined_tasks, joined_whole, joined_ms, .. } = self.sizes;
        let (mut tasks, mut whole) = (0, 0);
        let joins = |(position, slot): &(usize, &Slot)| {
            let is_next = *position > first;
            tasks += slot.entries.len();
            if is_next
                && (tasks > joined_tasks || !slot.is_due_within(joined_ms, now, self.interval_ms))
            {
                return false;
            }
            let sweep = slot.sweep + u64::from(is_next);
            whole +=
                slot.entries.clone().filter(|entry| self.known_at(*entry, sweep).is_none()).count();
            !is_next || whole <= joined_whole
        };
        self.slots.iter().enumerate().skip(first).take_while(joins).count()
    }

    /// Adds the tasks to be read in the slot at `position` to `batch`.
    fn read_slot(&mut self, position: usize, batch: &mut Batch) {
        let Some(entries) = self.slots.get(position).map(|slot| slot.entries.clone()) else {
            return;
        };
        batch.tasks.reserve(entries.len());
        for position in entries {
            let Some(entry) = self.entries.get_mut(position) else { continue };
            if entry.alone == Some(Alone::TooLarge) {
                batch.withheld.push(entry.task);
            }
            if entry.reading || entry.alone.is_some() {
                continue; // It is, or soon will be, read in another batch.
            }
            entry.reading = true;
            entry.deadline_reads = 0;
            batch.tasks.push(entry.task);
            if let Some(at) = entry.extra_at {
                self.extras.remove(&(at, position));
            }
            self.hints.answer(entry, position);
        }
    }

    fn due_suspects(&mut self, now: Mono) -> Option<Batch> {
        if let Some((_, task)) = self.too_large.first().copied().filter(|(at, _)| *at <= now) {
            self.too_large.pop_first();
            self.suspects.push_back(alloc::vec![task]);
        }
        let tasks = self.suspects.pop_front()?;
        for task in &tasks {
            let Some(position) = self.position(*task) else { continue };
            if let Some(entry) = self.entries.get_mut(position) {
                entry.reading = true;
                self.hints.answer(entry, position);
            }
        }
        Some(Batch { kind: BatchKind::Suspects, tasks, withheld: Vec::new() })
    }

    fn due_extras(&mut self, now: Mono) -> Option<Batch> {
        self.extras.first().filter(|(at, _)| *at <= now)?;
        let until = now.plus_ms(GATHER_MS);
        let mut tasks = Vec::new();
        while let Some((_, position)) = self.extras.first().copied().filter(|(at, _)| *at <= until)
            && tasks.len() < BATCH_TASKS
        {
            self.extras.pop_first();
            if let Some(entry) = self.entries.get_mut(position) {
                entry.reading = true;
                entry.extra_at = None;
                entry.chases_deadline(until);
                self.hints.answer(entry, position);
                tasks.push(entry.task);
            }
        }
        Some(Batch { kind: BatchKind::Extra, tasks, withheld: Vec::new() })
    }
}
