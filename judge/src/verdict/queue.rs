//! The rules for a queue of delayed tasks.

use super::{Rule, Verdict, Wanted, when};

/// Everything that the verdict on a queue depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueFacts {
    /// Whether users want the queue to be worked on; a lost "on" counts as yes.
    pub wanted: Wanted,
    /// The newest attempt gave a trustworthy reading.
    pub is_read: bool,
    /// Two workers execute one member.
    pub split: bool,
    /// A due member that nobody executes has waited for longer than `max_late`.
    pub late: bool,
    /// No trustworthy reading for longer than `blind_after`.
    pub blind: bool,
}

/// The rules, in the order in which they are considered.
pub(super) const RULES: [Rule; 8] = [
    Rule::SplitEvidence,
    Rule::QueueBlind,
    Rule::KeepPrevious,
    Rule::NothingYet,
    Rule::QueueUnwanted,
    Rule::QueueLate,
    Rule::QueueWanted,
    Rule::QueueUnset,
];

impl QueueFacts {
    /// Whether neither the queue nor whether it is wanted is known.
    pub(super) fn unjudgeable(self) -> bool {
        !self.is_read || self.wanted == Wanted::Unknown
    }

    pub(super) fn verdict_by(self, rule: Rule) -> Option<Verdict> {
        let QueueFacts { wanted, is_read, split, late, blind } = self;
        let unjudgeable = self.unjudgeable();
        match rule {
            Rule::SplitEvidence => when(split, Verdict::Split),
            Rule::QueueBlind => when(unjudgeable && blind, Verdict::Unknown),
            Rule::QueueUnwanted => when(is_read && wanted == Wanted::No, Verdict::Stopped),
            Rule::QueueLate => when(
                is_read && matches!(wanted, Wanted::Yes | Wanted::Unset) && late,
                Verdict::Stalled,
            ),
            Rule::QueueWanted => when(is_read && wanted == Wanted::Yes, Verdict::Running),
            Rule::QueueUnset => when(is_read && wanted == Wanted::Unset, Verdict::Running),
            _ => None,
        }
    }
}
