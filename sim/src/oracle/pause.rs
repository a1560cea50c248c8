//! Whether alerts wait, as a deploy script asked.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::time::ServerTime;

use super::Oracle;
use crate::agent::Attempt;
use crate::serve::PartTruth;
use crate::world::World;

/// Maximum error of the end of a pause in milliseconds: it is written in seconds, and shown with
/// the tick after it.
const CLOSE_MS: u64 = 2_100;

/// The newest pause that was read, and when it ends on the agent's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    end: Option<Mono>,
}

impl Oracle {
    /// A good answer had the pause.
    pub(super) fn read_pause(&mut self, task: usize, part: &PartTruth, attempt: &Attempt) {
        if let (Some(pause), true) = (part.pause, attempt.beside || part.has_beside) {
            let end = |until_s: i64| {
                let left_ms = until_s * 1_000 - ServerTime(part.clock).0;
                u64::try_from(left_ms).map_or(Mono(0), |left_ms| attempt.sent.plus_ms(left_ms))
            };
            self.tasks[task].pause = Some(Pause { end: pause.map(end) });
        }
    }

    /// What is shown must be what was read, as long as that lasts.
    pub(super) fn check_pause(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let (Some(shown), Some(pause)) = (view.paused, self.tasks[task].pause) else { return };
        let wrong = match pause.end {
            Some(end) if shown => at > end.plus_ms(CLOSE_MS),
            Some(end) => at.plus_ms(CLOSE_MS) < end,
            None => shown,
        };
        if wrong {
            let what =
                format!("{}: paused is shown as {shown}, it was read {pause:?}", view.spec.name);
            self.blame(world, "pause", what);
        }
    }
}
