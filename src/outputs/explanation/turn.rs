//! The evidence about whose turn it is.

use lockwatch_judge::snapshot::{TaskView, TurnView};
use lockwatch_judge::spec::KindSpec;
use lockwatch_judge::verdict::{Rule, TurnFact, TurnFacts, Wanted};

use super::condition::{blind, compared, condition, difference, gap_over_grace, wanted};
use super::seen::{Seen, not_known, server, span};
use super::wanted::wanted_line;
use super::{Condition, Evidence};
use crate::outputs::turn::{due, max_late_ms};
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

/// The conditions of a rule.
pub(super) fn conditions(rule: Rule, facts: TurnFacts, view: &TaskView) -> Vec<Condition> {
    let turn = |asked: TurnFact| {
        let is = facts.turn;
        condition(difference("turn", is.name(), asked.name(), is == asked), is == asked)
    };
    let (somebody, nobody) = (|| turn(TurnFact::Somebody), || turn(TurnFact::Nobody));
    let wants = |asked| wanted(facts.wanted, &[asked]);
    match rule {
        Rule::TurnBlind => vec![turn(TurnFact::Unknown), blind(view, facts.blind)],
        Rule::NoTurnBlind => vec![nobody(), wants(Wanted::Unknown), blind(view, facts.blind)],
        Rule::TurnLate => {
            let counts = wanted(facts.wanted, &[Wanted::Yes, Wanted::Unset]);
            let late_ms = view.turn().map_or(0, |turn| turn.late_ms);
            let late =
                compared("overdue", late_ms, "max_late", max_late_ms(&view.spec), facts.late);
            vec![somebody(), counts, late]
        }
        Rule::TurnWanted => vec![somebody(), wants(Wanted::Yes)],
        Rule::TurnUnset => vec![somebody(), wants(Wanted::Unset)],
        Rule::TurnWantedUnknown => vec![somebody(), wants(Wanted::Unknown)],
        Rule::TurnUnwanted => vec![somebody(), wants(Wanted::No)],
        Rule::NoTurnOverGrace => {
            vec![nobody(), wants(Wanted::Yes), gap_over_grace(view, facts.gap_over_grace)]
        }
        Rule::NoTurnWithinGrace => vec![nobody(), wants(Wanted::Yes)],
        Rule::NoTurnUnwanted => vec![nobody(), wants(Wanted::No)],
        Rule::NoTurnUnset => vec![nobody(), wants(Wanted::Unset)],
        _ => Vec::new(),
    }
}

/// The evidence that made the deciding rule apply.
pub(super) fn deciding(seen: Seen<'_>, turn: &TurnView) -> Vec<String> {
    let view = seen.view;
    let whose = format!("{}; the newest reading was {}.", capital(&whose(turn)), seen.newest());
    let overdue = match turn.late_ms {
        0 => None,
        late_ms => Some(format!(
            "It has been overdue for {}; max_late is {}.",
            span(late_ms),
            span(max_late_ms(&view.spec))
        )),
    };
    let gap = (view.durations.down_ms > 0).then(|| {
        let (gap, grace) = (span(view.durations.down_ms), span(view.spec.grace_ms));
        format!("Nobody's turn and wanted for {gap}; grace is {grace}.")
    });
    let passed = passed(view, turn);
    let lines = [Some(whose), overdue, gap, passed, Some(wanted_line(seen))];
    lines.into_iter().flatten().collect()
}

fn whose(turn: &TurnView) -> String {
    match &turn.name {
        Some(name) => format!("it is the turn of {}, {}", escape(name), from(turn)),
        None if turn.fact == TurnFact::Nobody => "it is nobody's turn, confirmed".to_owned(),
        None => "whose turn it is is not known".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// How often each task passed the turn on.
fn passed(view: &TaskView, turn: &TurnView) -> Option<String> {
    matches!(view.spec.kind, KindSpec::Turn(_)).then_some(())?;
    let one = |taken: &lockwatch_judge::snapshot::Taken| {
        format!("{} {}", escape(&taken.name), taken.turns)
    };
    let all: Vec<String> = turn.taken.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("Turns passed on so far: {}.", all.join(", ")))
}
