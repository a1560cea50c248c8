//! A drill.

use super::values::wall;
use crate::api;
use crate::drill::Drill;
use crate::outputs::metrics::drill_labels;
use crate::outputs::process::Process;
use crate::text::identity::escape;
use crate::text::instants::seconds;

/// A drill that runs, or ended.
pub fn drill(drill: &Drill) -> api::Drill {
    let labels = drill_labels(drill).into_iter();
    let text = |text: &str| escape(text.as_bytes()).into();
    api::Drill {
        id: drill.id.to_string().into(),
        instance: Drill::instance_of(&drill.id).to_owned().into(),
        task: text(&drill.of.task.name),
        store: text(&drill.of.store),
        labels: labels.map(|(name, value)| (name.to_owned().into(), value.into())).collect(),
        by: drill.of.by.as_deref().map(text),
        began_at: wall(drill.began_at),
        ends_at: wall(drill.ends_at()),
        agent_started: Process::read().started_ms.map(seconds),
    }
}
