//! The rules that were considered: the conditions of each, with the values, and its result, from
//! the verdict's own trace.

use lockwatch_judge::snapshot::{Judged, TaskView};
use lockwatch_judge::verdict::{Facts, LockFact, Rule, Wanted, trace};

use super::seen::span;
use super::{Condition, RuleGave};

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
    let ask = Asks { facts, view };
    let unjudgeable = facts.lock == LockFact::Unknown
        || facts.lock == LockFact::Free && facts.wanted == Wanted::Unknown;
    let cannot = || {
        let can = if unjudgeable { "cannot" } else { "can" };
        let says = format!(
            "it {can} be judged (lock {}, wanted {})",
            facts.lock.name(),
            facts.wanted.name()
        );
        condition(says, unjudgeable)
    };
    let (held, free) = (|| ask.lock(LockFact::Held), || ask.lock(LockFact::Free));
    let wanted = |wanted| ask.wanted(&[wanted]);
    match rule {
        Rule::SplitEvidence => vec![condition(splits(view), facts.split)],
        Rule::LockBlind => vec![ask.lock(LockFact::Unknown), ask.blind()],
        Rule::WantedBlind => vec![free(), wanted(Wanted::Unknown), ask.blind()],
        Rule::KeepPrevious => {
            let before = previous.map_or("none", |verdict| verdict.name());
            vec![cannot(), condition(format!("verdict before: {before}"), previous.is_some())]
        }
        Rule::NothingYet => vec![cannot()],
        Rule::NoProgress => vec![held(), ask.wanted(&[Wanted::Yes, Wanted::Unset]), ask.stale()],
        Rule::HeldUnwanted => vec![held(), wanted(Wanted::No), ask.over_wind_down()],
        Rule::HeldWanted => vec![held(), wanted(Wanted::Yes)],
        Rule::HeldUnset => vec![held(), wanted(Wanted::Unset)],
        Rule::HeldWantedUnknown => vec![held(), wanted(Wanted::Unknown)],
        Rule::WindingDown => vec![held(), wanted(Wanted::No)],
        Rule::GapOverGrace => vec![free(), wanted(Wanted::Yes), ask.gap_over_grace()],
        Rule::GapWithinGrace => vec![free(), wanted(Wanted::Yes)],
        Rule::FreeUnwanted => vec![free(), wanted(Wanted::No)],
        Rule::FreeUnset => vec![free(), wanted(Wanted::Unset)],
    }
}

/// Builds the conditions of the rules.
struct Asks<'a> {
    facts: Facts,
    view: &'a TaskView,
}

impl Asks<'_> {
    fn lock(&self, asked: LockFact) -> Condition {
        let is = self.facts.lock;
        condition(difference("lock", is.name(), asked.name(), is == asked), is == asked)
    }

    fn wanted(&self, asked: &[Wanted]) -> Condition {
        let is = self.facts.wanted;
        let names = asked.iter().map(|wanted| wanted.name()).collect::<Vec<_>>().join(" or ");
        let holds = asked.contains(&is);
        condition(difference("wanted", is.name(), &names, holds), holds)
    }

    fn blind(&self) -> Condition {
        compared(
            "blind",
            self.view.durations.blind_ms,
            "blind_after",
            self.view.spec.blind_after_ms,
            self.facts.blind,
        )
    }

    fn stale(&self) -> Condition {
        match &self.view.spec.progress {
            Some(progress) => {
                let stalled_ms = self.view.durations.stalled_ms;
                compared(
                    "stalled",
                    stalled_ms,
                    "stale_after",
                    progress.stale_after_ms,
                    self.facts.stale,
                )
            }
            None => condition("no progress is configured".to_owned(), self.facts.stale),
        }
    }

    fn over_wind_down(&self) -> Condition {
        let (ms, limit_ms) = (self.view.durations.unwanted_ms, self.view.spec.wind_down_ms);
        compared("unwanted", ms, "wind_down", limit_ms, self.facts.over_wind_down)
    }

    fn gap_over_grace(&self) -> Condition {
        compared(
            "gap",
            self.view.durations.down_ms,
            "grace",
            self.view.spec.grace_ms,
            self.facts.gap_over_grace,
        )
    }
}

fn condition(says: String, holds: bool) -> Condition {
    Condition { says, holds }
}

fn difference(what: &str, is: &str, asked: &str, holds: bool) -> String {
    if holds { format!("{what} is {is}") } else { format!("{what} is {is}, not {asked}") }
}

/// Keeps the result as the rule found it. The values are from the snapshot, which may be some
/// milliseconds younger.
fn compared(what: &str, ms: u64, limit: &str, limit_ms: u64, holds: bool) -> Condition {
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
