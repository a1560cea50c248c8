//! The rules for a task that a lock guards.

use super::{Rule, Verdict, Wanted, when};

named! {
    /// What is known of the lock, after confirmation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LockFact {
        /// Held, or looking free for the first time after that.
        Held = "held",
        /// Free, and confirmed.
        Free = "free",
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
    }
}

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

/// The rules, in the order in which they are considered.
pub(super) const RULES: [Rule; 16] = [
    Rule::SplitEvidence,
    Rule::LockBlind,
    Rule::WantedBlind,
    Rule::KeepPrevious,
    Rule::NothingYet,
    Rule::HeldBriefly,
    Rule::NoProgress,
    Rule::HeldUnwanted,
    Rule::HeldWanted,
    Rule::HeldUnset,
    Rule::HeldWantedUnknown,
    Rule::WindingDown,
    Rule::GapOverGrace,
    Rule::GapWithinGrace,
    Rule::FreeUnwanted,
    Rule::FreeUnset,
];

impl LockFacts {
    /// Whether neither the lock nor, while it is free, the wish of the users is known.
    pub(super) fn unjudgeable(self) -> bool {
        self.lock == LockFact::Unknown
            || self.lock == LockFact::Free && self.wanted == Wanted::Unknown
    }

    pub(super) fn is_down(self) -> bool {
        self.lock == LockFact::Free && self.wanted == Wanted::Yes && self.gap_over_grace
    }

    pub(super) fn verdict_by(self, rule: Rule) -> Option<Verdict> {
        let LockFacts { wanted, lock, split, stale, over_wind_down, blind, .. } = self;
        let (held, free) = (lock == LockFact::Held, lock == LockFact::Free);
        match rule {
            Rule::SplitEvidence => when(split, Verdict::Split),
            Rule::LockBlind => when(lock == LockFact::Unknown && blind, Verdict::Unknown),
            // A hold that lasted would have ended the blindness.
            Rule::WantedBlind => {
                when((free || held) && wanted == Wanted::Unknown && blind, Verdict::Unknown)
            }
            Rule::HeldBriefly => {
                when(held && wanted == Wanted::Yes && self.down_goes_on, Verdict::Down)
            }
            Rule::NoProgress => when(
                held && matches!(wanted, Wanted::Yes | Wanted::Unset) && stale,
                Verdict::Stalled,
            ),
            Rule::HeldUnwanted => {
                when(held && wanted == Wanted::No && over_wind_down, Verdict::Unwanted)
            }
            Rule::HeldWanted => when(held && wanted == Wanted::Yes, Verdict::Running),
            Rule::HeldUnset => when(held && wanted == Wanted::Unset, Verdict::Running),
            Rule::HeldWantedUnknown => when(held && wanted == Wanted::Unknown, Verdict::Running),
            Rule::WindingDown => when(held && wanted == Wanted::No, Verdict::Running),
            Rule::GapOverGrace => when(self.is_down(), Verdict::Down),
            Rule::GapWithinGrace => when(free && wanted == Wanted::Yes, Verdict::Pending),
            Rule::FreeUnwanted => when(free && wanted == Wanted::No, Verdict::Stopped),
            Rule::FreeUnset => when(free && wanted == Wanted::Unset, Verdict::Stopped),
            _ => None,
        }
    }
}
