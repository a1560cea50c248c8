//! The rules for a task that a lock guards.

use crate::limit::Limit;
use crate::verdict::{GuardFact, LockFact, Rule, Term, Verdict, Wanted};

/// Everything that the verdict on a lock depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockFacts {
    /// Whether users want the task; a lost "on" counts as yes.
    pub wanted: Wanted,
    /// What is known of the lock.
    pub lock: LockFact,
    /// There is positive evidence of more than one holder.
    pub split: bool,
    /// The gap is longer than `grace`.
    pub gap_over_grace: bool,
    /// The gap is longer than `grace`, and was published as `down` while the lock was free.
    pub down_goes_on: bool,
    /// The progress has not moved for longer than `stale_after`.
    pub stale: bool,
    /// Held though not wanted for longer than `wind_down`.
    pub over_wind_down: bool,
    /// No trustworthy answer on what matters for longer than `blind_after`.
    pub blind: bool,
}

const HELD: &[GuardFact] = &[GuardFact::Lock(LockFact::Held)];
pub(crate) const FREE: &[GuardFact] = &[GuardFact::Lock(LockFact::Free)];
const KNOWN: &[GuardFact] = &[GuardFact::Lock(LockFact::Free), GuardFact::Lock(LockFact::Held)];

/// The rules, in the order in which they are considered.
pub(crate) static RULES: [Rule; 16] = [
    Rule::SPLIT_EVIDENCE,
    Rule::LOCK_BLIND,
    // A hold that lasted would have ended the blindness.
    Rule {
        name: "wanted_blind",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Is(KNOWN), Term::Wanted(&[Wanted::Unknown]), Term::Over(Limit::BlindAfter)],
        sentence: "Whether users want the task could not be read for longer than {blind_after}, \
                   and no hold has lasted since.",
    },
    Rule::KEEP_PREVIOUS,
    Rule::NOTHING_YET,
    Rule {
        name: "held_briefly",
        verdict: Some(Verdict::Down),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::Yes]), Term::PublishedDown],
        sentence: "{wants}, and no hold has lasted for longer than {grace}. {holders} holds the \
                   lock now, and must hold it for {settle}.",
    },
    Rule {
        name: "no_progress",
        verdict: Some(Verdict::Stalled),
        when: &[Term::Is(HELD), Term::Wanted(Wanted::YES_OR_UNSET), Term::Over(Limit::StaleAfter)],
        sentence: "The lock is held, but {still} for longer than {stale_after}.",
    },
    Rule {
        name: "held_unwanted",
        verdict: Some(Verdict::Unwanted),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::No]), Term::Over(Limit::WindDown)],
        sentence: "The lock is held though nobody has wanted the task for longer than {wind_down}.",
    },
    Rule {
        name: "held_wanted",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::Yes])],
        sentence: "The lock is held. {wants}.",
    },
    Rule {
        name: "held_unset",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::Unset])],
        sentence: "The lock is held; no switches are configured.",
    },
    Rule {
        name: "held_wanted_unknown",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::Unknown])],
        sentence: "The lock is held; whether users want it cannot be read.",
    },
    Rule {
        name: "winding_down",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(HELD), Term::Wanted(&[Wanted::No]), Term::Within(Limit::WindDown)],
        sentence: "The lock is held though nobody wants the task any more; that is within \
                   {wind_down}.",
    },
    Rule {
        name: "gap_over_grace",
        verdict: Some(Verdict::Down),
        when: &[Term::Is(FREE), Term::Wanted(&[Wanted::Yes]), Term::Over(Limit::Grace)],
        sentence: "{wants}, the lock is free, and no hold has lasted for {settle} for longer than \
                   {grace}.",
    },
    Rule {
        name: "gap_within_grace",
        verdict: Some(Verdict::Pending),
        when: &[Term::Is(FREE), Term::Wanted(&[Wanted::Yes]), Term::Within(Limit::Grace)],
        sentence: "{wants}, and nobody holds the lock yet; that is within {grace}.",
    },
    Rule {
        name: "free_unwanted",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(FREE), Term::Wanted(&[Wanted::No])],
        sentence: "The lock is free and nobody wants it.",
    },
    Rule {
        name: "free_unset",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(FREE), Term::Wanted(&[Wanted::Unset])],
        sentence: "The lock is free; no switches are configured.",
    },
];

impl LockFacts {
    /// Whether neither the lock nor, while it is free, the wish of the users is known.
    pub(crate) fn unjudgeable(self) -> bool {
        self.lock == LockFact::Unknown
            || self.lock == LockFact::Free && self.wanted == Wanted::Unknown
    }

    pub(crate) fn is_over(self, limit: Limit) -> bool {
        match limit {
            Limit::Grace => self.gap_over_grace,
            Limit::StaleAfter => self.stale,
            Limit::WindDown => self.over_wind_down,
            Limit::BlindAfter => self.blind,
            _ => false,
        }
    }
}
