//! The fields of a queue of delayed tasks.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{QueueView, TaskView};
use serde::Serialize;

use super::part::{UnknownJson, unknown_json};
use crate::outputs::turn::max_late_ms;
use crate::text::identity::escape;
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct Fields<'a> {
    queue: QueueJson<'a>,
}

#[derive(Serialize)]
struct QueueJson<'a> {
    zset: Cow<'a, str>,
    unit: Option<&'static str>,
    unknown: Option<UnknownJson>,
    /// `null` when unknown.
    members: Option<u64>,
    due: Option<u64>,
    max_late_seconds: f64,
}

pub(super) fn json<'a>(view: &'a TaskView, queue: &QueueView) -> Fields<'a> {
    Fields {
        queue: QueueJson {
            zset: escape(view.spec.kind.key()),
            unit: view.spec.queue().map(|spec| spec.unit.name()),
            unknown: view.unknown.map(unknown_json),
            members: queue.members,
            due: queue.due,
            max_late_seconds: seconds(max_late_ms(&view.spec)),
        },
    }
}
