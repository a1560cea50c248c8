//! Heartbeats: a progress whose bytes never change, and that ends unless it is written again. Drawn
//! from a stream of its own.

use lockwatch_judge::spec::ProgressSource;

use super::planned::Plan;
use crate::rng::Rng;

/// Lets some tasks of a plan write heartbeats instead of a value that moves. A server that knows no
/// deadlines shows only roughly when they end.
pub(super) fn draw(plan: &mut Plan) {
    let mut rng = Rng::new(plan.seed, 91);
    for (task, spec) in plan.tasks.iter_mut().zip(&plan.spec.tasks) {
        let source = spec.progress.as_ref().map(|progress| &progress.source);
        let beats = matches!(source, Some(ProgressSource::Key(_))) && rng.percent(50);
        let ms = [8_000, 30_000, 90_000][rng.index(3)];
        task.beats_ms = (beats && plan.has_pexpiretime).then_some(ms);
    }
}
