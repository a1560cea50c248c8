//! Decides when each task of one server is read. A pure type owned by the server's node: outcomes
//! and instants in, batches out.
//!
//! Every task is read once per interval. The tasks are divided into slots of at most
//! [`BATCH_TASKS`], which are spread over the interval, so that other clients of the server never
//! wait long. Two slots close together are read in one batch if nearly all their tasks need only a
//! glance. In addition to this rhythm, and without disturbing it, single tasks are read early when
//! an answer is needed sooner: to confirm that a lock is free or that a switch vanished, right
//! after a deadline passes, right after a gap exceeds the grace, soon after a new holder appears, and,
//! if there are replicas, once a new hold is too old to be a phantom. A task never has two reads outstanding.
//!
//! A hint that a key of a task changed makes the task due at once, within a budget
//! (`schedule/hints.rs`). It does not change the rhythm: tasks without hints are read no later than
//! they would be without any hints.
//!
//! With so many tasks that waiters are not requested in each sweep, the result of a whole reading
//! of a lock is remembered. In the sweeps between, a glance can confirm it. A hint or a failure
//! ends that.
//!
//! A reply that is too large loses the answers of the whole batch. Such a batch is read again in
//! halves until the task is found. That task is then left out, except for a retry every
//! `TOO_LARGE_AGAIN_MS`.

mod due;
mod entry;
mod hints;
mod slot;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::entry::ScheduledTask;
use self::entry::{Alone, Entry, deadline_read};
pub use self::hints::Hinted;
use self::hints::Hints;
pub use self::slot::BATCH_TASKS;
use self::slot::{Slot, is_turn, last_turn, share};
use lockwatch_judge::reading::{GuardReading, Held, SwitchesReading, TaskReading};
use lockwatch_judge::spec::{TaskIndex, position_of};
use lockwatch_judge::time::{Mono, ServerTime};

/// Extra reads that are due within this many milliseconds share a batch.
const GATHER_MS: u64 = 5;
/// Pause in milliseconds before a task whose replies were too large is tried again.
pub const TOO_LARGE_AGAIN_MS: u64 = 60_000;
/// Number of tasks whose waiters and tokens are requested in each sweep.
const EXTRAS_TASKS: usize = 250;
/// Maximum number of sweeps between two requests for the waiters and token of one task.
const EXTRAS_EVERY_MAX: u64 = 10;

/// The sizes of batches, and how often tasks are read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Maximum number of tasks in a slot.
    pub slot_tasks: usize,
    /// Maximum number of tasks in a batch of several slots.
    pub joined_tasks: usize,
    /// Maximum number of tasks read whole in a batch of several slots.
    pub joined_whole: usize,
    /// Slots whose ticks are at most this many milliseconds apart may share a batch.
    pub joined_ms: u64,
    /// Number of sweeps between two requests for waiters and tokens. Locks are read whole as often,
    /// or one sweep later. `None`: derived from the number of tasks.
    pub whole_every: Option<u64>,
}

impl Default for Sizes {
    /// With these sizes, no batch has more commands about tasks than one that reads [`BATCH_TASKS`]
    /// whole.
    fn default() -> Sizes {
        Sizes {
            slot_tasks: BATCH_TASKS,
            joined_tasks: 4 * BATCH_TASKS,
            joined_whole: BATCH_TASKS * 2 / 5,
            joined_ms: 25,
            whole_every: None,
        }
    }
}

/// Tasks that are due together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Why they are due.
    pub kind: BatchKind,
    /// The tasks; empty only for a store without tasks, whose state is still read.
    pub tasks: Vec<TaskIndex>,
    /// Tasks of the slot that are left out, because their replies were too large.
    pub withheld: Vec<TaskIndex>,
}

impl Batch {
    /// Marks that the tasks have changed while the batch is in flight: see [`Schedule::change`].
    pub fn detach(&mut self) {
        if let BatchKind::Regular { .. } = self.kind {
            self.kind = BatchKind::Extra;
        }
    }
}

/// Why a batch is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Some slots are due in the sweep, nearly always one.
    Regular {
        /// Position of the first slot.
        first: usize,
        /// Number of slots.
        slots: usize,
    },
    /// A state needs confirmation, or a deadline has passed.
    Extra,
    /// A reply was too large, and one of these tasks caused it.
    Suspects,
}

/// The plan of one store.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval_ms: u64,
    sizes: Sizes,
    extras_every: u64,
    glances: bool,
    slots: Vec<Slot>,
    /// Sorted by task.
    entries: Vec<Entry>,
    /// Extra reads of the entries that are not being read: due time and entry.
    extras: BTreeSet<(Mono, usize)>,
    /// Hints for the entries that are not being read.
    hints: Hints,
    /// Groups of tasks to be read separately, because one of each group got too large a reply.
    suspects: VecDeque<Vec<TaskIndex>>,
    /// Tasks whose replies were too large, with the time of the next attempt.
    too_large: BTreeSet<(Mono, TaskIndex)>,
    /// The slot that was read least recently.
    oldest: usize,
    /// The part of a sweep at which it began, and the number of parts. It resumes there if it has
    /// no tasks until then.
    resumes_at: (usize, usize),
    /// A slot was read last, so other due reads come before the next slot.
    others_turn: bool,
    /// The newest sweep that had a tick skipped.
    skipped_sweep: Option<u64>,
    skipped: u32,
}

impl Schedule {
    /// A plan that reads each of `tasks` every `interval_ms`. The first slot is due at `start`,
    /// later ones a part of the interval later.
    pub fn new(tasks: Vec<ScheduledTask>, interval_ms: u64, start: Mono) -> Schedule {
        Schedule::sized(tasks, interval_ms, start, Sizes::default())
    }

    /// The same with other sizes than the defaults for real servers.
    pub fn sized(
        tasks: Vec<ScheduledTask>,
        interval_ms: u64,
        start: Mono,
        sizes: Sizes,
    ) -> Schedule {
        Schedule::resumed(tasks, interval_ms, start, sizes, (0, 1))
    }

    /// The same, but the slot at the given part of a sweep is first at `start`.
    fn resumed(
        mut tasks: Vec<ScheduledTask>,
        interval_ms: u64,
        start: Mono,
        sizes: Sizes,
        (part, parts): (usize, usize),
    ) -> Schedule {
        tasks.sort_unstable_by_key(|watched| watched.task);
        tasks.dedup_by_key(|watched| watched.task);
        let interval_ms = interval_ms.max(1);
        let slot_count = tasks.len().div_ceil(sizes.slot_tasks.max(1)).max(1);
        let first = share(slot_count, parts, part).start;
        let slots = (0..slot_count).map(|slot| {
            let ahead = (slot + slot_count - first) % slot_count;
            let next_at =
                start.plus_ms(interval_ms.saturating_mul(ahead as u64) / slot_count as u64);
            Slot {
                entries: share(tasks.len(), slot_count, slot),
                next_at,
                sweep: 0,
                reading: false,
                retry: false,
            }
        });
        let slots: Vec<Slot> = slots.collect();
        // Entries are large, so the capacity is not left to growth.
        let mut entries = Vec::with_capacity(tasks.len());
        entries.extend(slots.iter().enumerate().flat_map(|(position, slot)| {
            tasks
                .get(slot.entries.clone())
                .unwrap_or_default()
                .iter()
                .map(move |watched| Entry::new(*watched, position))
        }));
        let extras_every = (tasks.len().div_ceil(EXTRAS_TASKS) as u64).clamp(1, EXTRAS_EVERY_MAX);
        Schedule {
            interval_ms,
            extras_every: sizes.whole_every.unwrap_or(extras_every).max(1),
            sizes,
            entries,
            glances: false,
            slots,
            extras: BTreeSet::new(),
            hints: Hints::new(tasks.len(), interval_ms),
            suspects: VecDeque::new(),
            too_large: BTreeSet::new(),
            oldest: first,
            resumes_at: (part, parts),
            others_turn: false,
            skipped_sweep: None,
            skipped: 0,
        }
    }

    /// The same plan for tasks that may have other numbers. All remembered readings are dropped,
    /// and batches in flight are ignored. The sweep continues at once at its position, so that
    /// frequent changes do not delay any task.
    #[must_use]
    pub fn replanned(&self, tasks: Vec<ScheduledTask>, interval_ms: u64, now: Mono) -> Schedule {
        Schedule::resumed(tasks, interval_ms, now, self.sizes, self.unanswered())
    }

    /// The slot that has waited for an answer since the oldest tick, or will be the first to do so;
    /// and the number of slots.
    fn unanswered(&self) -> (usize, usize) {
        if self.entries.is_empty() {
            return self.resumes_at;
        }
        let tick = |(_, slot): &(usize, &Slot)| match slot.reading || slot.retry {
            true => Mono::at(slot.next_at.ms().saturating_sub(self.interval_ms)),
            false => slot.next_at,
        };
        let first = self.slots.iter().enumerate().min_by_key(tick);
        first.map_or((0, 1), |(position, _)| (position, self.slots.len()))
    }

    /// Allows glances instead of whole readings. This requires that the server reports changes;
    /// otherwise a value that changes while its deadline stays would be seen late.
    pub fn allow_glances(&mut self, allowed: bool) {
        self.glances = allowed;
    }

    /// Replaces the tasks from `now` on. Remaining tasks keep their rhythm and their remembered
    /// readings; new ones are due at once. Slots are divided again, so the caller must detach
    /// batches in flight: [`Batch::detach`].
    pub fn change(&mut self, tasks: Vec<ScheduledTask>, now: Mono) {
        let first = self.slots.first();
        let (start, sweep) = first.map_or((now, 0), |slot| (slot.next_at, slot.sweep));
        let mut new = Schedule::sized(tasks, self.interval_ms, start, self.sizes);
        let retry = self.slots.iter().any(|slot| slot.retry);
        for slot in &mut new.slots {
            if slot.next_at > now.plus_ms(self.interval_ms) {
                slot.next_at = Mono::at(slot.next_at.ms() - self.interval_ms);
            }
            (slot.sweep, slot.retry) = (sweep, retry);
        }
        for (position, entry) in new.entries.iter_mut().enumerate() {
            match self.position(entry.task).and_then(|old| self.entries.get(old)) {
                Some(old) => {
                    let Entry { slot, grace_ms, settle_ms, hint_weight, .. } = *entry;
                    *entry = Entry { slot, grace_ms, settle_ms, hint_weight, ..old.clone() };
                }
                None => entry.extra_at = Some(now),
            }
            if let (Some(at), false) = (entry.extra_at, entry.reading) {
                new.extras.insert((at, position));
            }
            if let (Some(at), false) = (entry.hint_at, entry.reading) {
                new.hints.insert(at, position);
            }
        }
        new.hints.spend_as(&self.hints);
        let mut suspects = core::mem::take(&mut self.suspects);
        suspects.iter_mut().for_each(|group| group.retain(|task| new.position(*task).is_some()));
        suspects.retain(|group| !group.is_empty());
        let too_large = self
            .too_large
            .iter()
            .filter(|(_, task)| new.position(*task).is_some())
            .copied()
            .collect();
        let (skipped_sweep, skipped) = (self.skipped_sweep, self.skipped);
        *self =
            Schedule { glances: self.glances, suspects, too_large, skipped_sweep, skipped, ..new };
    }

    /// When to call [`Schedule::due`] again: the instant of the next tick or extra read, perhaps in
    /// the past.
    pub fn next_wake(&self) -> Option<Mono> {
        let ticks = self
            .slots
            .iter()
            .map(|slot| if slot.retry && !slot.reading { Mono::at(0) } else { slot.next_at });
        let suspects = self.suspects.front().map(|_| Mono::at(0));
        let again = self.too_large.first().map(|(at, _)| *at);
        let extras = self.extras.first().map(|(at, _)| *at);
        ticks.chain(extras).chain(suspects).chain(again).min()
    }

    /// When to call [`Schedule::due_hinted`] again, perhaps in the past.
    pub fn next_hinted(&self) -> Option<Mono> {
        self.hints.next_at()
    }

    /// The next instant at which [`Schedule::missed`] may return tasks, for use while there is no
    /// connection. A slot that is being read is not missed; the end of its batch is reported
    /// anyway.
    pub fn next_tick(&self) -> Option<Mono> {
        self.slots.iter().filter(|slot| !slot.reading).map(|slot| slot.next_at).min()
    }

    /// The tasks whose regular tick passed by `now` without a connection. They are due as soon as
    /// there is one.
    pub fn missed(&mut self, now: Mono) -> Vec<TaskIndex> {
        let mut missed = Vec::new();
        for slot in &mut self.slots {
            if slot.next_at <= now && !slot.reading {
                slot.pass_ticks(now, self.interval_ms);
                slot.retry = true;
                missed.extend(
                    self.entries
                        .get(slot.entries.clone())
                        .unwrap_or_default()
                        .iter()
                        .map(|entry| entry.task),
                );
            }
        }
        missed
    }

    /// Number of sweeps that had a tick skipped since the last call.
    pub fn take_skipped(&mut self) -> u32 {
        core::mem::take(&mut self.skipped)
    }

    /// Takes in a reading of `task`, sent at `sent`, when the server's clock showed `server`.
    pub fn observe(
        &mut self,
        task: TaskIndex,
        sent: Mono,
        server: ServerTime,
        reading: &TaskReading,
    ) {
        let Some(position) = self.position(task) else { return };
        let Some(entry) = self.entries.get_mut(position) else { return };
        let Some(slot) = self.slots.get(entry.slot) else { return };
        match &reading.guard {
            GuardReading::Lock { lock, .. } => entry.observe_lock(sent, lock, self.glances),
            GuardReading::Turn(turn) => entry.observe_turn(sent, turn),
            GuardReading::Queue(_) => {}
        }
        if let (true, Some(lock)) = (self.extras_every > 1, reading.lock()) {
            let last_turn = last_turn(slot.sweep, position, self.extras_every);
            entry.remember(lock, slot.sweep, last_turn);
        }
        entry.observe_switches(sent, reading.parts.switches.as_ref());
        let deadline = reading.lock().and_then(|lock| deadline_read(sent, server, lock));
        let deadline = deadline.filter(|at| *at < slot.next_at);
        entry.deadline_at = if entry.may_chase_deadline() { deadline } else { None };
        let at = entry.next_extra(sent, self.glances);
        self.plan_extra(position, at);
    }

    /// The newest whole reading of the lock of `task`, if a glance in `batch` is enough to confirm
    /// it.
    pub fn known(&self, batch: &Batch, task: TaskIndex) -> Option<&Arc<Held>> {
        let BatchKind::Regular { .. } = batch.kind else { return None };
        let (slot, position) = self.turn_of(task)?;
        self.known_at(position, slot.sweep)
    }

    /// The same for the entry at `position`, if read in a `sweep`.
    fn known_at(&self, position: usize, sweep: u64) -> Option<&Arc<Held>> {
        if !self.glances {
            return None;
        }
        // Turns spread the whole readings over the sweeps. A task that was renewed in between waits
        // for its next renewal.
        let sweeps = self.extras_every + u64::from(!is_turn(sweep, position, self.extras_every));
        self.entries.get(position)?.known(sweep, sweeps)
    }

    /// Whether waiters and the fencing token of `task` are requested in `batch` too. Each batch
    /// gets a share of the tasks whose turn it is, so that no batch is much longer than others.
    pub fn asks_extras(&self, batch: &Batch, task: TaskIndex) -> bool {
        match batch.kind {
            BatchKind::Regular { .. } => {
                let turn = self.turn_of(task);
                turn.is_some_and(|(slot, position)| {
                    is_turn(slot.sweep, position, self.extras_every)
                })
            }
            BatchKind::Extra => false,
            BatchKind::Suspects => true,
        }
    }

    /// A failure occurred, or another server may have continued. All tasks are read whole next
    /// time.
    pub fn forget_known(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.doubted = true);
    }

    /// Takes in the switches of `task`, if they are on another server than its lock.
    pub fn observe_switches(
        &mut self,
        task: TaskIndex,
        sent: Mono,
        switches: Option<&SwitchesReading>,
    ) {
        let Some(position) = self.position(task) else { return };
        let Some(entry) = self.entries.get_mut(position) else { return };
        entry.observe_switches(sent, switches);
        let at = entry.next_extra(sent, self.glances);
        self.plan_extra(position, at);
    }

    /// A key of `task` may have changed. The task is due at once, or as soon as the budget of hints
    /// allows. A hint is no evidence.
    pub fn hint(&mut self, task: TaskIndex, now: Mono) -> Hinted {
        match self.position(task) {
            Some(position) => self.hint_at(position, now),
            None => Hinted::Foreign,
        }
    }

    /// Any key may have changed.
    pub fn hint_all(&mut self, now: Mono) {
        for position in 0..self.entries.len() {
            self.hint_at(position, now);
        }
    }

    fn hint_at(&mut self, position: usize, now: Mono) -> Hinted {
        let Some(entry) = self.entries.get_mut(position) else { return Hinted::Foreign };
        entry.doubted = true;
        if entry.hint_at.is_some() || entry.alone.is_some() {
            return Hinted::Coalesced;
        }
        let at = entry.next_hint(now);
        entry.hint_at = Some(at);
        if !entry.reading {
            self.hints.insert(at, position);
        }
        Hinted::Planned
    }

    /// `batch` has ended, and nothing needs to be read again early.
    pub fn finished(&mut self, batch: &Batch) {
        self.release(batch);
        if batch.kind == BatchKind::Suspects {
            self.read_alone(&batch.tasks, None);
        }
    }

    /// `batch` failed at `now`, because a reply to one of `suspects` was too large.
    pub fn too_large(&mut self, batch: &Batch, suspects: &[TaskIndex], now: Mono) {
        self.finished(batch);
        match suspects {
            [] => {}
            [task] => {
                self.read_alone(suspects, Some(Alone::TooLarge));
                self.too_large.insert((now.plus_ms(TOO_LARGE_AGAIN_MS), *task));
            }
            _ => {
                self.read_alone(suspects, Some(Alone::Suspect));
                let (first, second) = suspects.split_at(suspects.len() / 2);
                self.suspects.extend([first.to_vec(), second.to_vec()]);
            }
        }
    }

    /// `batch` failed with its connection. Its tasks are due as soon as there is another one.
    pub fn broken(&mut self, batch: &Batch) {
        self.release(batch);
        match batch.kind {
            BatchKind::Regular { .. } => {
                self.slots_of(batch.kind).for_each(|slot| slot.retry = true)
            }
            BatchKind::Suspects => self.suspects.push_front(batch.tasks.clone()),
            BatchKind::Extra => {
                for task in &batch.tasks {
                    if let Some(position) = self.position(*task) {
                        self.plan_extra(position, Some(Mono::at(0)));
                    }
                }
            }
        }
    }

    /// Replaces the next extra read of an entry.
    fn plan_extra(&mut self, position: usize, at: Option<Mono>) {
        let Some(entry) = self.entries.get_mut(position) else { return };
        if let Some(old) = core::mem::replace(&mut entry.extra_at, at) {
            self.extras.remove(&(old, position));
        }
        if let (Some(at), false) = (at, entry.reading) {
            self.extras.insert((at, position));
        }
    }

    fn read_alone(&mut self, tasks: &[TaskIndex], alone: Option<Alone>) {
        for task in tasks {
            let Some(position) = self.position(*task) else { continue };
            if alone.is_some() {
                self.plan_extra(position, None);
            }
            if let Some(entry) = self.entries.get_mut(position) {
                entry.alone = alone;
                if alone.is_some() {
                    self.hints.answer(entry, position);
                }
            }
        }
    }

    fn release(&mut self, batch: &Batch) {
        self.slots_of(batch.kind).for_each(|slot| slot.reading = false);
        for task in &batch.tasks {
            let Some(position) = self.position(*task) else { continue };
            let Some(entry) = self.entries.get_mut(position) else { continue };
            entry.reading = false;
            if let Some(at) = entry.hint_at {
                self.hints.insert(at, position);
            }
            let planned = entry.extra_at;
            self.plan_extra(position, planned);
        }
    }

    /// The slots of a batch of this kind.
    fn slots_of(&mut self, kind: BatchKind) -> impl Iterator<Item = &mut Slot> {
        let (first, slots) = match kind {
            BatchKind::Regular { first, slots } => (first, slots),
            BatchKind::Extra | BatchKind::Suspects => (0, 0),
        };
        self.slots.iter_mut().skip(first).take(slots)
    }

    /// The slot of `task`, and its position among all tasks.
    fn turn_of(&self, task: TaskIndex) -> Option<(&Slot, usize)> {
        let position = self.position(task)?;
        let slot = self.slots.get(self.entries.get(position)?.slot)?;
        Some((slot, position))
    }

    fn position(&self, task: TaskIndex) -> Option<usize> {
        position_of(task, &self.entries, |entry| entry.task)
    }
}

#[cfg(test)]
mod tests;
