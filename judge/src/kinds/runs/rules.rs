//! The rules for a periodic task.

use crate::limit::Limit;
use crate::verdict::{GuardFact, LockFact, Rule, RunFact, Term, Verdict};

/// Everything that the verdict on a periodic task depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunsFacts {
    /// What is known of the lock.
    pub lock: LockFact,
    /// What is known of its runs.
    pub run: RunFact,
    /// There is positive evidence of more than one holder.
    pub split: bool,
    /// No run began within `every` and `late_after`.
    pub overdue: bool,
    /// The present run has lasted for longer than `max`.
    pub overran: bool,
    /// No trustworthy answer on what matters for longer than `blind_after`.
    pub blind: bool,
}

const HELD: &[GuardFact] = &[GuardFact::Lock(LockFact::Held)];
const FREE: &[GuardFact] = &[GuardFact::Lock(LockFact::Free)];

/// The rules, in the order in which they are considered.
pub(crate) static RULES: [Rule; 10] = [
    Rule::SPLIT_EVIDENCE,
    Rule::LOCK_BLIND,
    Rule::KEEP_PREVIOUS,
    Rule::NOTHING_YET,
    // A run that hangs lets the next ones wait: that none began is worse than that it lasts.
    Rule {
        name: "run_overdue",
        verdict: Some(Verdict::Down),
        when: &[Term::Over(Limit::LateAfter)],
        sentence: "No run began for longer than {every} and {late_after}.",
    },
    Rule {
        name: "run_overran",
        verdict: Some(Verdict::Stalled),
        when: &[Term::Is(HELD), Term::Over(Limit::Max)],
        sentence: "The run has lasted for longer than {max}.",
    },
    Rule {
        name: "run_kept",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(HELD), Term::Run(RunFact::Over)],
        sentence: "The run is over. Its holder keeps the lock for as long as it set, and the next \
                   run begins within {every} and {late_after} of the last one.",
    },
    Rule {
        name: "run_goes_on",
        verdict: Some(Verdict::Running),
        when: &[Term::Is(HELD)],
        sentence: "A run holds the lock.",
    },
    Rule {
        name: "run_awaited",
        verdict: Some(Verdict::Pending),
        when: &[Term::Is(FREE), Term::Run(RunFact::Unseen)],
        sentence: "No run was seen since the agent began to watch; one begins within {every} and \
                   {late_after}.",
    },
    Rule {
        name: "between_runs",
        verdict: Some(Verdict::Stopped),
        when: &[Term::Is(FREE)],
        sentence: "The lock is free between two runs; the next one begins within {every} and \
                   {late_after} of the last one.",
    },
];

impl RunsFacts {
    /// Whether the lock is unknown.
    pub(crate) fn unjudgeable(self) -> bool {
        self.lock == LockFact::Unknown
    }

    pub(crate) fn is_over(self, limit: Limit) -> bool {
        match limit {
            Limit::LateAfter => self.overdue,
            Limit::Max => self.overran,
            Limit::BlindAfter => self.blind,
            _ => false,
        }
    }
}
