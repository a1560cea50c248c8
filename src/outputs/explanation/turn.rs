//! The evidence about whose turn it is.

use lockwatch_judge::snapshot::TurnView;
use lockwatch_judge::verdict::TurnFact;

use super::Evidence;
use super::seen::{Seen, not_known, server};
use crate::outputs::turn::due;
use crate::text::identity::escape;

/// Of the server that decides.
pub(super) fn evidence(seen: Seen<'_>, turn: &TurnView) -> Evidence {
    let view = seen.view;
    let says = match (turn.fact, &turn.name) {
        (TurnFact::Somebody, Some(name)) => {
            format!("the turn of {}, {}", escape(name), from(turn))
        }
        (TurnFact::Somebody, None) => "several fields, and nobody had the turn alone".to_owned(),
        (TurnFact::Nobody, _) => "nobody's turn, confirmed".to_owned(),
        (TurnFact::Unknown, _) if turn.fields == Some(0) => {
            "nobody's turn, not confirmed yet".to_owned()
        }
        (TurnFact::Unknown, _) => "unknown".to_owned(),
    };
    let fields = turn.fields.filter(|fields| *fields > 1);
    let fields = fields.map(|fields| format!(", {fields} fields")).unwrap_or_default();
    Evidence {
        of: "turn".to_owned(),
        node: view.node.as_ref().map(|node| escape(node.as_bytes()).into_owned()),
        age_seconds: view.last_reading.map(|at| seen.age_seconds(at)),
        says: format!("{says}{fields}"),
        unknown: view.unknown.map(|why| not_known(why, view.words(why))),
    }
}

/// From when on the present turn may run.
fn from(turn: &TurnView) -> String {
    match due(turn) {
        Some(from) => format!("which may run since {} of the server's clock", server(from)),
        None => "which may run at once".to_owned(),
    }
}

/// Whose turn it is, in sentences.
pub(super) fn state_lines(seen: Seen<'_>, turn: &TurnView) -> Vec<String> {
    let whose = match &turn.name {
        Some(name) => format!("It is the turn of {}, {}", escape(name), from(turn)),
        None if turn.fact == TurnFact::Nobody => "It is nobody's turn, confirmed".to_owned(),
        None => "Whose turn it is is not known".to_owned(),
    };
    let whose = format!("{whose}; the newest reading was {}.", seen.newest());
    std::iter::once(whose).chain(passed(turn)).collect()
}

/// How often each task passed the turn on.
fn passed(turn: &TurnView) -> Option<String> {
    let taken = turn.taken.iter();
    let all: Vec<String> =
        taken.map(|taken| format!("{} {}", escape(&taken.name), taken.turns)).collect();
    (!all.is_empty()).then(|| format!("Turns passed on so far: {}.", all.join(", ")))
}
