//! Tracks a queue of delayed tasks: which of its due members wait, which are executed and by whom,
//! and what becomes of them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::entry::{Context, Entry, LockNews};
use crate::event::Party;
use crate::evidence::{Attempts, Seen, is_far};
use crate::reading::{self, Holder, Id, Left, LockReading, Member, Place};
use crate::shared::claims::Claims;
use crate::spec::QueueSpec;
use crate::time::{Mono, ServerTime};
use crate::verdict::Wanted;

/// Before that number of members left, nothing is known about how long executions take.
const DEPARTED_MIN: u64 = 5;

/// A member that two workers execute: its id, and both.
type Twice = (Vec<u8>, Vec<Party>);

/// The state of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(super) attempts: Attempts,
    /// The newest one by the clock before, which has stepped since, or is another server's.
    pub(super) other_clock: Option<Seen>,
    /// The members that are looked at, and locks that members left.
    pub(super) entries: BTreeMap<Vec<u8>, Entry>,
    /// Members whose lock was seen held, and that are not due by the clock of the newest reading,
    /// which is another one: they are not looked at until then.
    pub(super) not_due: BTreeMap<Vec<u8>, ServerTime>,
    /// As of the newest accepted reading.
    pub(super) members: u64,
    pub(super) due: u64,
    /// How many of the due members are looked at.
    pub(super) looked_at: u64,
    /// When the first member is due that is not due yet, if that is known.
    pub(super) next: Option<ServerTime>,
    /// How long none of the members that were due has left, as far as that was seen.
    pub(super) still_ms: u64,
    /// When one left last.
    pub(super) moved: Option<ServerTime>,
    pub(super) counts: Counts,
}

/// What happened since the task was configured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) departed: u64,
    /// Of them, those whose lock was ever seen held.
    pub(super) executed: u64,
    pub(super) vanished: u64,
    pub(super) executed_again: u64,
    pub(super) expired: u64,
    pub(super) orphaned: u64,
}

/// What a reading changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Members that another holder executes: the id, who did before, and who does now.
    pub(crate) again: Vec<(Vec<u8>, Vec<Holder>, Vec<Holder>)>,
    /// Members that stayed when their lock expired, who had it, and whether that holder goes on.
    pub(crate) expired: Vec<(Vec<u8>, Vec<Holder>, bool)>,
    /// Members whose holder fell silent, the holder, and when the lock ends.
    pub(crate) died: Vec<(Vec<u8>, Vec<Holder>, Option<ServerTime>)>,
    /// Locks that outlived their member, who holds them, and when they end.
    pub(crate) orphaned: Vec<(Vec<u8>, Vec<Holder>, Option<ServerTime>)>,
    /// Due members that left and were never seen locked.
    pub(crate) vanished: u64,
    /// Executions last long enough to be seen, so these members were hardly executed.
    pub(crate) is_suspect: bool,
}

impl Queue {
    /// Takes over a changed configuration of the same set.
    pub(crate) fn configure(&mut self, before: &QueueSpec, now: &QueueSpec) {
        let is_same = before.unit == now.unit
            && before.id == now.id
            && before.lock == now.lock
            && before.library == now.library
            && before.claimants == now.claimants;
        if !is_same {
            *self = Queue { counts: self.counts, ..Queue::default() };
        }
    }

    /// Whether somebody executes a member, by the newest reading.
    pub(crate) fn is_executing(&self) -> Option<bool> {
        self.attempts.newest.is_ok().then(|| self.entries.values().any(Entry::is_executing))
    }

    /// How long a member has waited or, if that is shorter, none has left, once it is too long for
    /// a queue that moves; otherwise 0. In milliseconds.
    pub(crate) fn late_ms(&self, spec: &QueueSpec) -> u64 {
        let late_ms = |entry: &Entry| match entry.is_passed_over(spec) {
            true => entry.free_ms(),
            false => Some(entry.free_ms().min(self.still_ms))
                .filter(|late_ms| *late_ms > spec.max_late_ms)
                .unwrap_or(0),
        };
        self.entries.values().map(late_ms).max().unwrap_or(0)
    }

    /// Whether there is evidence that the queue is not stalled: nothing waits for too long, or
    /// members leave.
    pub(crate) fn moves(&self, spec: &QueueSpec) -> bool {
        let waits_long = |entry: &Entry| entry.free_ms() > spec.max_late_ms;
        let nothing_waits = self.attempts.newest.is_ok()
            && !self.entries.values().any(waits_long)
            && !self.is_hidden()
            && self.entries.values().all(|entry| entry.gone_since.is_some() || !entry.is_unread);
        let is_moving = self.moved.is_some() && self.still_ms <= spec.max_late_ms;
        self.late_ms(spec) == 0 && (nothing_waits || is_moving)
    }

    /// Whether all members that are looked at are locked, and more are due.
    fn is_hidden(&self) -> bool {
        self.has_more() && !self.entries.values().any(Entry::waits)
    }

    /// Whether more members are due than are looked at.
    pub(super) fn has_more(&self) -> bool {
        self.due > self.looked_at
    }

    /// Whether a holder is silent.
    pub(crate) fn has_dead_holder(&self) -> bool {
        self.entries.values().any(|entry| entry.is_executing() && entry.is_dead)
    }

    /// Since when the oldest lock has outlived its member.
    pub(crate) fn orphan_since(&self) -> Option<Mono> {
        self.entries.values().filter_map(Entry::orphan_since).min()
    }

    /// The members that two workers execute, with both.
    pub(crate) fn executed_twice(&self, claims: &Claims, fresh_for_ms: u64) -> Vec<Twice> {
        let twice = |(id, entry): (&Vec<u8>, &Entry)| {
            let older = entry.replaced().iter().find(|old| old.goes_on(claims, fresh_for_ms))?;
            let both = core::iter::once(&older.holder).chain(entry.holders());
            Some((entry.shown(id).to_vec(), both.map(|holder| Party::of(holder, None)).collect()))
        };
        self.entries.iter().filter_map(twice).collect()
    }

    /// Takes in an accepted reading.
    pub(crate) fn observe(&mut self, queue: &reading::Queue, context: Context<'_>) -> Changes {
        let now = context.seen.first;
        let mut changes = Changes::default();
        if !context.same_clock {
            self.other_clock = self.attempts.last;
        }
        let mut before = core::mem::take(&mut self.entries);
        let any_was_due = before.values().any(|entry| entry.gone_since.is_none());
        let still_ms = if any_was_due { self.still_ms.saturating_add(context.grown_ms) } else { 0 };
        // Of the members that are not looked at, only their number shows that one left.
        let mut moved = !context.other_data && self.has_more() && queue.due < self.due;
        // Members that are gone from other data may have left, or are lost.
        let is_gone = |left: &Left| {
            let was = before.get(&left.id.0);
            left.place == Place::Gone && was.is_some_and(|old| old.gone_since.is_none())
        };
        let mut is_unclear = context.other_data && queue.left.iter().any(is_gone);
        let (mut looked_at, mut newest) = (0, None);
        for member in queue.first.iter().filter(|member| member.due <= now) {
            let Some(lock) = &member.lock else { continue };
            looked_at += 1;
            newest = newest.max(Some(member.due));
            let old = before.remove(&member.id.0);
            moved |= old.as_ref().is_some_and(|old| old.was_rescored(member.due));
            self.keep(member, lock, old, context, &mut changes);
        }
        for left in &queue.left {
            let Some(old) = before.remove(&left.id.0) else { continue };
            moved |= self.update_left(left, old, context, &mut changes);
        }
        // Nobody looked these up, for another server was read before, or another configuration was
        // in force. Where their scores would be among the first, they left or got other ones.
        let lists = |due: ServerTime| due <= now && (queue.due <= looked_at || Some(due) < newest);
        if before.values().any(|old| old.gone_since.is_none() && lists(old.due)) {
            moved |= !context.other_data;
            is_unclear |= context.other_data;
        }
        self.not_due.retain(|_, due| *due > now);
        let were_locked = before
            .into_iter()
            .filter(|(_, old)| old.gone_since.is_none() && old.was_locked && old.due > now);
        self.not_due.extend(were_locked.map(|(id, old)| (id, old.due)));
        let begins_again = moved || is_unclear || context.wanted == Wanted::No;
        self.still_ms = if begins_again { 0 } else { still_ms };
        if moved {
            self.moved = Some(context.seen.last);
        }
        self.update_claims(context);
        (self.members, self.due, self.looked_at) = (queue.members, queue.due, looked_at);
        self.next = queue.first.iter().map(|member| member.due).find(|due| *due > now);
        self.attempts = Attempts::read(context.seen);
        changes
    }

    /// A due member is among the first.
    fn keep(
        &mut self,
        member: &Member,
        lock: &LockReading,
        old: Option<Entry>,
        context: Context<'_>,
        changes: &mut Changes,
    ) {
        let at = context.seen.sent;
        // If all due members were looked at, a new one was not due then, or not there.
        let unseen_ms = match self.attempts.last {
            Some(last) if !self.has_more() => Some(at.since_ms(last.sent)),
            _ => None,
        };
        // What was not due by the clock before is due at the earliest since that was read last.
        let unstepped_ms =
            self.other_clock.map(|before| at.since_ms(before.mono_of(member.due).min(before.sent)));
        let unseen_ms = unseen_ms.into_iter().chain(unstepped_ms).min();
        let mut entry = match old {
            Some(old) if old.due == member.due && old.gone_since.is_none() => old,
            Some(old) => old.rescored(member.due, at),
            None => Entry::new(member.due, at, unseen_ms),
        };
        entry.was_locked |= self.not_due.remove(&member.id.0) == Some(member.due);
        if member.name.is_some() {
            entry.name.clone_from(&member.name);
        }
        self.look_at(&member.id, entry, lock, context, changes);
    }

    /// Takes in the lock of a member, and keeps it.
    fn look_at(
        &mut self,
        id: &Id,
        mut entry: Entry,
        lock: &LockReading,
        context: Context<'_>,
        changes: &mut Changes,
    ) {
        let LockNews { again, expired, died } = entry.observe(lock, &context);
        let (id, shown) = (|| id.0.clone(), entry.shown(&id.0).to_vec());
        let holders = || entry.holders().to_vec();
        if let Some((before, now)) = again {
            self.counts.executed_again += 1;
            changes.again.push((shown.clone(), before, now));
        }
        if let Some(before) = expired {
            self.counts.expired += 1;
            let is_live =
                |holder: &Holder| context.claims.is_live(&holder.client, context.fresh_for_ms);
            let goes_on = before.iter().any(is_live);
            changes.expired.push((shown.clone(), before, goes_on));
        }
        if died && entry.is_executing() {
            changes.died.push((shown.clone(), holders(), entry.until()));
        }
        if entry.reports_orphan(context.seen.sent) {
            self.counts.orphaned += 1;
            changes.orphaned.push((shown, entry.holders().to_vec(), entry.until()));
        }
        self.entries.insert(id(), entry);
    }

    /// A member that was looked at is none of the first now. Returns whether it was due before and
    /// left.
    fn update_left(
        &mut self,
        left: &Left,
        mut old: Entry,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> bool {
        let at = context.seen.sent;
        match left.place {
            Place::Due(due) if !old.was_rescored(due) && old.gone_since.is_none() => {
                self.look_at(&left.id, old, &left.lock, context, changes);
                false
            }
            Place::Due(due) => {
                if due <= context.seen.first {
                    self.look_at(&left.id, old.rescored(due, at), &left.lock, context, changes);
                }
                old.was_rescored(due)
            }
            Place::Gone if context.other_data => false,
            Place::Gone => {
                let is_news = old.gone_since.is_none();
                if is_news {
                    self.departs(&old, &left.lock, context, changes);
                    old.gone_since = Some(at);
                }
                if matches!(left.lock, LockReading::Held(_)) {
                    self.look_at(&left.id, old, &left.lock, context, changes);
                }
                is_news
            }
        }
    }

    /// A due member left, with this reading of its lock.
    fn departs(
        &mut self,
        old: &Entry,
        lock: &LockReading,
        context: Context<'_>,
        changes: &mut Changes,
    ) {
        let is_locked = matches!(lock, LockReading::Held(_));
        let counts = &mut self.counts;
        if old.was_locked || is_locked {
            counts.executed += 1;
        } else if context.spec.lock.is_some() && old.waits() && *lock == LockReading::Free {
            // What was unread for longer may have been executed meanwhile.
            let is_seen = self.attempts.last.is_some_and(|last| {
                !old.is_unread && context.seen.sent.since_ms(last.sent) <= context.steady_ms
            });
            changes.is_suspect |= is_seen
                && counts.departed >= DEPARTED_MIN
                && counts.executed * 2 >= counts.departed;
            counts.vanished += 1;
            changes.vanished += 1;
        }
        counts.departed += 1;
    }

    fn update_claims(&mut self, context: Context<'_>) {
        let held = self.entries.values().filter(|entry| entry.is_held());
        let holders = held.flat_map(|entry| entry.holders());
        let busy: Vec<Vec<u8>> = holders.map(|holder| holder.client.clone()).collect();
        self.entries.values_mut().for_each(|entry| entry.observe_claims(&context, &busy));
    }
}

/// Whether all scores were written in another unit than the configured one.
pub(crate) fn are_far(queue: &reading::Queue, now: ServerTime) -> bool {
    // An infinite score means "never".
    let was_far = |member: &Member| member.due.ms() != i64::MAX && is_far(member.due, now);
    !queue.first.is_empty() && queue.first.iter().all(was_far)
}
