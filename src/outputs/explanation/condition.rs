//! The conditions of rules, in words with their values.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Wanted;

use super::Condition;
use super::seen::span;

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

/// Whether for too long nobody had it, or not for long enough.
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
