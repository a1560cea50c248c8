//! What is known of tasks of several kinds.

use std::borrow::Cow;

use super::fact::{Line, Part, Subject, words};
use crate::api::{Holder, Lock, Past, Switch, Task, Text};

/// Maximum number of names in one place.
pub(super) const NAMED_MAX: usize = 20;

/// A renewal that is late by this many milliseconds is mentioned.
const OVERDUE_MS: u64 = 1_000;

/// How long the task has been held, or free though wanted; or the age of the newest reading.
pub fn held(subject: Subject<'_>) -> Option<Line> {
    let task = subject.task;
    if task.evidence_age_seconds.is_none() {
        return Some(words("never read"));
    }
    if !task.is_read() {
        return Some(vec!["last read ".into(), Part::Ago(subject.read_at())]);
    }
    if let Some(hold) = present(task) {
        let least = hold.acquired.0.is_none().then(|| "at least ".into());
        return Some(least.into_iter().chain([subject.for_so_long(hold.held_seconds)]).collect());
    }
    let down = task.durations.down_seconds;
    (down.0 > 0).then(|| vec!["free for ".into(), subject.for_so_long(down)])
}

/// What is left of the lease.
pub fn lease(task: &Task) -> Option<Line> {
    let hold = present(task)?;
    let left = match (hold.ttl_seconds, hold.persistent) {
        (Some(left), _) => {
            let whole = task.lock.as_ref().and_then(|lock| lock.lease_seconds);
            Part::Lease { left, whole }
        }
        (None, Some(true)) if task.lock.as_ref().is_some_and(Lock::ends_with_session) => {
            Part::from("that of its session")
        }
        (None, Some(true)) => Part::from("none: held for ever"),
        (None, _) => Part::from("not known"),
    };
    let overdue = Some(hold.renewal_overdue_seconds).filter(|late| late.0 >= OVERDUE_MS);
    let overdue = overdue.map(Part::Overdue);
    Some([left].into_iter().chain(overdue).collect())
}

/// Who wants the task; at most `most` of them are named.
pub fn wanted(subject: Subject<'_>, most: usize) -> Line {
    let task = subject.task;
    let mut line = words(match subject.wanted {
        Some(word) => word.into(),
        None => who_wants(task, most),
    });
    if !task.lost_users.is_empty() {
        let lost = names(task.lost_users.iter().map(Text::to_string), most);
        line.push(Part::Alarm(format!("lost: {lost}").into()));
    }
    line
}

fn who_wants(task: &Task, most: usize) -> Cow<'static, str> {
    match (&*task.wanted, &task.switches, task.wanting_users) {
        ("unset", _, _) => "no switches".into(),
        (_, Some(switches), _) if !switches.is_empty() && !task.counted => {
            let on = |switch: &&Switch| &*switch.state == "on";
            let users: Vec<_> = switches.iter().filter(on).map(|it| it.user.to_string()).collect();
            let counts = format!("{} of {}", users.len(), switches.len());
            match names(users.into_iter(), most) {
                users if users.is_empty() => counts.into(),
                users => format!("{counts}: {users}").into(),
            }
        }
        (_, _, Some(1)) => "1 user".into(),
        ("no", _, _) => "nobody".into(),
        (_, _, Some(users)) => format!("{users} users").into(),
        ("yes", _, None) => "yes".into(),
        (_, _, None) => "not known".into(),
    }
}

/// The progress, if one is configured.
pub fn progress(task: &Task) -> Option<Part> {
    let own = task.progress.as_ref()?;
    Some(match (own.moved.0, own.missing, &own.unknown) {
        _ if own.expired => "expired".into(),
        (_, true, Some(why)) => Part::Unread(why.clone()),
        (_, true, None) => "absent".into(),
        (Some(_), false, _) => Part::Progress(own.moved),
        (None, false, _) => "not seen to move yet".into(),
    })
}

/// What else is worth knowing.
pub(super) fn notes(task: &Task) -> Option<Line> {
    let notes = task.notes.iter().map(|note| &**note).collect::<Vec<_>>().join(" ");
    (!notes.is_empty()).then(|| words(notes))
}

/// How long something took, and when that was.
pub(super) fn past(past: &Past) -> Line {
    vec!["took ".into(), Part::Lasted(past.seconds), ", ".into(), Part::Ago(past.at)]
}

/// Holders with their hosts; the first `most` of them.
pub fn holders(holders: &[Holder], most: usize) -> String {
    let named = |holder: &Holder| party_name(&holder.holder, holder.host.as_ref(), None);
    names(holders.iter().map(named), most)
}

/// The first `most` names, and the number of further ones.
pub(super) fn names(names: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    crate::text::identity::list(names.map(Cow::Owned), most)
}

pub(super) fn party_name(holder: &Text, host: Option<&Text>, node: Option<&Text>) -> String {
    let mut name = if holder.is_empty() { "somebody".to_owned() } else { holder.to_string() };
    for (word, text) in [(" on ", host), (" at ", node)] {
        name.extend(text.map(|text| format!("{word}{text}")));
    }
    name
}

/// The hold, if the lock is held according to the newest reading.
pub(super) fn present(task: &Task) -> Option<&crate::api::Hold> {
    task.lock.as_ref().filter(|lock| lock.held == Some(true))?.hold.as_ref()
}
