//! Tracks one lock over time: its holders and when they acquired it, how holds begin and end, and
//! when "free" may be believed.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::ended::{Ended, Unseen, end_by_absence, end_by_successor};
use super::hold::{Context, Hold, continues};
use super::identity::Identity;
use super::renewal::{Leases, Move, PeriodRule};
use super::spec::LockSpec;
use super::stretch::{Break, Stretch};
use crate::continuity::earlier::{BRIEF_MS, Earlier};
use crate::event::End;
use crate::evidence::{Attempts, CONFIRM_AFTER_MS, NOISE_MS};
use crate::reading::{Held, LockReading};
use crate::time::Mono;
use crate::verdict::LockFact;

/// The state of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) leases: Leases,
    rule: PeriodRule,
    /// As of the newest accepted reading.
    present: Present,
    pub(super) attempts: Attempts,
    /// The replication offset of the server at that reading.
    last_offset: Option<u64>,
    earlier: Earlier,
    unbroken: Option<Stretch>,
    /// Absent until a holder is replaced.
    identity: Option<Box<Identity>>,
}

#[derive(Clone, Debug)]
enum Present {
    Nothing,
    Held(Box<Hold>),
    Free { first: Mono, confirmed: bool, fact_before: LockFact },
}

/// What one accepted reading of the lock shows to have happened. Losses, handovers and splits each
/// take it in, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// A hold ended.
    pub(crate) ended: Option<Ended>,
    /// A hold began, and its beginning was observed.
    pub(crate) began: bool,
    /// Nothing was seen for longer than `blind_after` before this reading.
    pub(crate) across_blind: bool,
    /// The deadline of the present hold moved.
    pub(crate) moved: Option<Move>,
    /// A stretch in which somebody held the lock without a break is over.
    pub(crate) broke: Option<Break>,
    /// The new holder had the lock not long ago, and took it while the lease of another ran.
    pub(crate) came_back: bool,
}

impl Lock {
    pub(crate) fn new(spec: &LockSpec) -> Lock {
        Lock {
            leases: Leases::new(spec.lease_ms),
            rule: period_rule(spec),
            present: Present::Nothing,
            attempts: Attempts::default(),
            last_offset: None,
            earlier: Earlier::default(),
            unbroken: None,
            identity: None,
        }
    }

    /// Takes over a changed configuration of the same lock.
    pub(crate) fn configure(&mut self, spec: &LockSpec) {
        self.leases.configure(spec.lease_ms);
        self.rule = period_rule(spec);
    }

    /// The state of the lock, after confirmation.
    pub(crate) fn fact(&self) -> LockFact {
        match (&self.attempts.newest, &self.present) {
            (Err(_), _) | (_, Present::Nothing) => LockFact::Unknown,
            (Ok(()), Present::Held(_)) => LockFact::Held,
            (Ok(()), Present::Free { confirmed: true, .. }) => LockFact::Free,
            (Ok(()), Present::Free { fact_before, .. }) => *fact_before,
        }
    }

    /// Whether the newest reading shows a hold, confirmed or not.
    pub(crate) fn held(&self) -> Option<bool> {
        match (&self.attempts.newest, &self.present) {
            (Err(_), _) | (_, Present::Nothing) => None,
            (Ok(()), present) => Some(matches!(present, Present::Held(_))),
        }
    }

    /// The hold as of the newest accepted reading, also while blind.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match &self.present {
            Present::Held(hold) => Some(hold),
            _ => None,
        }
    }

    /// Since when the lock is free, once that is confirmed.
    pub(crate) fn free_since(&self) -> Option<Mono> {
        match self.present {
            Present::Free { first, confirmed: true, .. } => Some(first),
            _ => None,
        }
    }

    /// How long the lock has been held without a break, by any holder; 0 while it is free.
    pub(crate) fn unbroken_ms(&self) -> u64 {
        let held = self.unbroken.filter(|_| self.hold().is_some());
        held.map_or(0, Stretch::ms)
    }

    /// A sign other than a renewal showed that the holder lives.
    pub(crate) fn sign_of_life(&mut self, at: Mono) {
        if let Present::Held(hold) = &mut self.present {
            hold.last_life = hold.last_life.max(at);
        }
    }

    /// What a process started after the newest reading shows. If it shows the newest renewal, then
    /// it has everything written by the returned instant, because a process begins with a copy of
    /// its predecessor's data from one moment.
    pub(crate) fn shows_renewal_after(&self, reading: &LockReading) -> Option<Mono> {
        self.shown_unmoved(reading)?.renewed_after
    }

    /// The present hold, if a reading shows it with the deadline that it had before.
    pub(crate) fn shown_unmoved(&self, reading: &LockReading) -> Option<&Hold> {
        let (LockReading::Held(held), Some(hold)) = (reading, self.hold()) else { return None };
        let (shown, newest) = held.deadline.instant().zip(hold.deadlines.newest())?;
        let is_that = shown.since_ms(newest).abs() <= NOISE_MS && continues(&hold.held, held);
        is_that.then_some(hold)
    }

    /// The pause between two renewals, if known, in milliseconds.
    pub(crate) fn period_ms(&self) -> Option<u64> {
        match self.hold() {
            Some(hold) => hold.deadlines.period_ms(self.rule, self.leases.of(hold.held.mode)),
            None => self.rule.configured_ms.or_else(|| self.rule.by_lease(self.leases.any()?)),
        }
    }

    /// Takes in a reading. An unknown one changes only the newest attempt.
    pub(crate) fn observe(&mut self, reading: &LockReading, context: Context) -> Observed {
        let seen = context.seen;
        let unseen = Unseen {
            across_blind: self
                .attempts
                .last
                .is_some_and(|last| seen.sent.since_ms(last.sent) > context.blind_after_ms),
            may_have_renewed: self.hold().is_some_and(|hold| {
                let renewed_ms = self.leases.of_renewed(hold.held.mode);
                hold.overdue_ms == 0 && hold.deadlines.expects_renewal(self.period_ms(), renewed_ms)
            }),
        };
        let successor_over = match reading {
            LockReading::Held(held) => self.earlier.of(&held.holders),
            LockReading::Free | LockReading::Unknown(_) => None,
        };
        if context.delta.new_history() && !matches!(reading, LockReading::Unknown(_)) {
            self.earlier.new_history(|offset| context.delta.surely_shares(offset));
        }
        let mut observed = match reading {
            LockReading::Unknown(why) => {
                self.attempts.newest = Err(*why);
                return Observed::default();
            }
            LockReading::Free => self.observe_free(context, unseen),
            LockReading::Held(held) => self.observe_held(held, context, unseen),
        };
        observed.across_blind = unseen.across_blind;
        observed.broke = self.update_stretch(&observed, seen.sent);
        observed.came_back = self.update_identity(&observed, seen.sent);
        if let Some(ended) = &mut observed.ended {
            ended.successor_over = successor_over;
            ended.earlier_brief = self.earlier.brief();
            let given_back = matches!(ended.reason, End::EndedEarly | End::Replaced);
            let brief = given_back && ended.hold.held_ms() < BRIEF_MS;
            self.earlier.over(&ended.hold.held, context.given.offset, brief);
        }
        self.attempts = Attempts::read(seen);
        self.last_offset = context.given.offset;
        observed
    }

    /// Returns the stretch that is over.
    fn update_stretch(&mut self, observed: &Observed, at: Mono) -> Option<Break> {
        let is_new = observed.began || observed.ended.is_some();
        let ended = observed.ended.as_ref();
        let ran_out = ended.and_then(|ended| ended.ran_out);
        // Not at an end that its holder had set.
        let expired = ran_out.is_some() && ended.is_some_and(|it| it.reason == End::Expired);
        let end = match self.present {
            Present::Nothing => None,
            Present::Free { first, confirmed, .. } => {
                (confirmed || observed.across_blind).then_some(ran_out.unwrap_or(first))
            }
            Present::Held(_) if is_new && observed.across_blind => Some(at),
            Present::Held(_) => ran_out.filter(|_| is_new && self.identifies()),
        };
        let over = end.and_then(|end| Some(self.unbroken.take()?.broken_at(end, expired)));
        if self.hold().is_some() {
            self.unbroken.get_or_insert(Stretch { first: at, newest: at }).newest = at;
        }
        over
    }

    /// Updates whether the holder's id distinguishes one holder from another. A library may write
    /// another token with each renewal. Returns whether a client comes back.
    fn update_identity(&mut self, observed: &Observed, at: Mono) -> bool {
        let old = observed.ended.as_ref().filter(|ended| ended.reason == End::Replaced);
        if observed.broke.is_some() || matches!(observed.moved, Some(Move::Renewed { .. })) {
            self.identity.iter_mut().for_each(|identity| identity.stays());
            return false;
        }
        let (Some(old), Present::Held(now), false) = (old, &self.present, observed.across_blind)
        else {
            return false;
        };
        self.identity.get_or_insert_default().replaced(&old.hold.held, &now.held, at)
    }

    /// Whether another id is another holder, as far as that is known.
    pub(crate) fn identifies(&self) -> bool {
        self.identity.as_ref().is_none_or(|identity| identity.identifies())
    }

    fn observe_free(&mut self, context: Context, unseen: Unseen) -> Observed {
        let sent = context.seen.sent;
        let fact_before = match &self.present {
            Present::Nothing => LockFact::Unknown,
            Present::Held(_) => LockFact::Held,
            Present::Free { fact_before, .. } => *fact_before,
        };
        match &mut self.present {
            Present::Free { confirmed: true, .. } => return Observed::default(),
            // Too long ago to be the beginning of this stretch.
            Present::Free { first, .. } if unseen.across_blind => {
                *first = sent;
                return Observed::default();
            }
            Present::Free { first, confirmed, .. } => {
                *confirmed = sent.since_ms(*first) >= CONFIRM_AFTER_MS;
                return Observed::default();
            }
            Present::Nothing | Present::Held(_) => {}
        }
        let before = core::mem::replace(&mut self.present, Present::Nothing);
        let ended = match before {
            Present::Held(hold) => Some(end_by_absence(hold, context, unseen)),
            _ => None,
        };
        // What ran out needs no confirmation.
        let confirmed = ended.as_ref().is_some_and(|ended| ended.ran_out.is_some());
        self.present = Present::Free { first: sent, confirmed, fact_before };
        Observed { ended, ..Observed::default() }
    }

    fn observe_held(&mut self, held: &Arc<Held>, context: Context, unseen: Unseen) -> Observed {
        let lease_ms = self.leases.of(held.mode);
        let last = self.attempts.last;
        if let Present::Held(hold) = &mut self.present
            && continues(&hold.held, held)
            && !hold.is_over_before(held, last, lease_ms, context)
        {
            let moved = hold.observe(held, context, &mut self.leases, self.rule);
            return Observed { moved, ..Observed::default() };
        }
        let watched = !matches!(self.present, Present::Nothing);
        let before = (watched, last, self.last_offset);
        let hold = Box::new(Hold::begin(held, context, before, &self.earlier, lease_ms));
        match core::mem::replace(&mut self.present, Present::Held(hold.clone())) {
            Present::Held(old) => {
                let mut ended = end_by_successor(old, &hold, context, unseen);
                // What identifies nobody proves no break.
                ended.ran_out = ended.ran_out.filter(|_| hold.is_identified());
                Observed { ended: Some(ended), began: true, ..Observed::default() }
            }
            _ => Observed { began: watched, ..Observed::default() },
        }
    }
}

fn period_rule(spec: &LockSpec) -> PeriodRule {
    PeriodRule { configured_ms: spec.renew_every_ms, renewals_per_lease: spec.renewals_per_lease }
}

#[cfg(test)]
mod tests;
