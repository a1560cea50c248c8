//! What all outputs of tasks that take turns need.

use lockwatch_judge::snapshot::TurnView;
use lockwatch_judge::spec::{KindSpec, TaskSpec};
use lockwatch_judge::time::ServerTime;

/// From when on the present turn may run, unless that is "at once".
pub(super) fn due(turn: &TurnView) -> Option<ServerTime> {
    turn.from.filter(|from| from.ms() > 0)
}

/// How long a turn may be overdue, in milliseconds.
pub(super) fn max_late_ms(spec: &TaskSpec) -> u64 {
    match &spec.kind {
        KindSpec::Turn(turn) => turn.max_late_ms,
        KindSpec::Queue(queue) => queue.max_late_ms,
        KindSpec::Lock(_) => 0,
    }
}
