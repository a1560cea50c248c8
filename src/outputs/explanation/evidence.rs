//! All evidence about a task: its server, its age, and its content.

use std::borrow::Cow;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{KindView, TaskView};
use lockwatch_judge::spec::WantedSource;

use super::Evidence;
use super::lock::{self, NAMED_MAX, named};
use super::seen::{Seen, not_known, server};
use super::wanted::wanted_line;
use super::{queue, turn};
use crate::outputs::progress::counts;
use crate::outputs::runs;
use crate::text::identity::{escape, list, user_name};
use crate::trace::{holder_name, none_or};

/// All evidence, part by part.
pub(super) fn all(seen: Seen<'_>) -> Vec<Evidence> {
    let (view, spec) = (seen.view, &seen.view.spec);
    let has_switches =
        |source: &WantedSource| !matches!(source, WantedSource::Always | WantedSource::Never);
    let mut all = match &view.kind {
        KindView::Lock(lock) => vec![lock::evidence(seen, lock)],
        KindView::Turn(turn) => vec![turn::evidence(seen, turn)],
        KindView::Queue(queue) => vec![queue::evidence(seen, queue)],
    };
    if spec.wanted.as_ref().is_some_and(|wanted| has_switches(&wanted.source)) {
        all.push(part(seen, "switches", switches(seen), view.switches_unknown));
    }
    if let Some(own) = &view.progress {
        let unread = own.missing.flatten();
        all.push(part(seen, "progress", progress(view), unread));
    }
    if spec.claims.is_some() {
        let says = if seen.is_once() { seen.trace.says("claims") } else { None };
        all.push(part(seen, "claims", says.unwrap_or_else(|| claims(view)), view.claims_unknown));
    }
    if spec.hosts.is_some() || spec.lock().is_some_and(|lock| lock.host.is_some()) {
        all.push(part(seen, "hosts", hosts(seen), seen.view.hosts_unknown));
    }
    if spec.paused_until.is_some() {
        let says = match view.paused {
            Some(true) => "alerts wait",
            Some(false) => "alerts do not wait",
            None => "not known, so alerts do not wait",
        };
        let says = seen
            .trace
            .says("pause")
            .map_or_else(|| says.to_owned(), |read| format!("{says} ({read})"));
        all.push(part(seen, "pause", says, None));
    }
    if let KindView::Lock(lock) = &view.kind {
        all.extend(lock::witnesses(seen, lock));
    }
    all
}

/// Evidence from the task's other keys. They are read together with the lock, except in a cluster.
/// There only a recent exchange shows from which server and when.
fn part(seen: Seen<'_>, of: &str, says: String, unknown: Option<Unknown>) -> Evidence {
    let view = seen.view;
    let fresh = seen.trace.newest_with(of).map(|exchange| (&exchange.node, exchange.sent));
    let with_lock =
        || if seen.is_cluster() { None } else { view.node.as_ref().zip(view.last_reading) };
    let place = fresh.or_else(with_lock);
    Evidence {
        of: of.to_owned(),
        node: place.map(|(node, _)| escape(node.as_bytes()).into_owned()),
        age_seconds: place.map(|(_, at)| seen.age_seconds(at)),
        says,
        unknown: unknown.map(|why| not_known(why, seen.view.words(why))),
    }
}

fn switches(seen: Seen<'_>) -> String {
    let view = seen.view;
    let Some(switches) = view.wanting.switches.as_ref().filter(|switches| !switches.is_empty())
    else {
        return wanted_line(seen);
    };
    let word = |switch: &lockwatch_judge::snapshot::SwitchView| {
        let state = match switch.on {
            Some(true) => "on",
            Some(false) => "off",
            None => "undecodable",
        };
        Cow::Owned(format!("{} {state}", user_name(&view.spec, &switch.user)))
    };
    let lost =
        list(view.wanting.lost_users.iter().map(|user| user_name(&view.spec, user)), NAMED_MAX);
    let lost = if lost.is_empty() { lost } else { format!("; lost: {lost}") };
    format!("{}{lost}", list(switches.iter().map(word), NAMED_MAX))
}

fn progress(view: &TaskView) -> String {
    let own = view.progress.as_deref().cloned().unwrap_or_default();
    let said = match (own.moved, own.missing) {
        _ if own.expired => return "is gone: its TTL ran out, so it stands still".to_owned(),
        (_, Some(None)) => return "there is none".to_owned(),
        (Some(at), _) => format!("moved last at {} of the server's clock", server(at)),
        (None, Some(Some(_))) => return "cannot be read".to_owned(),
        (None, None) => "was not seen to move yet".to_owned(),
    };
    format!("{said}; {}", counts(view).unwrap_or_default())
}

fn claims(view: &TaskView) -> String {
    match view.claims_unknown {
        Some(_) => "cannot be read".to_owned(),
        None => {
            let alive = none_or(list(view.live_claims.iter().map(holder_name), NAMED_MAX));
            match view.runs.as_deref().map(runs::newest).filter(|runs| !runs.is_empty()) {
                Some(runs) => format!("alive: {alive}; runs of guards: {runs}"),
                None => format!("alive: {alive}"),
            }
        }
    }
}

fn hosts(seen: Seen<'_>) -> String {
    let hold = seen.view.hold();
    let holders = hold.into_iter().flat_map(|hold| hold.holders.iter());
    let known = holders.filter(|(_, host)| host.is_some());
    let known: Vec<Cow<'_, str>> = known.map(|(holder, host)| named(holder, host)).collect();
    match (known.is_empty(), hold.is_none_or(|hold| hold.holders.iter().len() == 0)) {
        (false, _) => list(known.into_iter(), NAMED_MAX),
        (true, true) => "nobody holds the lock".to_owned(),
        (true, false) => "the holder's host is not known".to_owned(),
    }
}
