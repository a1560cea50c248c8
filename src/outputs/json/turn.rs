//! The fields of tasks that take turns.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{Taken, TaskView, TurnView};
use serde::Serialize;

use super::part::{UnknownJson, server, unknown_json};
use crate::outputs::turn::{due, max_late_ms};
use crate::text::identity::escape;
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct Fields<'a> {
    turn: TurnJson<'a>,
}

#[derive(Serialize)]
struct TurnJson<'a> {
    hash: Cow<'a, str>,
    unit: Option<&'static str>,
    /// `null` when unknown.
    held: Option<bool>,
    /// The same after confirmation.
    fact: &'static str,
    unknown: Option<UnknownJson>,
    /// Whose turn it is; `null` if nobody's, or unknown.
    task: Option<Cow<'a, str>>,
    /// From when on it may run, by the server's clock; `null` also for "at once".
    due: Option<String>,
    overdue_seconds: f64,
    max_late_seconds: f64,
    handover_seconds: Option<f64>,
    min_turn_seconds: Option<f64>,
    /// Number of fields; `null` when unknown.
    fields: Option<usize>,
    taken: Vec<TakenJson<'a>>,
    /// `null` if order is not judged.
    out_of_order: Option<u64>,
    unknown_names: u64,
}

#[derive(Serialize)]
struct TakenJson<'a> {
    task: Cow<'a, str>,
    turns: u64,
}

pub(super) fn json<'a>(view: &'a TaskView, turn: &'a TurnView) -> Fields<'a> {
    let spec = view.spec.turn();
    let taken = |taken: &'a Taken| TakenJson { task: escape(&taken.name), turns: taken.turns };
    Fields {
        turn: TurnJson {
            hash: escape(view.spec.kind.key()),
            unit: spec.map(|spec| spec.unit.name()),
            held: view.held,
            fact: turn.fact.name(),
            unknown: view.unknown.map(|why| unknown_json(why, view.words(why))),
            task: turn.name.as_ref().map(|name| escape(name)),
            due: due(turn).and_then(server),
            overdue_seconds: seconds(turn.late_ms),
            max_late_seconds: seconds(max_late_ms(&view.spec)),
            handover_seconds: spec.map(|spec| seconds(spec.handover_ms)),
            min_turn_seconds: spec.and_then(|spec| spec.min_turn_ms).map(seconds),
            fields: turn.fields,
            taken: turn.taken.iter().map(taken).collect(),
            out_of_order: turn.out_of_order,
            unknown_names: turn.unknown_names,
        },
    }
}
