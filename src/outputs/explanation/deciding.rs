//! The evidence that decided: a few lines for each condition of the rule that applied.

use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::limit::Limit;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{KindView, ShortHolds, SplitView, TaskView};
use lockwatch_judge::spec::ProgressSource;
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::{LockFact, Term, Wanted};

use super::rules::compared;
use super::seen::{Seen, server, span};
use super::wanted::{unknown_line, wanted_line};
use super::{lock, queue, turn};
use crate::outputs::progress::{counts, hint};
use crate::text::identity::escape;
use crate::trace::holder_name;

/// The evidence for each condition of the deciding rule.
pub(super) fn evidence(seen: Seen<'_>) -> Vec<String> {
    seen.view.rule.when.iter().flat_map(|term| lines(seen, *term)).collect()
}

fn lines(seen: Seen<'_>, term: Term) -> Vec<String> {
    let view = seen.view;
    match term {
        Term::Split => split_evidence(seen),
        Term::Unjudgeable => unread(seen, unjudgeable(seen)),
        Term::JudgedBefore => {
            let before = view.judged.and_then(|judged| judged.previous);
            let before = before.map_or("none", |verdict| verdict.name());
            vec![format!("The previous verdict stays: {before}.")]
        }
        Term::Is([state]) if state.is_unknown() => {
            unread(seen, unknown_line(guard_name(view), view.unknown, view.said.as_deref()))
        }
        Term::Is(_) => match &view.kind {
            KindView::Lock(_) => vec![lock::state_line(seen)],
            KindView::Turn(turn) => turn::state_lines(seen, turn),
            KindView::Queue(queue) => queue::state_lines(seen, queue),
        },
        Term::Run(_) => run_lines(view),
        Term::Wanted(_) => vec![wanted_line(seen)],
        Term::Over(limit) => {
            let mut lines = vec![sentence(&compared(view, limit, true))];
            match limit {
                Limit::StaleAfter => lines.extend(standstill(view)),
                Limit::Grace => lines.extend(short_holds(view)),
                Limit::LateAfter => lines.extend(run_lines(view)),
                _ => {}
            }
            lines
        }
        Term::Within(limit) if seen.is_once() => {
            let ms = limit.ms(&view.spec).unwrap_or_default();
            vec![format!(
                "How long that has lasted is not known; {} is {}.",
                limit.name(),
                span(ms)
            )]
        }
        Term::Within(limit) => vec![sentence(&compared(view, limit, false))],
        Term::PublishedDown => {
            let (before, settle) = (compared(view, Limit::Grace, true), span(view.spec.settle_ms));
            let mut lines = vec![
                format!(
                    "It ends the gap once the lock has been held continuously for settle {settle}."
                ),
                format!("Before this hold: {before}, and shown as down."),
            ];
            lines.extend(short_holds(view));
            lines
        }
    }
}

/// Text as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// What cannot be read, since when, and the servers that would have to answer.
fn unread(seen: Seen<'_>, what: String) -> Vec<String> {
    let mut lines = vec![what, last_good(seen)];
    lines.extend(servers(seen));
    lines
}

/// What guards the task, at the beginning of a sentence.
fn guard_name(view: &TaskView) -> &'static str {
    match &view.kind {
        KindView::Lock(_) => "The lock",
        KindView::Turn(_) => "Whose turn it is",
        KindView::Queue(_) => "The queue",
    }
}

fn split_evidence(seen: Seen<'_>) -> Vec<String> {
    let one = |split: &SplitView| {
        let since = match seen.is_once() {
            true => "seen at this look".to_owned(),
            false => {
                format!(
                    "since {}, for {} as of the newest evidence",
                    seen.wall(split.since),
                    span(split.lasted_ms)
                )
            }
        };
        let kind = match split.kind {
            SplitKind::Holders => {
                "the lock itself shows several holders, though they exclude each other"
            }
            SplitKind::Masters => "two servers take writes and show different holders",
            SplitKind::Claims => "two workers keep claiming to run it",
            SplitKind::Overlap => {
                "a new holder came before the end of the old one's lease, which was lost and not \
                 released"
            }
            SplitKind::Turns => "several tasks have the turn, for longer than it takes to pass it",
            SplitKind::Executions => {
                "another worker executes a member of the queue while the first one goes on"
            }
        };
        let first = format!("Split of the kind {}: {kind}; {since}.", split.kind.name());
        std::iter::once(first)
            .chain(split.parties.iter().map(|party| party_line(seen.view, party)))
            .collect::<Vec<_>>()
    };
    seen.view.splits.iter().flat_map(one).collect()
}

fn party_line(view: &TaskView, party: &Party) -> String {
    let node = party.node.as_ref().or(view.node.as_ref());
    let at =
        node.map_or_else(String::new, |node| format!(", shown by {}", escape(node.as_bytes())));
    let host = party.host.as_deref().map(|host| format!(" on {}", escape(host)));
    format!("{}{}{at}.", holder_name(&party.holder), host.unwrap_or_default())
}

/// The newest run, and whether one may have been missed.
fn run_lines(view: &TaskView) -> Vec<String> {
    let Some(runs) = view.periodic() else { return Vec::new() };
    let began = |at: Option<ServerTime>| {
        at.map_or("before the agent did".to_owned(), |at| {
            format!("at {} of the server's clock", server(at))
        })
    };
    let present = runs
        .present
        .as_ref()
        .map(|run| format!("A run goes on that began {}.", began(run.began_at)));
    let last = runs.last.as_ref().map(|run| {
        let lasted = run.over.and_then(|over| over.lasted_ms);
        let lasted = lasted.map(|ms| format!(", and took {}", span(ms))).unwrap_or_default();
        format!("The last run began {}{lasted}.", began(run.began_at))
    });
    let missed = runs.may_have_run.then(|| {
        "Nothing was read around the time when the next run was due: it may have come and gone \
         unseen, so it is expected a period later."
            .to_owned()
    });
    let lines: Vec<String> = [present, last, missed].into_iter().flatten().collect();
    match lines.is_empty() {
        true => vec!["No run was seen since the agent began to watch.".to_owned()],
        false => lines,
    }
}

/// Since when the progress has not moved, and what may be wrong with its configuration.
fn standstill(view: &TaskView) -> Vec<String> {
    let source = view.spec.progress.as_ref().map(|progress| progress_source(&progress.source));
    let source = source.unwrap_or_default();
    let moved = match view.progress_moved() {
        Some(at) => {
            format!("The progress ({source}) moved last at {} of the server's clock", server(at))
        }
        None => format!("The progress ({source}) has not moved since it is watched"),
    };
    let moved = match view.progress.as_ref().is_some_and(|own| own.expired) {
        true => format!("{moved}. It is gone, because its TTL ran out."),
        false => format!("{moved}; {}.", counts(view).unwrap_or_default()),
    };
    std::iter::once(moved).chain(hint(view)).collect()
}

/// The holds that were too short to end the gap, and what to do if that is normal.
fn short_holds(view: &TaskView) -> Vec<String> {
    let ShortHolds { count, expired, longest_ms } = view.grounds.short_holds();
    if count == 0 {
        return Vec::new();
    }
    let (holds, longest) = (if count == 1 { "hold" } else { "holds" }, span(longest_ms));
    let ran_out = match (expired, view.lock().and_then(|lock| lock.lease_ms)) {
        (0, _) => String::new(),
        (_, Some(lease_ms)) => {
            format!("; the lease ({}) of {expired} of them ran out", span(lease_ms))
        }
        (_, None) => format!("; the lease of {expired} of them ran out"),
    };
    vec![
        format!("{count} {holds} ended within {longest}{ran_out}."),
        format!(
            "If such holds are normal, set settle (now {}) below the shortest of them, or pause \
             alerts meanwhile.",
            span(view.spec.settle_ms)
        ),
    ]
}

/// Why nothing can be judged.
fn unjudgeable(seen: Seen<'_>) -> String {
    let view = seen.view;
    match (view.unknown, view.held) {
        (Some(why), _) => unknown_line(guard_name(view), Some(why), view.words(why)),
        (None, Some(false))
            if view.lock().is_some_and(|lock| lock.fact != LockFact::Free)
                || view.wanted != Wanted::Unknown =>
        {
            "It was seen free for the first time; that waits for its confirmation.".to_owned()
        }
        (None, Some(false)) => wanted_line(seen),
        (None, _) if view.queue().is_some() && view.last_reading.is_some() => wanted_line(seen),
        _ => unknown_line(guard_name(view), Some(Unknown::NotReadYet), None),
    }
}

fn last_good(seen: Seen<'_>) -> String {
    match seen.view.last_reading {
        Some(_) => format!("The last good reading was {}.", seen.newest()),
        None => "There was no good reading yet.".to_owned(),
    }
}

/// The deciding servers that cannot be read.
fn servers(seen: Seen<'_>) -> Vec<String> {
    let Some(redis) = seen.redis() else { return Vec::new() };
    let failing = redis.nodes.iter().filter(|node| node.decides);
    let line = |node: &lockwatch_judge::snapshot::NodeView| {
        let (server, why) = (escape(node.address.as_bytes()), node.unknown?);
        let said = redis.words(why, &node.address);
        Some(unknown_line(&format!("The server {server}"), Some(why), said))
    };
    failing.filter_map(line).collect()
}

/// Where the progress is stored, in words.
pub(super) fn progress_source(source: &ProgressSource) -> String {
    match source {
        ProgressSource::HashField { key, field } => {
            format!("field {} of the hash {}", escape(field), escape(key))
        }
        ProgressSource::Key(key) => format!("the key {}", escape(key)),
        ProgressSource::Length(key) => format!("the length of {}", escape(key)),
        ProgressSource::Score { key, member } => {
            format!("the score of {} in {}", escape(member), escape(key))
        }
        ProgressSource::Stream(key) => format!("what is added to the stream {}", escape(key)),
    }
}
