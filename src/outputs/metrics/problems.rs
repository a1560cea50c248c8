//! The series of problems: all that the alerting rules read of tasks and stores.

use std::borrow::Cow;

use lockwatch_judge::problems::{Finding, Problem, Problems, Severity, of_store, of_task};
use lockwatch_judge::snapshot::{StoreView, TaskView};

use super::is_own_label;
use super::reading::{Emit, Number, When};
use crate::text::identity::escape;

/// The label that replaces the severity of a task's pages.
const SEVERITY: &str = "severity";
/// Labels that these series have beside a task's own.
const TAKEN: [&str; 2] = ["problem", SEVERITY];

pub(super) fn clear(task: &TaskView, when: When, emit: &mut Emit<'_>) {
    let problems = of_task(task, when.at, when.unscraped);
    let labels = labels(task);
    emit(&refs(&[], severity_of(task, Severity::Page), &labels), flag(problems.clear));
}

pub(super) fn problems(task: &TaskView, when: When, emit: &mut Emit<'_>) {
    let Problems { findings, .. } = of_task(task, when.at, when.unscraped);
    if findings.is_empty() {
        return;
    }
    let labels = labels(task);
    for (problem, finding) in findings {
        if let Some(number) = number(finding) {
            let severity = severity_of(task, problem.row().severity);
            emit(&refs(&[("problem", problem.name())], severity, &labels), number);
        }
    }
}

pub(super) fn events(task: &TaskView, when: When, emit: &mut Emit<'_>) {
    let Problems { events, .. } = of_task(task, when.at, when.unscraped);
    if events.is_empty() {
        return;
    }
    let labels = labels(task);
    for (problem, age_ms) in events {
        let severity = severity_of(task, problem.row().severity);
        let labels = refs(&[("problem", problem.name())], severity, &labels);
        emit(&labels, Number::Ms(age_ms));
    }
}

/// How many users want the task, once this process saw their switches.
pub(super) fn wanting_users(task: &TaskView, emit: &mut Emit<'_>) {
    if task.switch_key_seen != Some(false)
        && let Some(users) = task.wanting_users
    {
        let labels = labels(task);
        let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        emit(&labels, Number::Count(users));
    }
}

pub(super) fn redis_clear(store: &StoreView, when: When, emit: &mut Emit<'_>) {
    let problems = of_store(store, when.at, when.unscraped);
    emit(&[(SEVERITY, Severity::Page.label())], flag(problems.clear));
}

pub(super) fn redis_problems(store: &StoreView, when: When, emit: &mut Emit<'_>) {
    for (problem, finding) in of_store(store, when.at, when.unscraped).findings {
        if let Some(number) = number(finding) {
            emit(&of_redis(problem), number);
        }
    }
}

pub(super) fn redis_events(store: &StoreView, when: When, emit: &mut Emit<'_>) {
    for (problem, age_ms) in of_store(store, when.at, when.unscraped).events {
        emit(&of_redis(problem), Number::Ms(age_ms));
    }
}

fn of_redis(problem: Problem) -> [(&'static str, &'static str); 2] {
    [("problem", problem.name()), (SEVERITY, problem.row().severity.label())]
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
fn severity_of(task: &TaskView, severity: Severity) -> &str {
    let mut own = task
        .spec
        .labels
        .iter()
        .filter(|(name, value)| severity.is_page() && &**name == SEVERITY && !value.is_empty());
    own.next().map_or(severity.label(), |(_, value)| value)
}

/// The task's own labels.
fn labels(task: &TaskView) -> Vec<(&str, Cow<'_, str>)> {
    let mut labels: Vec<(&str, Cow<'_, str>)> = Vec::new();
    for (name, value) in &task.spec.labels {
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
