//! Whether alerts wait, as a deploy script asked.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::time::ServerTime;

use super::facts::TaskFacts;
use super::found::Pause;
use super::state::Oracle;
use crate::agent::Attempt;
use crate::request::{PartTruth, Pause as KeySays};
use crate::world::World;

/// Maximum error of the end of a pause in milliseconds: it is written in seconds, and shown with
/// the tick after it.
const CLOSE_MS: u64 = 2_100;

impl TaskFacts {
    /// Whether alerts may wait at `at`.
    pub(super) fn may_be_paused(&self, at: Mono) -> bool {
        self.has_pause
            && self
                .pause
                .is_none_or(|pause| pause.end.is_some_and(|end| at <= end.plus_ms(CLOSE_MS)))
    }
}

impl Oracle {
    /// A good answer had the pause.
    pub(super) fn read_pause(&mut self, task: usize, part: &PartTruth, attempt: &Attempt) {
        if !attempt.parts && !part.has_parts {
            return;
        }
        let end = |until_s: i64| {
            let left_ms = until_s * 1_000 - ServerTime::at(part.clock).ms();
            u64::try_from(left_ms).map_or(Mono::at(0), |left_ms| attempt.sent.plus_ms(left_ms))
        };
        let facts = &mut self.tasks[task];
        match part.pause {
            // A pause that was read lasts until it ends.
            KeySays::Unread => {}
            KeySays::Says(until) => facts.pause = Some(Pause { end: until.map(end) }),
            // The next answer shows which of both was read.
            KeySays::Changed => facts.pause = None,
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
