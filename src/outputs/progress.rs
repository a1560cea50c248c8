//! What is said of the progress of a task: by what it moves, and why it may only seem to stand
//! still.

use lockwatch_judge::snapshot::{ProgressView, TaskView};
use lockwatch_judge::spec::{Moves, ProgressSource, ProgressSpec};

use crate::text::durations::duration_text;

/// What counts as a movement.
pub(in crate::outputs) fn counts(view: &TaskView) -> Option<&'static str> {
    let (spec, progress) = both(view)?;
    Some(match (progress.by, spec.moves) {
        (Some(Moves::Value), _) => "its bytes count",
        (Some(Moves::Deadline), Some(_)) => "its renewed TTL counts",
        (Some(Moves::Deadline), None) => {
            "its renewed TTL counts, because its bytes were never seen to change"
        }
        (None, _) => {
            "it is not known yet whether its bytes or its renewed TTL is the sign of life: its \
             bytes were not seen to change"
        }
    })
}

/// What may be wrong with the configuration of a progress that does not move. A sentence.
pub(in crate::outputs) fn hint(view: &TaskView) -> Option<String> {
    let (spec, progress) = both(view)?;
    let by_value = spec.moves.is_none() && progress.by == Some(Moves::Value);
    let has_ttl = progress.has_ttl == Some(true);
    match &spec.source {
        _ if progress.expired => None,
        _ if spec.moves == Some(Moves::Deadline) && progress.has_ttl == Some(false) => {
            Some("It has no TTL, and `moves: deadline` counts only that.".to_owned())
        }
        _ if progress.shortest_ms.is_some_and(|ms| ms > spec.stale_after_ms) => {
            let shortest = duration_text(progress.shortest_ms.unwrap_or_default());
            Some(format!(
                "It was never seen to change twice within {shortest}: it is coarser than \
                 `stale_after`, which should be longer."
            ))
        }
        ProgressSource::Key(_) if by_value && has_ttl => Some(
            "Its renewed TTL does not count, because its bytes changed before; if they are a \
             state, and the TTL is the sign of life, set `moves: deadline`."
                .to_owned(),
        ),
        ProgressSource::Length(_) if progress.missing.is_none() => Some(
            "A collection that is kept at one length (LTRIM) never changes it: let the work count \
             in a key of its own (INCR)."
                .to_owned(),
        ),
        _ if by_value && has_ttl && progress.shortest_ms.is_none() => Some(
            "Its key has a TTL, which does not count by itself where a key holds more than one \
             value; if it is the sign of life, set `moves: deadline`."
                .to_owned(),
        ),
        _ => None,
    }
}

fn both(view: &TaskView) -> Option<(&ProgressSpec, &ProgressView)> {
    view.spec.progress.as_deref().zip(view.progress.as_deref())
}
