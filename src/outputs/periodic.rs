//! When the next run of a periodic task is late.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::{AgentWall, Mono};

/// `every` and `late_after` after the newest run began, by the agent's clock in whole seconds;
/// `None` until this process saw a run begin.
pub(super) fn due(view: &TaskView, wall_at: impl Fn(Mono) -> AgentWall) -> Option<AgentWall> {
    let (began, spec) = (view.periodic()?.began?, view.spec.runs()?);
    let after_ms = i64::try_from(spec.every_ms.saturating_add(spec.late_after_ms)).ok()?;
    // The two clocks of the agent do not advance alike: milliseconds would change with each look.
    let at = wall_at(began).0.saturating_add(after_ms);
    Some(AgentWall(at.saturating_add(500).div_euclid(1_000).saturating_mul(1_000)))
}
