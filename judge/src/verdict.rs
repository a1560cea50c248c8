//! Computes the verdict of a task: one total function over all facts that matter, and the rule that
//! applied. Each kind of task has its own facts and its own rules.

mod fact;
mod rule;
mod wanted;

pub use self::fact::{GuardFact, LockFact, QueueFact, RunFact, TurnFact};
pub use self::rule::{Rule, Term, Verdict};
pub use self::wanted::Wanted;
use crate::kinds::lock::rules as lock;
pub use crate::kinds::lock::rules::LockFacts;
use crate::kinds::queue::rules as queue;
pub use crate::kinds::queue::rules::QueueFacts;
use crate::kinds::runs::rules as runs;
pub use crate::kinds::runs::rules::RunsFacts;
use crate::kinds::turn::rules as turn;
pub use crate::kinds::turn::rules::TurnFacts;
use crate::limit::Limit;

/// Everything that the verdict depends on, by the kind of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facts {
    /// Of a task that a lock guards.
    Lock(LockFacts),
    /// Of a periodic task.
    Runs(RunsFacts),
    /// Of tasks that take turns.
    Turn(TurnFacts),
    /// Of a queue of delayed tasks.
    Queue(QueueFacts),
}

impl Facts {
    /// Whether users want the task; a lost "on" counts as yes.
    pub fn wanted(self) -> Wanted {
        match self {
            Facts::Lock(facts) => facts.wanted,
            Facts::Runs(_) => Wanted::Unset,
            Facts::Turn(facts) => facts.wanted,
            Facts::Queue(facts) => facts.wanted,
        }
    }

    /// Whether there is positive evidence of more than one holder.
    pub fn split(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.split,
            Facts::Runs(facts) => facts.split,
            Facts::Turn(facts) => facts.split,
            Facts::Queue(facts) => facts.split,
        }
    }

    /// Whether there was no trustworthy answer on what matters for too long.
    pub fn blind(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.blind,
            Facts::Runs(facts) => facts.blind,
            Facts::Turn(facts) => facts.blind,
            Facts::Queue(facts) => facts.blind,
        }
    }

    /// Whether the lock is wanted, certainly free, and the gap is too long.
    pub(crate) fn is_down(self) -> bool {
        let down = [Term::Is(lock::FREE), Term::Wanted(&[Wanted::Yes]), Term::Over(Limit::Grace)];
        down.into_iter().all(|term| self.holds(term, None))
    }

    /// What is known of what guards the task.
    pub fn guard(self) -> GuardFact {
        match self {
            Facts::Lock(facts) => GuardFact::Lock(facts.lock),
            Facts::Runs(facts) => GuardFact::Lock(facts.lock),
            Facts::Turn(facts) => GuardFact::Turn(facts.turn),
            Facts::Queue(facts) => GuardFact::Queue(facts.queue),
        }
    }

    /// Whether neither what guards the task nor, where that decides, the wish of the users is
    /// known.
    pub fn unjudgeable(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.unjudgeable(),
            Facts::Runs(facts) => facts.unjudgeable(),
            Facts::Turn(facts) => facts.unjudgeable(),
            Facts::Queue(facts) => facts.unjudgeable(),
        }
    }

    /// Whether what this limit limits has lasted for longer.
    fn is_over(self, limit: Limit) -> bool {
        match self {
            Facts::Lock(facts) => facts.is_over(limit),
            Facts::Runs(facts) => facts.is_over(limit),
            Facts::Turn(facts) => facts.is_over(limit),
            Facts::Queue(facts) => facts.is_over(limit),
        }
    }

    /// The rules of this kind, in the order in which they are considered.
    fn rules(self) -> &'static [Rule] {
        match self {
            Facts::Lock(_) => &lock::RULES,
            Facts::Runs(_) => &runs::RULES,
            Facts::Turn(_) => &turn::RULES,
            Facts::Queue(_) => &queue::RULES,
        }
    }

    /// Whether a condition holds.
    pub fn holds(self, term: Term, previous: Option<Verdict>) -> bool {
        match term {
            Term::Split => self.split(),
            Term::Unjudgeable => self.unjudgeable(),
            Term::JudgedBefore => previous.is_some(),
            Term::Is(states) => states.contains(&self.guard()),
            Term::Run(run) => matches!(self, Facts::Runs(facts) if facts.run == run),
            Term::Wanted(wishes) => wishes.contains(&self.wanted()),
            Term::Over(limit) => self.is_over(limit),
            Term::Within(limit) => !self.is_over(limit),
            Term::PublishedDown => matches!(self, Facts::Lock(facts) if facts.down_goes_on),
        }
    }

    /// The verdict of `rule`; `None` if it does not apply.
    fn verdict_by(self, rule: &Rule, previous: Option<Verdict>) -> Option<Verdict> {
        let applies = rule.when.iter().all(|term| self.holds(*term, previous));
        if applies { rule.verdict.or(previous) } else { None }
    }
}

/// Every rule of each kind; those that kinds share come more than once.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    lock::RULES.iter().chain(&runs::RULES).chain(&turn::RULES).chain(&queue::RULES)
}

/// A rule that was considered, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The rule.
    pub rule: &'static Rule,
    /// The verdict that it gave; `None`: the rule does not apply.
    pub gave: Option<Verdict>,
}

/// Returns the verdict on `facts`, and the rule that gave it: the first of its kind's rules that
/// applies. `previous` is the verdict so far; it matters only if nothing can be judged at present.
pub fn judge(facts: Facts, previous: Option<Verdict>) -> (Verdict, &'static Rule) {
    let gave = |rule: &'static Rule| Some((facts.verdict_by(rule, previous)?, rule));
    // A rule always applies; a test covers the table over the whole product.
    facts.rules().iter().find_map(gave).unwrap_or((Verdict::Unknown, &Rule::NOTHING_YET))
}

/// The rules that [`judge`] considered, in order, up to the one that decided.
pub fn trace(facts: Facts, previous: Option<Verdict>) -> impl Iterator<Item = Considered> {
    let mut decided = false;
    facts.rules().iter().map_while(move |rule| {
        if decided {
            return None;
        }
        let gave = facts.verdict_by(rule, previous);
        decided = gave.is_some();
        Some(Considered { rule, gave })
    })
}
