//! What is known of tasks that take turns.

use super::fact::{Fact, Line, Part, Subject, fact, words};
use super::shared::{NAMED_MAX, past, wanted};
use crate::api::{Taken, Turn};

pub(super) fn facts(subject: Subject<'_>, turn: &Turn) -> Vec<Fact> {
    let task = subject.task;
    let overdue = (turn.overdue_seconds.0 > 0).then(|| vec![Part::Lasted(turn.overdue_seconds)]);
    vec![
        fact("Turn of", [whose(turn)]),
        fact("May run since", turn.task.as_ref().map(|_| since(turn))),
        fact("Overdue for", overdue),
        fact("Turns passed on", Some(passed(turn)).filter(|it| !it.is_empty()).map(words)),
        fact("Wanted by", [wanted(subject, NAMED_MAX)]),
        fact("Last handover", task.last_handover.as_ref().map(past)),
    ]
}

/// In few words. They do not name who has the turn: that may change many times a second.
pub(super) fn brief(turn: &Turn) -> &'static str {
    match &*turn.fact {
        "somebody" => "takes turns",
        "nobody" => "nobody",
        _ => "not known",
    }
}

fn whose(turn: &Turn) -> Line {
    let mut line = words(match &turn.task {
        Some(name) => name.to_string(),
        None if &*turn.fact == "nobody" => "nobody".to_owned(),
        None => "not known".to_owned(),
    });
    let fields = turn.fields.filter(|fields| *fields > 1);
    line.extend(fields.map(|fields| format!("; the hash has {fields} fields").into()));
    line
}

fn since(turn: &Turn) -> Line {
    match turn.due.0 {
        Some(_) => vec![Part::Server(turn.due)],
        None => words("at once"),
    }
}

fn passed(turn: &Turn) -> String {
    let taken = |taken: &Taken| format!("{} {}", taken.task, taken.turns);
    let taken = turn.taken.iter().map(taken).collect::<Vec<_>>().join(", ");
    let disorder = turn.out_of_order.filter(|count| *count > 0);
    let disorder = disorder.map(|count| format!("; {count} out of order"));
    let unknown =
        (turn.unknown_names > 0).then(|| format!("; {} unknown names", turn.unknown_names));
    [taken].into_iter().chain(disorder).chain(unknown).collect()
}
