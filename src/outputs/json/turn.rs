//! What only tasks that take turns have.

use lockwatch_judge::snapshot::{self, TaskView, TurnView};

use super::values::server;
use crate::api::{Seconds, Taken, Turn};
use crate::outputs::cause::unknown;
use crate::outputs::turn::{due, max_late_ms};
use crate::text::identity::escape;

pub(super) fn turn(view: &TaskView, turn: &TurnView) -> Turn {
    let spec = view.spec.turn();
    let taken =
        |taken: &snapshot::Taken| Taken { task: escape(&taken.name).into(), turns: taken.turns };
    Turn {
        hash: escape(view.spec.kind.key()).into(),
        unit: spec.map(|spec| spec.unit.name().into()),
        held: view.held,
        fact: turn.fact.name().into(),
        unknown: view.unknown.map(|why| unknown(why, view.words(why))),
        task: turn.name.as_ref().map(|name| escape(name).into()),
        due: server(due(turn)),
        overdue_seconds: Seconds(turn.late_ms),
        max_late_seconds: Seconds(max_late_ms(&view.spec)),
        handover_seconds: spec.map(|spec| Seconds(spec.handover_ms)),
        min_turn_seconds: spec.and_then(|spec| spec.min_turn_ms).map(Seconds),
        fields: turn.fields.map(|fields| fields as u64),
        taken: turn.taken.iter().map(taken).collect(),
        out_of_order: turn.out_of_order,
        unknown_names: turn.unknown_names,
    }
}
