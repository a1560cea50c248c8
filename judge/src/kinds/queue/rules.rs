//! The rules for a queue of delayed tasks.

use crate::limit::Limit;
use crate::verdict::{GuardFact, QueueFact, Rule, Term, Verdict, Wanted};

/// Everything that the verdict on a queue depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueFacts {
    /// Whether users want the queue to be worked on; a lost "on" counts as yes.
    pub wanted: Wanted,
    /// What is known of the queue.
    pub queue: QueueFact,
    /// Two workers execute one member.
    pub split: bool,
    /// A due member that nobody executes has waited for longer than `max_late`.
    pub late: bool,
    /// No trustworthy reading for longer than `blind_after`.
    pub blind: bool,
}

const READ: &[GuardFact] = &[GuardFact::Queue(QueueFact::Read)];

/// The rules, in the order in which they are considered.
pub(crate) static RULES: [Rule; 8] = [
    Rule::SPLIT_EVIDENCE,
    Rule {
        name: "queue_blind",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Unjudgeable, Term::Over(Limit::BlindAfter)],
        sentence: "The queue, or whether users want it, could not be read for longer than \
                   {blind_after}.",
    },
    Rule::KEEP_PREVIOUS,
    Rule::NOTHING_YET,
    Rule {
        name: "queue_late",
        verdict: Some(Verdict::Stalled),
        when: &[Term::Is(READ), Term::Wanted(Wanted::YES_OR_UNSET), Term::Over(Limit::MaxLate)],
        sentence: "A member of the queue is due{executes}, and that has lasted longer than \
                   {max_late}.",
    },
    Rule {
        name: "queue_wanted",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(READ), Term::Wanted(&[Wanted::Yes])],
        sentence: "Nothing that is due waits for too long. {wants}.",
    },
    Rule {
        name: "queue_unset",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(READ), Term::Wanted(&[Wanted::Unset])],
        sentence: "Nothing that is due waits for too long; no switches are configured.",
    },
    Rule {
        name: "queue_unwanted",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(READ), Term::Wanted(&[Wanted::No])],
        sentence: "Nobody wants the queue to be worked on.",
    },
];

impl QueueFacts {
    /// Whether neither the queue nor whether it is wanted is known.
    pub(crate) fn unjudgeable(self) -> bool {
        self.queue == QueueFact::Unknown || self.wanted == Wanted::Unknown
    }

    pub(crate) fn is_over(self, limit: Limit) -> bool {
        match limit {
            Limit::MaxLate => self.late,
            Limit::BlindAfter => self.blind,
            _ => false,
        }
    }
}
