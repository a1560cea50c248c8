//! The series of problems: all that the alerting rules read of tasks and stores.

use std::borrow::Cow;

use lockwatch_judge::problems::{Finding, Problem, Problems, Severity};
use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::spec::{RunsSpec, TaskSpec};

use super::labels::{HOLDER_SERIES_MAX, is_own_label};
use super::reading::{Emit, Number, Seen};
use crate::outputs::periodic::due;
use crate::text::identity::{escape, holder_label};

/// Most series of `lockwatch_task_split_holder` for one task.
const SPLIT_SERIES_MAX: usize = 10;
/// The label that replaces the severity of a task's critical alerts.
pub(super) const SEVERITY: &str = "severity";
/// Labels that these series have in addition to a task's own.
const TAKEN: [&str; 2] = ["problem", SEVERITY];

pub(super) fn clear(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let labels = labels(&seen.of.spec);
    let labels = refs(&[], severity_of(&seen.of.spec, Severity::Page), &labels);
    emit(&labels, flag(seen.problems().clear));
}

pub(super) fn problems(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let (task, findings) = (seen.of, &seen.problems().findings);
    if findings.is_empty() {
        return;
    }
    let labels = labels(&task.spec);
    for (problem, finding) in findings {
        if let Some(number) = number(*finding) {
            let severity = severity_of(&task.spec, problem.row().severity);
            emit(&refs(&[("problem", problem.name())], severity, &labels), number);
        }
    }
}

pub(super) fn events(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let (task, events) = (seen.of, &seen.problems().events);
    if events.is_empty() {
        return;
    }
    let labels = labels(&task.spec);
    for (problem, age_ms) in events {
        let severity = severity_of(&task.spec, problem.row().severity);
        let labels = refs(&[("problem", problem.name())], severity, &labels);
        emit(&labels, Number::Ms(*age_ms));
    }
}

/// Who takes part in the splits that are in force, or else in the newest one, as long as its event
/// is shown.
pub(super) fn split_holders(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let task = seen.of;
    let newest = task.grounds.rare.as_ref().and_then(|rare| rare.split_by.as_ref());
    let Some((kind, parties)) = newest else { return };
    let Problems { findings, events, .. } = seen.problems();
    let mut of = findings.iter().filter(|(_, finding)| finding.is_positive()).map(|(of, _)| of);
    if !of.any(|of| *of == Problem::Split) && !events.iter().any(|(of, _)| *of == Problem::Split) {
        return;
    }
    let now = task.splits.iter().map(|split| (split.kind, &split.parties));
    let before = task.splits.is_empty().then_some((*kind, parties));
    let mut shown = Vec::new();
    for (kind, party) in
        now.chain(before).flat_map(|(kind, of)| of.iter().map(move |of| (kind, of)))
    {
        let host = party.host.as_deref().map(escape).unwrap_or_default();
        let labels = (holder_label(&party.holder), host, kind.name());
        if shown.len() < SPLIT_SERIES_MAX && !shown.contains(&labels) {
            let (holder, host, of) = &labels;
            emit(&[("holder", holder), ("holder_host", host), ("of", of)], flag(true));
            shown.push(labels);
        }
    }
}

/// Whose hold ended last, while there is a problem, or soon will be: rules may find first that a run
/// is late.
pub(super) fn last_holder(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let task = seen.of;
    let Some(last) = task.lock().and_then(|lock| lock.last.as_ref()) else { return };
    let Problems { findings, events, .. } = seen.problems();
    let is_late =
        |spec: &RunsSpec| task.periodic().is_some_and(|runs| runs.late_ms > spec.late_after_ms / 2);
    let is_positive = |(_, finding): &(Problem, Finding)| finding.is_positive();
    let is_shown = !events.is_empty()
        || findings.iter().any(is_positive)
        || task.spec.runs().is_some_and(is_late);
    if !is_shown {
        return;
    }
    let mut shown = Vec::new();
    let named = last.holders.iter().filter(|party| party.holder.is_identified());
    for party in named.take(HOLDER_SERIES_MAX) {
        let host = party.host.as_deref().map(escape).unwrap_or_default();
        let labels = (holder_label(&party.holder), host);
        if !shown.contains(&labels) {
            emit(
                &[("holder", &labels.0), ("holder_host", &labels.1)],
                Number::SignedMs(last.seen.ms()),
            );
            shown.push(labels);
        }
    }
}

/// When the next run is late: what rules remember while agents are restarted.
pub(super) fn run_due(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    if let Some(due) = due(seen.of, |instant| seen.when.wall_at(instant)) {
        let labels = labels(&seen.of.spec);
        let labels = refs(&[], severity_of(&seen.of.spec, Severity::Page), &labels);
        emit(&labels, Number::SignedMs(due.0));
    }
}

/// For how long no run can have come and gone unseen: rules wait for one that may have.
pub(super) fn run_watched(seen: &Seen<'_, TaskView>, emit: &mut Emit<'_>) {
    let at = seen.when.at;
    let watched = seen.of.periodic().and_then(|runs| runs.watched.as_ref());
    if let Some(watched) = watched.filter(|watched| at <= watched.end) {
        emit(&[], Number::Ms(at.since_ms(watched.start)));
    }
}

/// How many users want the task, once this process saw their switches.
pub(super) fn wanting_users(task: &TaskView, emit: &mut Emit<'_>) {
    if task.switch_key_seen != Some(false)
        && let Some(users) = task.wanting.users
    {
        let labels = labels(&task.spec);
        let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        emit(&labels, Number::Count(users));
    }
}

pub(super) fn redis_clear(seen: &Seen<'_, StoreView>, emit: &mut Emit<'_>) {
    let problems = seen.problems();
    emit(&[(SEVERITY, problems.of(Severity::Page).label())], flag(problems.clear));
}

pub(super) fn redis_problems(seen: &Seen<'_, StoreView>, emit: &mut Emit<'_>) {
    let problems = seen.problems();
    for (problem, finding) in &problems.findings {
        if let Some(number) = number(*finding) {
            emit(&of_redis(problems, *problem), number);
        }
    }
}

pub(super) fn redis_events(seen: &Seen<'_, StoreView>, emit: &mut Emit<'_>) {
    let problems = seen.problems();
    for (problem, age_ms) in &problems.events {
        emit(&of_redis(problems, *problem), Number::Ms(*age_ms));
    }
}

fn of_redis(problems: &Problems, problem: Problem) -> [(&'static str, &'static str); 2] {
    [("problem", problem.name()), (SEVERITY, problems.of(problem.row().severity).label())]
}

fn flag(value: bool) -> Number {
    Number::Count(u64::from(value))
}

fn number(finding: Finding) -> Option<Number> {
    match finding {
        Finding::Positive { ms } => Some(Number::Ms(ms)),
        Finding::Negative => Some(Number::Ms(0)),
        Finding::Unknown => None,
    }
}

/// The severity of an alert of this task: its own label replaces that of pages.
pub(super) fn severity_of(task: &TaskSpec, severity: Severity) -> &str {
    let mut own = task
        .labels
        .iter()
        .filter(|(name, value)| severity.is_page() && &**name == SEVERITY && !value.is_empty());
    own.next().map_or(severity.label(), |(_, value)| value)
}

/// The task's own labels.
pub(super) fn labels(task: &TaskSpec) -> Vec<(&str, Cow<'_, str>)> {
    let mut labels: Vec<(&str, Cow<'_, str>)> = Vec::new();
    for (name, value) in &task.labels {
        let is_new = !labels.iter().any(|(other, _)| *other == &**name);
        if is_new && !value.is_empty() && is_own_label(name) && !TAKEN.contains(&&**name) {
            labels.push((name, escape(value.as_bytes())));
        }
    }
    labels
}

fn refs<'a>(
    first: &[(&'a str, &'a str)],
    severity: &'a str,
    own: &'a [(&'a str, Cow<'a, str>)],
) -> Vec<(&'a str, &'a str)> {
    let own = own.iter().map(|(name, value)| (*name, &**value));
    first.iter().copied().chain([(SEVERITY, severity)]).chain(own).collect()
}
