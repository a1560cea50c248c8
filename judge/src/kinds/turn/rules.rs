//! The rules for tasks that take turns.

use crate::limit::Limit;
use crate::verdict::{GuardFact, Rule, Term, TurnFact, Verdict, Wanted};

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

const SOMEBODY: &[GuardFact] = &[GuardFact::Turn(TurnFact::Somebody)];
const NOBODY: &[GuardFact] = &[GuardFact::Turn(TurnFact::Nobody)];
const UNKNOWN: &[GuardFact] = &[GuardFact::Turn(TurnFact::Unknown)];

/// The rules, in the order in which they are considered.
pub(crate) static RULES: [Rule; 14] = [
    Rule::SPLIT_EVIDENCE,
    Rule {
        name: "turn_blind",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Is(UNKNOWN), Term::Over(Limit::BlindAfter)],
        sentence: "Whose turn it is could not be read for longer than {blind_after}.",
    },
    Rule {
        name: "no_turn_blind",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Is(NOBODY), Term::Wanted(&[Wanted::Unknown]), Term::Over(Limit::BlindAfter)],
        sentence: "It is nobody's turn, and whether the task is wanted could not be read for \
                   longer than {blind_after}.",
    },
    Rule::KEEP_PREVIOUS,
    Rule::NOTHING_YET,
    Rule {
        name: "turn_late",
        verdict: Some(Verdict::Stalled),
        when: &[Term::Is(SOMEBODY), Term::Wanted(Wanted::YES_OR_UNSET), Term::Over(Limit::MaxLate)],
        sentence: "{turn}, and it has not been passed on for longer than {max_late}.",
    },
    Rule {
        name: "turn_wanted",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(SOMEBODY), Term::Wanted(&[Wanted::Yes])],
        sentence: "{turn}. {wants}.",
    },
    Rule {
        name: "turn_unset",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(SOMEBODY), Term::Wanted(&[Wanted::Unset])],
        sentence: "{turn}; no switches are configured.",
    },
    Rule {
        name: "turn_wanted_unknown",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(SOMEBODY), Term::Wanted(&[Wanted::Unknown])],
        sentence: "It is somebody's turn; whether users want the task cannot be read.",
    },
    Rule {
        name: "turn_unwanted",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(SOMEBODY), Term::Wanted(&[Wanted::No])],
        sentence: "It is somebody's turn, but nobody wants the task.",
    },
    Rule {
        name: "no_turn_over_grace",
        verdict: Some(Verdict::Down),
        when: &[Term::Is(NOBODY), Term::Wanted(&[Wanted::Yes]), Term::Over(Limit::Grace)],
        sentence: "{wants}, and it has been nobody's turn for longer than {grace}.",
    },
    Rule {
        name: "no_turn_within_grace",
        verdict: Some(Verdict::Pending),
        when: &[Term::Is(NOBODY), Term::Wanted(&[Wanted::Yes]), Term::Within(Limit::Grace)],
        sentence: "{wants}, and it is nobody's turn; that is within {grace}.",
    },
    Rule {
        name: "no_turn_unwanted",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(NOBODY), Term::Wanted(&[Wanted::No])],
        sentence: "It is nobody's turn, and nobody wants the task.",
    },
    Rule {
        name: "no_turn_unset",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(NOBODY), Term::Wanted(&[Wanted::Unset])],
        sentence: "It is nobody's turn; no switches are configured.",
    },
];

impl TurnFacts {
    pub(crate) fn unjudgeable(self) -> bool {
        self.turn == TurnFact::Unknown
            || self.turn == TurnFact::Nobody && self.wanted == Wanted::Unknown
    }

    pub(crate) fn is_over(self, limit: Limit) -> bool {
        match limit {
            Limit::Grace => self.gap_over_grace,
            Limit::MaxLate => self.late,
            Limit::BlindAfter => self.blind,
            _ => false,
        }
    }
}
