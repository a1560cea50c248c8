//! One due member of a queue over time.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::execution::{Execution, Replaced};
use crate::evidence::{NOISE_MS, Seen};
use crate::reading::{Held, Holder, Id, LockReading, clients_meet};
use crate::shared::claims::Claims;
use crate::spec::QueueSpec;
use crate::time::{Mono, ServerTime};
use crate::verdict::Wanted;

/// The most holders of one member that are remembered: only the newest ones can still go on.
const REPLACED_MAX: usize = 4;

/// A lock may outlive its task for so long, in milliseconds: a worker removes the member first.
pub(crate) const ORPHAN_MS: u64 = 5_000;
/// What a reading is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) seen: Seen,
    pub(crate) spec: &'a QueueSpec,
    pub(crate) wanted: Wanted,
    /// First evidence that the queue is wanted, if it can be wanted.
    pub(crate) wanted_since: Option<Mono>,
    /// How much longer what is seen has lasted since the reading before, in milliseconds.
    pub(crate) grown_ms: u64,
    /// The data may be others than before.
    pub(crate) other_data: bool,
    /// The server's clock is the one of the reading before.
    pub(crate) same_clock: bool,
    /// Readings that are no further apart are as close as they are meant to be, in milliseconds.
    pub(crate) steady_ms: u64,
    pub(crate) claims: &'a Claims,
    pub(crate) claims_changed: &'a [Vec<u8>],
    pub(crate) fresh_for_ms: u64,
}

/// A member while it has one score, from the reading that first showed it as due.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// The id inside the member, if one is named.
    pub(super) name: Option<Id>,
    pub(super) due: ServerTime,
    pub(super) first_seen: Mono,
    /// By the newest trustworthy reading of its lock.
    pub(super) lock: Lock,
    /// The newest reading of its lock is no answer.
    pub(super) is_unread: bool,
    /// How long it has been due, wanted and free, as far as that was seen: since its lock was last
    /// seen held, or since it is due.
    free_ms: u64,
    /// The part of it that this process saw.
    seen_free_ms: u64,
    /// How long it may have waited before it was seen first; `None`: nothing limits that.
    unseen_ms: Option<u64>,
    pub(super) was_locked: bool,
    /// The newest holder since it has this score.
    execution: Option<Execution>,
    /// Another holder appeared in the reading before: who had it until then, and who has it now.
    unconfirmed: Option<(Vec<Holder>, Vec<Holder>)>,
    /// Who held its lock when it got this score. That execution belongs to the score before.
    held_before: Option<Arc<Held>>,
    replaced: Vec<Replaced>,
    /// Since when it is not in the queue any more. Only its lock is.
    pub(super) gone_since: Option<Mono>,
    /// Its lock was seen held while it was in the queue, and was not shortened when it left or
    /// later. A holder that shortens it keeps it on purpose.
    may_be_orphan: bool,
    orphan_reported: bool,
    pub(super) is_dead: bool,
}

/// The lock of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Lock {
    #[default]
    Unread,
    Free,
    Held(Arc<Held>),
}

/// What a reading of the lock changed.
#[derive(Clone, Debug, Default)]
pub(super) struct LockNews {
    /// Another holder executed it again: who did before, and who did then.
    pub(super) again: Option<(Vec<Holder>, Vec<Holder>)>,
    /// It expired, and the member is still there.
    pub(super) expired: Option<Vec<Holder>>,
    /// Its holder fell silent.
    pub(super) died: bool,
}

impl Entry {
    /// A member that was not seen as due before. It cannot have waited for longer than `unseen_ms`.
    pub(super) fn new(due: ServerTime, at: Mono, unseen_ms: Option<u64>) -> Entry {
        Entry { due, first_seen: at, is_unread: true, unseen_ms, ..Entry::default() }
    }

    /// The same member with another score.
    pub(super) fn rescored(&self, due: ServerTime, at: Mono) -> Entry {
        let held_before = match &self.lock {
            Lock::Held(held) => Some(Arc::clone(held)),
            Lock::Free | Lock::Unread => None,
        };
        Entry { held_before, name: self.name.clone(), ..Entry::new(due, at, Some(0)) }
    }

    /// What people call it.
    pub(super) fn shown<'a>(&'a self, member: &'a [u8]) -> &'a [u8] {
        self.name.as_ref().map_or(member, |name| &name.0)
    }

    /// Whether `due` is another score than that of the member while it was in the queue.
    pub(super) fn was_rescored(&self, due: ServerTime) -> bool {
        self.gone_since.is_none() && self.due != due
    }

    /// When its lock ends, if it is held and that is known.
    pub(super) fn until(&self) -> Option<ServerTime> {
        match &self.lock {
            Lock::Held(held) => held.deadline.instant(),
            Lock::Free | Lock::Unread => None,
        }
    }

    /// Whether the member is in the queue, and its lock is held, by the newest reading.
    pub(super) fn is_executing(&self) -> bool {
        self.gone_since.is_none() && self.is_held()
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.lock, Lock::Held(_)) && !self.is_unread
    }

    /// Whether it waits for somebody to execute it, by the newest trustworthy reading.
    pub(super) fn waits(&self) -> bool {
        self.gone_since.is_none() && self.lock == Lock::Free
    }

    /// How long it has waited though it is wanted, in milliseconds.
    pub(super) fn free_ms(&self) -> u64 {
        if self.waits() { self.free_ms } else { 0 }
    }

    /// Whether it is late, whatever became of other members.
    pub(super) fn is_passed_over(&self, spec: &QueueSpec) -> bool {
        let limit_ms = spec.max_late_ms.saturating_mul(QueueSpec::PASSED_OVER);
        self.free_ms() > limit_ms && self.seen_free_ms > spec.max_late_ms
    }

    /// Whether its lock outlived it for too long by `at`; that is reported once.
    pub(super) fn reports_orphan(&mut self, at: Mono) -> bool {
        let is_orphan = self.orphan_since().is_some_and(|since| at.since_ms(since) > ORPHAN_MS);
        is_orphan && !core::mem::replace(&mut self.orphan_reported, true)
    }

    /// Since when its lock has outlived it, if it does.
    pub(super) fn orphan_since(&self) -> Option<Mono> {
        self.gone_since.filter(|_| self.may_be_orphan && self.is_held())
    }

    pub(super) fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// Takes in a reading of its lock.
    pub(super) fn observe(&mut self, lock: &LockReading, context: &Context<'_>) -> LockNews {
        let mut news = LockNews::default();
        if !context.same_clock
            && let Some(execution) = &mut self.execution
        {
            execution.clock_changed();
        }
        self.is_unread = matches!(lock, LockReading::Unknown(_));
        if !self.is_unread {
            news.again = self.confirmed(lock);
        }
        match lock {
            LockReading::Held(held) => self.held(held, context, &mut news),
            LockReading::Free => self.free(context, &mut news),
            LockReading::Unknown(_) => {}
        }
        if context.wanted == Wanted::No {
            (self.free_ms, self.seen_free_ms) = (0, 0);
        }
        news
    }

    /// The holder that appeared in the reading before, if the member was still there after that, or
    /// it still holds the lock. A worker may also take the lock only to see that the member was
    /// just executed.
    fn confirmed(&mut self, lock: &LockReading) -> Option<(Vec<Holder>, Vec<Holder>)> {
        let (before, now) = self.unconfirmed.take()?;
        let still_holds = match lock {
            LockReading::Held(held) => clients_meet(&held.holders, &now),
            LockReading::Free | LockReading::Unknown(_) => false,
        };
        (self.gone_since.is_none() || still_holds).then_some((before, now))
    }

    fn held(&mut self, held: &Arc<Held>, context: &Context<'_>, news: &mut LockNews) {
        let seen = context.seen;
        let was_shortened = context.same_clock
            && self
                .until()
                .zip(held.deadline.instant())
                .is_some_and(|(before, now)| before.since_ms(now) > NOISE_MS);
        self.may_be_orphan = match self.gone_since {
            None => true,
            Some(_) => self.may_be_orphan && !was_shortened,
        };
        self.lock = Lock::Held(Arc::clone(held));
        self.was_locked = true;
        (self.free_ms, self.seen_free_ms) = (0, 0);
        let is_of_before =
            self.held_before.as_ref().is_some_and(|old| clients_meet(&old.holders, &held.holders));
        match &mut self.execution {
            Some(execution) if clients_meet(execution.holders(), &held.holders) => {
                execution.goes_on(held, seen, context.spec.renewals_per_lease);
            }
            Some(execution) => {
                let before = execution.holders().to_vec();
                *execution = Execution::new(held, seen);
                self.replace(&before, held, seen.sent);
                self.unconfirmed = Some((before, held.holders.clone()));
            }
            None if is_of_before => {}
            None => self.execution = Some(Execution::new(held, seen)),
        }
        if let Some(execution) = &mut self.execution {
            self.is_dead = execution.is_dead(seen.first, context.claims, context.fresh_for_ms);
            news.died = execution.reports_dead(self.is_dead);
        }
    }

    fn replace(&mut self, before: &[Holder], held: &Held, at: Mono) {
        if self.replaced.len() == REPLACED_MAX {
            self.replaced.remove(0);
        }
        self.replaced.extend(before.first().map(|holder| Replaced::new(holder, at)));
        let is_back =
            |old: &Replaced| held.holders.iter().any(|now| now.client == old.holder.client);
        self.replaced.retain(|old| !is_back(old));
    }

    fn free(&mut self, context: &Context<'_>, news: &mut LockNews) {
        let grown_ms = context.grown_ms;
        (self.free_ms, self.seen_free_ms) = match self.lock {
            Lock::Unread => (self.waited_ms(context), 0),
            // It was held until then, at least.
            Lock::Held(_) => (grown_ms, 0),
            Lock::Free => {
                (self.free_ms.saturating_add(grown_ms), self.seen_free_ms.saturating_add(grown_ms))
            }
        };
        self.lock = Lock::Free;
        self.is_dead = false;
        self.replaced.clear();
        self.held_before = None;
        let is_there = self.gone_since.is_none();
        if let Some(execution) = &mut self.execution
            && execution.is_free(context.seen, context.same_clock)
            && is_there
        {
            news.expired = Some(execution.holders().to_vec());
        }
    }

    /// How long it has been due and wanted when it is first seen to be free, in milliseconds.
    fn waited_ms(&self, context: &Context<'_>) -> u64 {
        let (seen, wanted_since) = (context.seen, context.wanted_since);
        if context.wanted == Wanted::Unknown {
            return 0;
        }
        // Zero means "at once". When that was is not known.
        let due = if self.due.ms() <= 0 { self.first_seen } else { seen.mono_of(self.due) };
        let from = wanted_since.map_or(due, |wanted| wanted.max(due));
        let waited_ms = seen.sent.since_ms(from);
        self.unseen_ms.map_or(waited_ms, |unseen_ms| waited_ms.min(unseen_ms))
    }

    /// Takes in which claims changed, unless the holder holds another lock that it may be at work
    /// under.
    pub(super) fn observe_claims(&mut self, context: &Context<'_>, busy: &[Vec<u8>]) {
        for replaced in &mut self.replaced {
            if !busy.contains(&replaced.holder.client) {
                replaced.observe(context.claims_changed, context.seen.sent);
            }
        }
    }

    /// The holders as of the newest trustworthy reading; empty while it is free.
    pub(super) fn holders(&self) -> &[Holder] {
        match &self.lock {
            Lock::Held(held) => &held.holders,
            Lock::Free | Lock::Unread => &[],
        }
    }
}
