//! The rules for tasks that take turns.

use super::{Rule, Verdict, Wanted, when};

named! {
    /// What is known of the turn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum TurnFact {
        /// It is somebody's turn.
        Somebody = "somebody",
        /// It is nobody's turn.
        Nobody = "nobody",
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
    }
}

/// Everything that the verdict on turns depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnFacts {
    /// Whether users want the task; a lost "on" counts as yes.
    pub wanted: Wanted,
    /// What is known of the turn.
    pub turn: TurnFact,
    /// Two tasks have the turn.
    pub split: bool,
    /// It has been nobody's turn for longer than `grace`.
    pub gap_over_grace: bool,
    /// The turn was not taken, or lasted, longer than `max_late`.
    pub late: bool,
    /// No trustworthy answer on what matters for longer than `blind_after`.
    pub blind: bool,
}

/// The rules, in the order in which they are considered.
pub(super) const RULES: [Rule; 14] = [
    Rule::SplitEvidence,
    Rule::TurnBlind,
    Rule::NoTurnBlind,
    Rule::KeepPrevious,
    Rule::NothingYet,
    Rule::TurnLate,
    Rule::TurnWanted,
    Rule::TurnUnset,
    Rule::TurnWantedUnknown,
    Rule::TurnUnwanted,
    Rule::NoTurnOverGrace,
    Rule::NoTurnWithinGrace,
    Rule::NoTurnUnwanted,
    Rule::NoTurnUnset,
];

impl TurnFacts {
    pub(super) fn unjudgeable(self) -> bool {
        self.turn == TurnFact::Unknown
            || self.turn == TurnFact::Nobody && self.wanted == Wanted::Unknown
    }

    pub(super) fn verdict_by(self, rule: Rule) -> Option<Verdict> {
        let TurnFacts { wanted, turn, split, gap_over_grace, late, blind } = self;
        let (somebody, nobody) = (turn == TurnFact::Somebody, turn == TurnFact::Nobody);
        match rule {
            Rule::SplitEvidence => when(split, Verdict::Split),
            Rule::TurnBlind => when(turn == TurnFact::Unknown && blind, Verdict::Unknown),
            Rule::NoTurnBlind => {
                when(nobody && wanted == Wanted::Unknown && blind, Verdict::Unknown)
            }
            Rule::TurnLate => when(
                somebody && matches!(wanted, Wanted::Yes | Wanted::Unset) && late,
                Verdict::Stalled,
            ),
            Rule::TurnWanted => when(somebody && wanted == Wanted::Yes, Verdict::Running),
            Rule::TurnUnset => when(somebody && wanted == Wanted::Unset, Verdict::Running),
            Rule::TurnWantedUnknown => {
                when(somebody && wanted == Wanted::Unknown, Verdict::Running)
            }
            Rule::TurnUnwanted => when(somebody && wanted == Wanted::No, Verdict::Stopped),
            Rule::NoTurnOverGrace => {
                when(nobody && wanted == Wanted::Yes && gap_over_grace, Verdict::Down)
            }
            Rule::NoTurnWithinGrace => when(nobody && wanted == Wanted::Yes, Verdict::Pending),
            Rule::NoTurnUnwanted => when(nobody && wanted == Wanted::No, Verdict::Stopped),
            Rule::NoTurnUnset => when(nobody && wanted == Wanted::Unset, Verdict::Stopped),
            _ => None,
        }
    }
}
