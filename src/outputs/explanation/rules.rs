//! The rules that were considered: the conditions of each, with the values, and its result, from
//! the verdict's own trace.

use lockwatch_judge::limit::Limit;
use lockwatch_judge::snapshot::{Judged, TaskView};
use lockwatch_judge::verdict::{GuardFact, Rule, RunFact, Term, Wanted, trace};

use super::seen::span;
use super::{Condition, RuleGave};

/// Every rule that was considered, in order; empty before the first judgement.
pub(super) fn considered(view: &TaskView) -> Vec<RuleGave> {
    let Some(judged) = view.judged else { return Vec::new() };
    let gave = trace(judged.facts, judged.previous).map(|considered| RuleGave {
        rule: considered.rule.name.to_owned(),
        gave: considered.gave.map(|verdict| verdict.name().to_owned()),
        conditions: conditions(considered.rule, judged, view),
    });
    gave.collect()
}

/// The conditions of a rule. It applies if all of them hold.
fn conditions(rule: &Rule, judged: Judged, view: &TaskView) -> Vec<Condition> {
    let condition = |term: &Term| {
        let holds = judged.facts.holds(*term, judged.previous);
        Condition { says: says(*term, holds, judged, view), holds }
    };
    rule.when.iter().map(condition).collect()
}

/// A condition in words, with the values. Whether it holds is as the rule found it: the values are
/// from the snapshot, which may be some milliseconds younger.
fn says(term: Term, holds: bool, Judged { facts, previous }: Judged, view: &TaskView) -> String {
    let (guard, wanted) = (facts.guard(), facts.wanted().name());
    let (what, is) = (guard.of(), guard.name());
    let difference = |what: &str, is: &str, needed: &[&str]| match holds {
        true => format!("{what} is {is}"),
        false => format!("{what} is {is}, not {}", needed.join(" or ")),
    };
    match term {
        Term::Split => splits(view),
        Term::Unjudgeable => {
            let can = if holds { "cannot" } else { "can" };
            format!("it {can} be judged ({what} {is}, wanted {wanted})")
        }
        Term::JudgedBefore => {
            format!("verdict before: {}", previous.map_or("none", |verdict| verdict.name()))
        }
        Term::Is(states) => {
            let names: Vec<&str> = states.iter().copied().map(GuardFact::name).collect();
            difference(what, is, &names)
        }
        Term::Run(needed) => {
            let run = view.periodic().map_or(RunFact::Unseen, |runs| runs.fact);
            difference("run", run.name(), &[needed.name()])
        }
        Term::Wanted(wishes) => {
            let names: Vec<&str> = wishes.iter().copied().map(Wanted::name).collect();
            difference("wanted", wanted, &names)
        }
        Term::Over(limit) => compared(view, limit, holds),
        Term::Within(limit) => compared(view, limit, !holds),
        Term::PublishedDown => {
            let shown = if holds { "was" } else { "was not" };
            format!("a gap over grace {shown} shown as down while the lock was free")
        }
    }
}

/// A duration and its limit: `gap 30.0 s > grace 20.0 s`.
pub(super) fn compared(view: &TaskView, limit: Limit, is_over: bool) -> String {
    let name = limit.name();
    let Some(limit_ms) = limit.ms(&view.spec) else { return format!("no {name} is configured") };
    let (sign, ms) = (if is_over { ">" } else { "<=" }, view.measured_ms(limit));
    format!("{} {} {sign} {name} {}", limit.measure(), span(ms), span(limit_ms))
}

fn splits(view: &TaskView) -> String {
    let kinds: Vec<&str> = view.splits.iter().map(|split| split.kind.name()).collect();
    if kinds.is_empty() {
        "no split is in force".to_owned()
    } else {
        format!("splits in force: {}", kinds.join(", "))
    }
}
