//! The rules that were considered: the conditions of each, with the values, and its result, from
//! the verdict's own trace.

use lockwatch_judge::snapshot::{Judged, TaskView};
use lockwatch_judge::verdict::{Facts, Rule, Wanted, trace};

use super::seen::span;
use super::{Condition, RuleGave, lock, queue, turn};

/// Every rule that was considered, in order; empty before the first judgement.
pub(super) fn considered(view: &TaskView) -> Vec<RuleGave> {
    let Some(judged) = view.judged else { return Vec::new() };
    let gave = trace(judged.facts, judged.previous).map(|considered| RuleGave {
        rule: considered.rule.name().to_owned(),
        gave: considered.gave.map(|verdict| verdict.name().to_owned()),
        conditions: conditions(considered.rule, judged, view),
    });
    gave.collect()
}

/// The conditions of a rule. It applies if all of them hold.
fn conditions(rule: Rule, Judged { facts, previous }: Judged, view: &TaskView) -> Vec<Condition> {
    let unjudgeable = facts.unjudgeable();
    let cannot = || {
        let can = if unjudgeable { "cannot" } else { "can" };
        let ((what, is), wanted) = (facts.guard(), facts.wanted().name());
        condition(format!("it {can} be judged ({what} {is}, wanted {wanted})"), unjudgeable)
    };
    match (rule, facts) {
        (Rule::SplitEvidence, _) => vec![condition(splits(view), facts.split())],
        (Rule::KeepPrevious, _) => {
            let before = previous.map_or("none", |verdict| verdict.name());
            vec![cannot(), condition(format!("verdict before: {before}"), previous.is_some())]
        }
        (Rule::NothingYet, _) => vec![cannot()],
        (rule, Facts::Lock(facts)) => lock::conditions(rule, facts, view),
        (rule, Facts::Turn(facts)) => turn::conditions(rule, facts, view),
        (rule, Facts::Queue(facts)) => queue::conditions(rule, facts, view),
    }
}

/// Whether users want the task.
pub(super) fn wanted(is: Wanted, asked: &[Wanted]) -> Condition {
    let names = asked.iter().map(|wanted| wanted.name()).collect::<Vec<_>>().join(" or ");
    let holds = asked.contains(&is);
    condition(difference("wanted", is.name(), &names, holds), holds)
}

/// Whether it could not be read for too long.
pub(super) fn blind(view: &TaskView, holds: bool) -> Condition {
    let (blind_ms, limit_ms) = (view.durations.blind_ms, view.spec.blind_after_ms);
    compared("blind", blind_ms, "blind_after", limit_ms, holds)
}

/// Whether nobody has had it for too long.
pub(super) fn gap_over_grace(view: &TaskView, holds: bool) -> Condition {
    compared("gap", view.durations.down_ms, "grace", view.spec.grace_ms, holds)
}

pub(super) fn condition(says: String, holds: bool) -> Condition {
    Condition { says, holds }
}

pub(super) fn difference(what: &str, is: &str, asked: &str, holds: bool) -> String {
    if holds { format!("{what} is {is}") } else { format!("{what} is {is}, not {asked}") }
}

/// Keeps the result as the rule found it. The values are from the snapshot, which may be some
/// milliseconds younger.
pub(super) fn compared(what: &str, ms: u64, limit: &str, limit_ms: u64, holds: bool) -> Condition {
    let sign = if holds { ">" } else { "<=" };
    condition(format!("{what} {} {sign} {limit} {}", span(ms), span(limit_ms)), holds)
}

fn splits(view: &TaskView) -> String {
    let kinds: Vec<&str> = view.splits.iter().map(|split| split.kind.name()).collect();
    if kinds.is_empty() {
        "no split is in force".to_owned()
    } else {
        format!("splits in force: {}", kinds.join(", "))
    }
}
