//! One task in the schedule: what is remembered of its readings, and when it is read outside its
//! rhythm.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::redis::wake_ups::Bucket;
use lockwatch_judge::PHANTOM_MS;
use lockwatch_judge::clients_meet;
use lockwatch_judge::reading::{
    Deadline, Held, LockReading, Mode, Switch, SwitchesReading, TurnReading, User,
};
use lockwatch_judge::seldom::Seldom;
use lockwatch_judge::spec::{KindSpec, TaskIndex, TaskSpec};
use lockwatch_judge::time::{Mono, ServerTime};

/// A task that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledTask {
    /// Its position in the configuration.
    pub task: TaskIndex,
    /// Maximum length of a gap before it exceeds the grace; `None`: the task is never wanted, so it
    /// has no gaps.
    pub grace_ms: Option<u64>,
    /// Whether a new holder is read again as soon as it cannot be a phantom any more. Set if
    /// another server may show another holder.
    pub proves_holders: bool,
    /// From when on a hold is no longer young.
    pub settle_ms: u64,
    /// How many hints' worth a hint about it is, because of what a reading costs.
    pub hint_weight: u8,
}

/// A reading of a queue is of hundreds of locks, so it follows one hint in a second.
const QUEUE_HINT_WEIGHT: u8 = 4;

impl ScheduledTask {
    /// The task at `index` with the configuration `spec`.
    pub fn new(index: TaskIndex, spec: &TaskSpec) -> ScheduledTask {
        ScheduledTask {
            task: index,
            grace_ms: spec.may_be_wanted().then_some(spec.grace_ms),
            proves_holders: false,
            settle_ms: spec.settle_ms,
            hint_weight: match spec.kind {
                KindSpec::Lock(_) | KindSpec::Turn(_) => 1,
                KindSpec::Queue(_) => QUEUE_HINT_WEIGHT,
            },
        }
    }
}

/// Minimum age difference in milliseconds between a first answer and the one that confirms it.
const CONFIRMS_MS: u64 = 250;
/// Delay of the confirming read in milliseconds. It is long enough even if the read shares a batch
/// with reads that are due slightly later.
const CONFIRM_AFTER_MS: u64 = 260;
/// Time in milliseconds between the reads before it, where a gap may begin that holds must settle to
/// end, and no server reports changes: a lock that is taken for moments was perhaps taken again in
/// between. A hold that lasts longer than this cannot fall between two of them, whatever the rhythm.
const CONFIRMS_EVERY_MS: u64 = 37;
/// Delay in milliseconds between a deadline and the read of the lock.
const AFTER_DEADLINE_MS: u64 = 20;
/// Delay in milliseconds between the end of the grace and the read of the lock. It is longer than a
/// read that shares its batch may be early.
const AFTER_GRACE_MS: u64 = 20;
/// Delay in milliseconds between the end of the phantom period of a new hold and the read of the
/// lock.
const AFTER_PHANTOM_MS: u64 = 20;
/// Maximum number of beginnings of gaps remembered for one task.
pub(super) const GRACES_MAX: usize = 4;
/// Maximum number of reads after deadlines between two regular reads of a task. It bounds the cost
/// of a lease far shorter than the interval.
pub(super) const DEADLINE_READS: u8 = 8;
/// Number of hints about one task in quick succession that are followed at once. A lock that is
/// taken and released causes two.
const HINTS_AT_ONCE: u32 = 4;
/// Additional hints followed per second, so that a client that renews continuously does not cause
/// continuous reads.
const HINTS_PER_S: u64 = 4;

/// The remembered state of a task.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) task: TaskIndex,
    pub(super) grace_ms: Option<u64>,
    pub(super) slot: usize,
    pub(super) reading: bool,
    /// Why the task is read separately from its slot: see [`Schedule::suspects`] and
    /// [`Schedule::too_large`].
    pub(super) alone: Option<Alone>,
    /// The lock was free when last read, with or without confirmation.
    pub(super) free: bool,
    /// When the lock was first seen free, until that is confirmed.
    pub(super) free_since: Option<Mono>,
    /// When a switch was first seen to have vanished, until that is confirmed.
    pub(super) vanished_since: Option<Mono>,
    /// The switches that were on, sorted.
    pub(super) on: Seldom<Vec<User>>,
    /// When the grace ends of each gap that may have begun: with the lock free, or with a switch
    /// on. Only the state knows which of them began the gap, so there may be several.
    pub(super) graces_over: Seldom<Vec<Mono>>,
    /// Reads after deadlines since the last regular read.
    pub(super) deadline_reads: u8,
    /// When to check whether the lock is still held after its deadline.
    pub(super) deadline_at: Option<Mono>,
    pub(super) proves_holders: bool,
    pub(super) settle_ms: u64,
    /// The lock by its newest reading, while it is held.
    pub(super) held: Option<Arc<Held>>,
    /// When its present holder has been seen for as long as a hold takes to settle.
    pub(super) young_until: Mono,
    /// A young hold is read again at this instant.
    pub(super) young_at: Option<Mono>,
    /// The newest reading, if a glance can confirm it.
    pub(super) known: Option<Arc<Held>>,
    /// The lock may have changed since that reading was requested, so only a whole reading counts.
    pub(super) doubted: bool,
    /// The sweep of its newest whole reading, as far as its turns are concerned.
    pub(super) whole_sweep: u64,
    /// When a new holder cannot be a phantom any more.
    pub(super) proof_at: Option<Mono>,
    /// The next extra read.
    pub(super) extra_at: Option<Mono>,
    /// A hint reported a changed key: the task is read no earlier than this.
    pub(super) hint_at: Option<Mono>,
    pub(super) hints: Bucket,
    pub(super) hint_weight: u8,
}

/// Why a task is read separately from its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// The task may have caused a reply that was too large.
    Suspect,
    /// The task caused one.
    TooLarge,
}

impl Entry {
    pub(super) fn new(watched: ScheduledTask, slot: usize) -> Entry {
        Entry {
            task: watched.task,
            grace_ms: watched.grace_ms,
            slot,
            reading: false,
            alone: None,
            free: false,
            free_since: None,
            vanished_since: None,
            on: Seldom::default(),
            graces_over: Seldom::default(),
            deadline_reads: 0,
            deadline_at: None,
            proves_holders: watched.proves_holders,
            settle_ms: watched.settle_ms,
            held: None,
            young_until: Mono::at(0),
            young_at: None,
            known: None,
            doubted: false,
            whole_sweep: 0,
            proof_at: None,
            extra_at: None,
            hint_at: None,
            hints: Bucket::full(HINTS_AT_ONCE),
            hint_weight: watched.hint_weight,
        }
    }

    /// When to read again outside the rhythm, as of a read at `sent`. `hinted`: the server reports
    /// changes.
    pub(super) fn next_extra(&mut self, sent: Mono, hinted: bool) -> Option<Mono> {
        let grace = self.next_grace(sent).map(|over| over.plus_ms(AFTER_GRACE_MS));
        let confirmation = [self.free_since, self.vanished_since].into_iter().flatten();
        let confirmation =
            confirmation.map(|since| since.plus_ms(CONFIRM_AFTER_MS)).filter(|at| *at > sent).min();
        let may_miss_holds = self.grace_ms.is_some() && self.settle_ms > 0 && !hinted;
        let between = self.free_since.filter(|_| may_miss_holds).and_then(|since| {
            let reads = sent.since_ms(since) / CONFIRMS_EVERY_MS + 1;
            let delay_ms = reads * CONFIRMS_EVERY_MS;
            (delay_ms < CONFIRM_AFTER_MS).then(|| since.plus_ms(delay_ms))
        });
        let deadline = self.deadline_at.filter(|at| *at > sent);
        let proof = self.proof_at.filter(|at| *at > sent);
        let young = self.young_at.filter(|at| *at > sent);
        [confirmation, between, deadline, grace, proof, young].into_iter().flatten().min()
    }

    pub(super) fn observe_lock(&mut self, sent: Mono, lock: &LockReading, hinted: bool) {
        match lock {
            LockReading::Held(held) => {
                self.observe_holder(sent, held, hinted);
                self.somebody_has_it();
            }
            LockReading::Free => {
                (self.held, self.proof_at, self.young_at) = (None, None, None);
                self.nobody_has_it(sent);
            }
            LockReading::Unknown(_) => {}
        }
    }

    /// A new holder is looked at again soon: two holders who overwrite each other's lock show only
    /// between two readings of one of them. Without reports of changes the looks go on until the
    /// hold settles, because regular readings alone may find another hold each time, and never the
    /// free time between them.
    fn observe_holder(&mut self, sent: Mono, held: &Arc<Held>, hinted: bool) {
        let before = self.held.replace(Arc::clone(held));
        let is_first = before.is_none() && !self.free;
        let is_new = before.is_none_or(|old| !clients_meet(&old.holders, &held.holders));
        if is_new {
            // How old the first one is, is unknown; all tasks are read for the first time at once.
            self.young_until = if is_first { sent } else { sent.plus_ms(self.settle_ms) };
            self.proof_at =
                self.proves_holders.then(|| sent.plus_ms(PHANTOM_MS + AFTER_PHANTOM_MS));
        }
        let looks_again = if hinted { is_new && !is_first } else { sent < self.young_until };
        self.young_at = looks_again.then(|| sent.plus_ms(CONFIRM_AFTER_MS));
    }

    pub(super) fn observe_turn(&mut self, sent: Mono, turn: &TurnReading) {
        match turn {
            TurnReading::Read(fields) if fields.is_empty() => self.nobody_has_it(sent),
            TurnReading::Read(_) => self.somebody_has_it(),
            TurnReading::Unknown(_) => {}
        }
    }

    fn somebody_has_it(&mut self) {
        self.free = false;
        self.free_since = None;
        self.graces_over = Seldom::default();
    }

    fn nobody_has_it(&mut self, sent: Mono) {
        if self.free {
            self.free_since = self.free_since.filter(|since| sent.since_ms(*since) < CONFIRMS_MS);
            return;
        }
        self.free = true;
        self.free_since = Some(sent);
        self.gap_may_begin(sent);
    }

    /// Remembers the reading of a lock in a `sweep`, if one client holds it until a known instant.
    /// A change reported while the read was in flight may have come after it. Only a renewal
    /// replaces the task's turn, which was last in `last_turn`. Renewals are spread over time;
    /// other whole readings, such as those after a new connection, come for all tasks together.
    pub(super) fn remember(&mut self, lock: &LockReading, sweep: u64, last_turn: u64) {
        let LockReading::Held(held) = lock else { return self.known = None };
        // A glance returns the copy that it was compared with, and does not remove the doubt.
        if self.known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, held)) {
            let is_renewed =
                self.known.as_ref().is_some_and(|known| known.deadline != held.deadline);
            self.known = is_plain(held).then(|| Arc::clone(held));
            self.doubted = self.hint_at.is_some();
            self.whole_sweep = if is_renewed { sweep } else { last_turn };
        }
    }

    /// The reading that a glance in a `sweep` is compared with, if the newest whole reading was
    /// within the last `sweeps`.
    pub(super) fn known(&self, sweep: u64, sweeps: u64) -> Option<&Arc<Held>> {
        // It may come from a turn before the first sweep.
        let is_recent = sweep.wrapping_sub(self.whole_sweep) < sweeps;
        if is_recent && !self.doubted { self.known.as_ref() } else { None }
    }

    pub(super) fn observe_switches(&mut self, sent: Mono, switches: Option<&SwitchesReading>) {
        let Some(SwitchesReading::Read { switches, whole, .. }) = switches else { return };
        let gone = |user: &User| {
            *whole && switches.binary_search_by(|(other, _)| other.cmp(user)).is_err()
        };
        if self.on.iter().any(gone) {
            self.vanished_since = Some(sent);
        } else {
            self.vanished_since =
                self.vanished_since.filter(|since| sent.since_ms(*since) < CONFIRMS_MS);
        }
        let on =
            || switches.iter().filter(|(_, switch)| *switch == Switch::On).map(|(user, _)| user);
        if self.free && self.on.is_empty() && on().next().is_some() {
            self.gap_may_begin(sent);
        }
        if !on().eq(self.on.iter()) {
            self.on = on().cloned().collect();
        }
    }

    /// When a hint received at `now` may be followed: at once where it may show that the lock, seen
    /// free, was taken again before that is confirmed.
    pub(super) fn next_hint(&self, now: Mono) -> Mono {
        if self.free_since.is_some() {
            return now;
        }
        self.hints.ready_at(u32::from(self.hint_weight), HINTS_PER_S, now)
    }

    /// A hint is followed.
    pub(super) fn follow_hint(&mut self, now: Mono) {
        self.hints.take(u32::from(self.hint_weight), HINTS_PER_S, HINTS_AT_ONCE, now);
        self.hint_at = None;
    }

    fn gap_may_begin(&mut self, at: Mono) {
        let Some(grace_ms) = self.grace_ms else { return };
        // No verdict changes before the lock is confirmed to be free.
        let over = at.plus_ms(grace_ms.max(CONFIRMS_MS));
        // If there are too many, the first and the newest are kept: the gap that exceeds its grace
        // first, and the one that lasts.
        self.graces_over.truncate(GRACES_MAX - 1);
        if self.graces_over.last() != Some(&over) {
            self.graces_over.push(over);
        }
    }

    /// The next instant at which a grace ends, as of a read at `sent`. Instants that this read
    /// covered are removed.
    fn next_grace(&mut self, sent: Mono) -> Option<Mono> {
        if let Some(graces_over) = self.graces_over.present() {
            graces_over.retain(|over| *over >= sent);
        }
        self.graces_over.first().copied()
    }

    /// The task is being read outside its rhythm, with the reads due by `until`. Only reads after
    /// deadlines count, because a hint must not use up any of them.
    pub(super) fn chases_deadline(&mut self, until: Mono) {
        if self.deadline_at.is_some_and(|at| at <= until) {
            self.deadline_reads = self.deadline_reads.saturating_add(1);
        }
    }

    /// Whether the task may be read after one more deadline before its next regular read.
    pub(super) fn may_chase_deadline(&self) -> bool {
        self.deadline_reads < DEADLINE_READS
    }
}

/// One holder, so that only a new deadline can follow.
fn is_plain(held: &Held) -> bool {
    held.mode == Mode::Exclusive && held.holders.len() == 1 && held.deadline.instant().is_some()
}

/// When to check whether the lock is still held after its deadline.
pub(super) fn deadline_read(sent: Mono, server: ServerTime, lock: &LockReading) -> Option<Mono> {
    let LockReading::Held(held) = lock else { return None };
    let Deadline::At(deadline) = held.deadline else { return None };
    let left_ms = u64::try_from(deadline.since_ms(server)).ok().filter(|left_ms| *left_ms > 0)?;
    Some(sent.plus_ms(left_ms).plus_ms(AFTER_DEADLINE_MS))
}
