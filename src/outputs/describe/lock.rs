//! What is known of a task that a lock guards.

use super::fact::{Fact, Line, Part, Subject, fact, words};
use super::shared::{NAMED_MAX, held, holders, lease, notes, past, present, progress, wanted};
use crate::api::{Contender, EndedRun, Hold, Holder, Lock, Runs, StoreShows, Task};
use crate::text::instants::seconds;

pub(super) fn facts(subject: Subject<'_>, lock: &Lock) -> Vec<Fact> {
    let task = subject.task;
    let hosts = task.hosts_unknown.clone().map(|why| vec![Part::Unread(why)]);
    vec![
        fact("Holder", [holder(lock, present(task))]),
        fact("On its stores", lock.stores.iter().flatten().map(on_store)),
        fact("Hosts", hosts),
        fact("Held for", held(subject)),
        fact("Lease left", lease(task)),
        fact("Worth knowing", notes(task)),
        fact("Last renewal", present(task).and_then(renewal)),
        fact("Wanted by", [wanted(subject, NAMED_MAX)]),
        fact("Progress", progress(task).map(|part| vec![part])),
        fact("Last handover", task.last_handover.as_ref().map(past)),
        fact("Last outage", task.last_outage.as_ref().map(past)),
    ]
}

/// Those that come after the claims.
pub(super) fn more(task: &Task, lock: &Lock) -> [Fact; 4] {
    let newest = task.runs.as_ref().and_then(|all| all.as_ref()).map(runs);
    [
        fact("Newest runs", newest.filter(|runs| !runs.is_empty()).map(words)),
        fact("Waiting for the lock", lock.waiters.map(|waiters| words(waiters.to_string()))),
        fact("Queue", lock.queue.iter().flatten().map(contender)),
        fact("Fencing token", lock.fencing_token.map(|token| words(token.to_string()))),
    ]
}

fn holder(lock: &Lock, hold: Option<&Hold>) -> Line {
    let Some(hold) = hold else {
        return words(if lock.held == Some(false) { "nobody" } else { "not known" });
    };
    let mut line = words(holders(&hold.holders, NAMED_MAX));
    let entries = |holder: &Holder| holder.entries;
    let entered = hold.holders.iter().filter_map(entries).fold(0, u32::saturating_add);
    line.extend((entered > 1).then(|| format!(", entered {entered} times").into()));
    let mode = mode(hold);
    line.extend((!mode.is_empty()).then(|| format!(", {mode}").into()));
    line
}

/// An entry of the queue: what it does, its session, since when, and what it says.
fn contender(contender: &Contender) -> Line {
    let mut line = vec![match &*contender.stands {
        "blocks" => Part::Alarm("blocks".into()),
        stands => stands.to_owned().into(),
    }];
    line.push(format!(": {}", contender.name).into());
    line.push(match &contender.session {
        Some(session) => format!(", session {session}").into(),
        None => ", of no session".into(),
    });
    line.extend([", since ".into(), Part::Server(contender.since)]);
    line.extend(contender.says.as_ref().map(|says| format!(", says {says}").into()));
    line
}

/// What one of several stores shows.
fn on_store(shows: &StoreShows) -> Line {
    let mut line = words(format!("{}: ", shows.store));
    line.push(match (&shows.holders, &shows.unknown) {
        (Some(all), _) if all.is_empty() => "free".into(),
        (Some(all), _) => holders(all, NAMED_MAX).into(),
        (None, Some(why)) => Part::Unread(why.clone()),
        (None, None) => "not read lately".into(),
    });
    line
}

/// The unusual properties of a hold.
pub(in crate::outputs) fn mode(hold: &Hold) -> String {
    let ghosts = match hold.ghosts {
        0 => String::new(),
        1 => String::from("1 dead reader"),
        more => format!("{more} dead readers"),
    };
    let mode = match &*hold.mode {
        "write" => "to write",
        "read" => "to read",
        _ => "",
    };
    [mode, &ghosts].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn renewal(hold: &Hold) -> Option<Line> {
    hold.last_renewal.0?;
    let mut line = vec![Part::Server(hold.last_renewal)];
    line.extend(
        hold.last_renewal_latency_seconds.map(|late| format!(", {} ms late", late.0).into()),
    );
    if let Some(margin) = hold.last_renewal_margin_seconds {
        line.extend([", with ".into(), Part::Lasted(margin), " to spare".into()]);
    }
    Some(line)
}

/// How the newest runs ended, oldest first, and what runs now; empty without any.
pub(in crate::outputs) fn runs(runs: &Runs) -> String {
    let ended = runs.ended.iter().map(|run| {
        let EndedRun { host, from, to, exit_code, asked } = run;
        let by = if *asked { ", ended by its guard" } else { "" };
        let lasted_ms = from.0.zip(to.0).and_then(|(from, to)| u64::try_from(to - from).ok());
        let lasted = seconds(lasted_ms.unwrap_or_default());
        match exit_code {
            Some(code) => format!("exit code {code} after {lasted} s on {host}{by}"),
            None => format!(
                "killed together with its guard (no exit code stated) within {lasted} s on {host}"
            ),
        }
    });
    let present = runs.present.iter().map(|run| format!("runs on {}", run.host));
    let unreadable = (runs.unreadable > 0)
        .then(|| format!("{} fields of the claims cannot be read as runs", runs.unreadable));
    ended.chain(present).chain(unreadable).collect::<Vec<_>>().join("; ")
}
