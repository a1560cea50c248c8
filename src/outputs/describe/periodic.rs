//! What is known of the runs of a periodic task.

use super::fact::{Fact, Line, Part, Subject, fact, words};
use super::shared::{NAMED_MAX, names, party_name};
use crate::api::{Party, Periodic, Run, Seconds};

pub(super) fn facts(subject: Subject<'_>, own: &Periodic) -> [Fact; 2] {
    [fact("Last run", own.last.as_ref().map(last)), fact("Next run", [next(subject, own)])]
}

/// Who ran it, when, for how long, and how that ended.
fn last(run: &Run) -> Line {
    let name = |party: &Party| party_name(&party.holder, party.host.as_ref(), party.node.as_ref());
    let mut line = match run.by.is_empty() {
        true => words("seen by its progress only"),
        false => words(names(run.by.iter().map(name), NAMED_MAX)),
    };
    match run.began.0 {
        Some(_) => line.extend([", began ".into(), Part::Server(run.began)]),
        None => line.push(", began before the agent did".into()),
    }
    if let Some(lasted) = run.lasted_seconds {
        line.extend([", took ".into(), Part::Lasted(lasted)]);
    }
    line.extend(run.end.as_deref().and_then(ended).map(Part::from));
    line
}

/// How its hold ended, where that is worth a word.
fn ended(end: &str) -> Option<&'static str> {
    match end {
        "expired" => Some("; its lease ran out: the run died, or did not release the lock"),
        "lost" => Some("; its lock was lost with the data of the store"),
        "replaced" => Some("; another holder replaced it"),
        _ => None,
    }
}

fn next(subject: Subject<'_>, own: &Periodic) -> Line {
    let mut line = match own.late_seconds {
        Seconds(0) => words("not due yet"),
        late => vec!["due for ".into(), subject.for_so_long(late)],
    };
    if own.may_have_run {
        line.push("; one may have come and gone unseen".into());
    }
    line
}
