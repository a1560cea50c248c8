//! The rules that were considered: the conditions of each, with the values, and its result, from
//! the verdict's own trace.

use lockwatch_judge::snapshot::{Judged, TaskView};
use lockwatch_judge::verdict::{Facts, Rule, trace};

use super::condition::condition;
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

fn splits(view: &TaskView) -> String {
    let kinds: Vec<&str> = view.splits.iter().map(|split| split.kind.name()).collect();
    if kinds.is_empty() {
        "no split is in force".to_owned()
    } else {
        format!("splits in force: {}", kinds.join(", "))
    }
}
