//! When is which task of one redis due? A pure type that its sampler owns: outcomes and instants
//! in, batches out.
//!
//! Every task is read once per interval. The tasks are cut into slots of at most [`BATCH_TASKS`],
//! and the slots are spread over the interval, so that no bystander of the server waits long; two
//! that follow each other soon are read together if nearly all of both is only glanced at. Beside
//! this rhythm, and without disturbing it, single tasks are read again soon where an answer is
//! needed sooner: to confirm that a lock is free or that a switch vanished, right after a deadline
//! passes, right after a gap exceeds the grace, and, where there are replicas, once a new hold is
//! too old to be a phantom. A task never has two reads outstanding.
//!
//! A hint that a key of a task changed makes the task due at once, within a budget
//! (`schedule/hints.rs`). It changes nothing else, least of all the rhythm: what is never hinted at
//! is read no later than without any hints.
//!
//! Where there are so many tasks that waiters are not asked for in each sweep, what a whole reading
//! showed of a lock is remembered: in the sweeps between, a glance can tell whether it is still so.
//! A hint ends that, and so does anything that breaks.
//!
//! A reply that is too large to be read costs the whole batch its answers. Such a batch is read
//! again in halves until the task is found; from then on it is left out, but for a new attempt now
//! and then.

mod entry;
mod hints;
mod slot;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::entry::{Apart, Entry, deadline_read};
pub use self::hints::Hinted;
use self::hints::Hints;
use self::slot::{Slot, is_turn, last_turn, share};
use crate::reading::{Held, SwitchesReading, TaskReading};
use crate::spec::{TaskIndex, TaskSpec, position_of};
use crate::time::{Mono, ServerTime};

/// Most tasks in one batch, unless most of them are only glanced at.
pub const BATCH_TASKS: usize = 250;
/// Extra reads that are due this close together share a batch.
const GATHER_MS: u64 = 5;
/// A task whose replies are too large is tried again after this time.
const TOO_LARGE_AGAIN_MS: u64 = 60_000;
/// Waiters and tokens of so many tasks are asked for in each sweep.
const EXTRAS_TASKS: usize = 250;
/// And of each task at least once in so many sweeps.
const EXTRAS_EVERY_MAX: u64 = 10;

/// How much is read at once, and how often all of it.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Most tasks of a slot.
    pub slot_tasks: usize,
    /// Most tasks in a batch of several slots.
    pub joined_tasks: usize,
    /// Most tasks in a batch of several slots that are read whole.
    pub joined_whole: usize,
    /// Slots whose ticks are no further apart than this may share a batch.
    pub joined_ms: u64,
    /// Waiters and tokens are asked for once in so many sweeps, and locks read whole as often, or
    /// one sweep later. `None`: as many as the tasks ask for.
    pub whole_every: Option<u64>,
}

impl Default for Sizes {
    /// With these no batch has more commands about tasks than one in which each of [`BATCH_TASKS`]
    /// is read whole.
    fn default() -> Sizes {
        Sizes {
            slot_tasks: BATCH_TASKS,
            joined_tasks: 2 * BATCH_TASKS,
            joined_whole: BATCH_TASKS / 4,
            joined_ms: 25,
            whole_every: None,
        }
    }
}

/// A task that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Which.
    pub task: TaskIndex,
    /// How long a gap of it may be; `None`: there are none, because nobody ever wants it.
    pub grace_ms: Option<u64>,
    /// A new holder is looked at again as soon as it cannot be a phantom any more: where another
    /// server may show another one.
    pub proves_holders: bool,
}

impl Watched {
    /// The task `index`, which is `spec`.
    pub fn new(index: TaskIndex, spec: &TaskSpec) -> Watched {
        Watched {
            task: index,
            grace_ms: spec.may_be_wanted().then_some(spec.grace_ms),
            proves_holders: false,
        }
    }
}

/// Tasks that are due together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Why they are due.
    pub kind: BatchKind,
    /// Which they are; empty only for a redis without tasks, which is still asked how it is.
    pub tasks: Vec<TaskIndex>,
    /// Tasks of the slot that are not asked for, because their replies were too large.
    pub withheld: Vec<TaskIndex>,
}

impl Batch {
    /// The tasks have changed while it is under way: see [`Schedule::change`].
    pub fn detach(&mut self) {
        if let BatchKind::Regular { .. } = self.kind {
            self.kind = BatchKind::Extra;
        }
    }
}

/// Why a batch is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// It is the turn of some slots in the sweep, nearly always of one.
    Regular {
        /// Position of the first slot.
        first: usize,
        /// How many there are.
        slots: usize,
    },
    /// Something is to be confirmed, or a deadline has passed.
    Extra,
    /// A reply was too large, and one of these tasks is to blame.
    Suspects,
}

/// The plan of one redis.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval_ms: u64,
    sizes: Sizes,
    extras_every: u64,
    glances: bool,
    slots: Vec<Slot>,
    /// Sorted by task.
    entries: Vec<Entry>,
    /// Extra reads of the entries that are not being read: when, and which entry.
    extras: BTreeSet<(Mono, usize)>,
    /// Hints about the entries that are not being read.
    hints: Hints,
    /// Tasks to be read apart from the others, because one of a group got too large a reply.
    suspects: VecDeque<Vec<TaskIndex>>,
    /// Tasks whose replies were too large: when to try again.
    too_large: BTreeSet<(Mono, TaskIndex)>,
    /// The slot that was read least recently.
    oldest: usize,
    /// At which of how many parts of a sweep it began: there it goes on, if it has no tasks until
    /// then.
    resumes_at: (usize, usize),
    /// A slot was read last: what else is due comes before the next one.
    others_turn: bool,
    /// The newest sweep of which a tick was skipped.
    skipped_sweep: Option<u64>,
    skipped: u32,
}

impl Schedule {
    /// A plan that reads each of `tasks` every `interval_ms`, first at `start` (later slots a part
    /// of the interval later).
    pub fn new(tasks: Vec<Watched>, interval_ms: u64, start: Mono) -> Schedule {
        Schedule::sized(tasks, interval_ms, start, Sizes::default())
    }

    /// The same with other sizes than those that suit real servers.
    pub fn sized(tasks: Vec<Watched>, interval_ms: u64, start: Mono, sizes: Sizes) -> Schedule {
        Schedule::resumed(tasks, interval_ms, start, sizes, (0, 1))
    }

    /// The same, but first at `start` comes the slot with which that part, of so many, of a sweep
    /// begins.
    fn resumed(
        mut tasks: Vec<Watched>,
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
        let entries = slots.iter().enumerate().flat_map(|(position, slot)| {
            tasks
                .get(slot.entries.clone())
                .unwrap_or_default()
                .iter()
                .map(move |watched| Entry::new(*watched, position))
        });
        let extras_every = (tasks.len().div_ceil(EXTRAS_TASKS) as u64).clamp(1, EXTRAS_EVERY_MAX);
        Schedule {
            interval_ms,
            extras_every: sizes.whole_every.unwrap_or(extras_every).max(1),
            sizes,
            entries: entries.collect(),
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

    /// The same plan for tasks that may be numbered otherwise than before: nothing that is known of
    /// them counts, and what is under way is nobody's answer. The sweep goes on, at once, where it
    /// was, so that none waits longer because plans are made anew often.
    #[must_use]
    pub fn anew(&self, tasks: Vec<Watched>, interval_ms: u64, now: Mono) -> Schedule {
        Schedule::resumed(tasks, interval_ms, now, self.sizes, self.unanswered())
    }

    /// The slot that has waited for an answer since the oldest tick, or will do so first; and how
    /// many slots there are.
    fn unanswered(&self) -> (usize, usize) {
        if self.entries.is_empty() {
            return self.resumes_at;
        }
        let tick = |(_, slot): &(usize, &Slot)| match slot.reading || slot.retry {
            true => Mono(slot.next_at.0.saturating_sub(self.interval_ms)),
            false => slot.next_at,
        };
        let first = self.slots.iter().enumerate().min_by_key(tick);
        first.map_or((0, 1), |(position, _)| (position, self.slots.len()))
    }

    /// Whether glances may do for whole readings: only where the server tells of changes. Else a
    /// value that changes while its deadline stays would be seen late.
    pub fn allow_glances(&mut self, allowed: bool) {
        self.glances = allowed;
    }

    /// Other tasks are to be read from `now` on. Those that stay keep their rhythm and what is
    /// remembered of them; those that are new are due at once. Slots are cut anew, so that batches
    /// under way must be detached: [`Batch::detach`].
    pub fn change(&mut self, tasks: Vec<Watched>, now: Mono) {
        let first = self.slots.first();
        let (start, sweep) = first.map_or((now, 0), |slot| (slot.next_at, slot.sweep));
        let mut new = Schedule::sized(tasks, self.interval_ms, start, self.sizes);
        let retry = self.slots.iter().any(|slot| slot.retry);
        for slot in &mut new.slots {
            if slot.next_at > now.plus_ms(self.interval_ms) {
                slot.next_at = Mono(slot.next_at.0 - self.interval_ms);
            }
            (slot.sweep, slot.retry) = (sweep, retry);
        }
        for (position, entry) in new.entries.iter_mut().enumerate() {
            match self.position(entry.task).and_then(|old| self.entries.get(old)) {
                Some(old) => {
                    *entry = Entry { slot: entry.slot, grace_ms: entry.grace_ms, ..old.clone() }
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

    /// When to look again for [`Schedule::due`]: the instant of the next tick or extra read,
    /// perhaps in the past.
    pub fn next_wake(&self) -> Option<Mono> {
        let ticks = self
            .slots
            .iter()
            .map(|slot| if slot.retry && !slot.reading { Mono(0) } else { slot.next_at });
        let suspects = self.suspects.front().map(|_| Mono(0));
        let again = self.too_large.first().map(|(at, _)| *at);
        let extras = self.extras.first().map(|(at, _)| *at);
        ticks.chain(extras).chain(suspects).chain(again).min()
    }

    /// When to look again for [`Schedule::due_hinted`], perhaps in the past.
    pub fn next_hinted(&self) -> Option<Mono> {
        self.hints.next_at()
    }

    /// The next instant at which [`Schedule::missed`] has something to say: when to look again
    /// while there is no connection. A slot that is being read is not missed; how its batch ends is
    /// reported anyway.
    pub fn next_tick(&self) -> Option<Mono> {
        self.slots.iter().filter(|slot| !slot.reading).map(|slot| slot.next_at).min()
    }

    /// The next batch that is due at `now`, hints apart, if there is one; the caller must report
    /// how it ended. Where more is due than can be read, slots take turns among themselves and with
    /// everything else: no task waits for ever.
    pub fn due(&mut self, now: Mono) -> Option<Batch> {
        let others_first = core::mem::take(&mut self.others_turn);
        let others = if others_first { self.due_beside(now) } else { None };
        others.or_else(|| self.due_regular(now)).or_else(|| self.due_beside(now))
    }

    /// The next batch of tasks that are due at `now` because of hints alone, if there is one; the
    /// caller must report how it ended. To be asked for when nothing else is due: hinted reads may
    /// wait, because what is due without them reads those tasks too.
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

    /// The tasks whose regular tick passed by `now` while there is no connection. They are due as
    /// soon as there is one.
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

    /// How many sweeps had a tick skipped since the last call.
    pub fn take_skipped(&mut self) -> u32 {
        core::mem::take(&mut self.skipped)
    }

    /// Takes in what was read of `task`: asked at `sent`, when the server's clock stood at
    /// `server`.
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
        entry.observe_lock(sent, &reading.lock);
        if self.extras_every > 1 {
            entry.remember(
                &reading.lock,
                slot.sweep,
                last_turn(slot.sweep, position, self.extras_every),
            );
        }
        entry.observe_switches(sent, reading.beside.switches.as_ref());
        let deadline = deadline_read(sent, server, &reading.lock).filter(|at| *at < slot.next_at);
        entry.deadline_at = deadline.filter(|_| entry.may_chase_deadline());
        let at = entry.next_extra(sent);
        self.plan_extra(position, at);
    }

    /// What the newest whole reading of `task` showed of its lock, if a glance is enough to see in
    /// `batch` whether that is still so.
    pub fn known(&self, batch: &Batch, task: TaskIndex) -> Option<&Arc<Held>> {
        let BatchKind::Regular { .. } = batch.kind else { return None };
        let (slot, position) = self.turn_of(task)?;
        self.known_at(position, slot.sweep)
    }

    /// The same of the entry at `position`, if a `sweep` reads it.
    fn known_at(&self, position: usize, sweep: u64) -> Option<&Arc<Held>> {
        // The turns spread what is read whole over the sweeps; whoever was renewed in between waits
        // for its next renewal.
        let sweeps = self.extras_every + u64::from(!is_turn(sweep, position, self.extras_every));
        self.entries.get(position).filter(|_| self.glances)?.known(sweep, sweeps)
    }

    /// Whether waiters and the fencing token of `task` are asked for in `batch` too. Each batch has
    /// its share of those whose turn it is: no one is much longer than others.
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

    /// Something broke, or may have gone on elsewhere: all is read whole next time.
    pub fn forget_known(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.doubted = true);
    }

    /// Takes in the switches of `task`, where they live on another server than its lock.
    pub fn observe_switches(
        &mut self,
        task: TaskIndex,
        sent: Mono,
        switches: Option<&SwitchesReading>,
    ) {
        let Some(position) = self.position(task) else { return };
        let Some(entry) = self.entries.get_mut(position) else { return };
        entry.observe_switches(sent, switches);
        let at = entry.next_extra(sent);
        self.plan_extra(position, at);
    }

    /// A key of `task` may have changed: it is due at once, or as soon as the budget of hints
    /// allows. A hint is no evidence of anything.
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
        if entry.hint_at.is_some() || entry.apart.is_some() {
            return Hinted::Coalesced;
        }
        let at = entry.next_hint(now);
        entry.hint_at = Some(at);
        if !entry.reading {
            self.hints.insert(at, position);
        }
        Hinted::Planned
    }

    /// `batch` is over, and there is no reason to hurry.
    pub fn finished(&mut self, batch: &Batch) {
        self.release(batch);
        if batch.kind == BatchKind::Suspects {
            self.set_apart(&batch.tasks, None);
        }
    }

    /// `batch` broke at `now`, because a reply to one of `suspects` was too large.
    pub fn too_large(&mut self, batch: &Batch, suspects: &[TaskIndex], now: Mono) {
        self.finished(batch);
        match suspects {
            [] => {}
            [task] => {
                self.set_apart(suspects, Some(Apart::TooLarge));
                self.too_large.insert((now.plus_ms(TOO_LARGE_AGAIN_MS), *task));
            }
            _ => {
                self.set_apart(suspects, Some(Apart::Suspect));
                let (first, second) = suspects.split_at(suspects.len() / 2);
                self.suspects.extend([first.to_vec(), second.to_vec()]);
            }
        }
    }

    /// `batch` broke together with the connection: its tasks are due as soon as there is another
    /// one.
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
                        self.plan_extra(position, Some(Mono(0)));
                    }
                }
            }
        }
    }

    /// The batch that begins with the slot at `first`, if that is due, and the slot after it.
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
            if let Some(slot) = self.slots.get_mut(position).filter(|_| position > first) {
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

    /// Whether the slot at `position` is due; passes its ticks.
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

    /// How many slots share the batch that begins with the one at `first`: those whose ticks come
    /// soon too, where nearly all is glanced at. What a batch costs beside its tasks is saved then,
    /// and yet it keeps the server busy for no longer than any other.
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

    /// Puts what is to be read of the slot at `position` into `batch`.
    fn read_slot(&mut self, position: usize, batch: &mut Batch) {
        let Some(entries) = self.slots.get(position).map(|slot| slot.entries.clone()) else {
            return;
        };
        batch.tasks.reserve(entries.len());
        for position in entries {
            let Some(entry) = self.entries.get_mut(position) else { continue };
            if entry.apart == Some(Apart::TooLarge) {
                batch.withheld.push(entry.task);
            }
            if entry.reading || entry.apart.is_some() {
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

    fn set_apart(&mut self, tasks: &[TaskIndex], apart: Option<Apart>) {
        for task in tasks {
            let Some(position) = self.position(*task) else { continue };
            if apart.is_some() {
                self.plan_extra(position, None);
            }
            if let Some(entry) = self.entries.get_mut(position) {
                entry.apart = apart;
                if apart.is_some() {
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

    /// The slots whose turn such a batch is.
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
