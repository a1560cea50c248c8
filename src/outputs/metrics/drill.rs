//! The series of a drill: those that alerts read of a task, which say that it is down.

use std::borrow::Cow;

use lockwatch_judge::problems::{Problem, Severity};
use lockwatch_judge::spec::DRILL;
use lockwatch_judge::time::Mono;

use super::problems::{SEVERITY, labels as own_labels, severity_of};
use super::reading::Number;
use super::text;
use crate::drill::Drill;
use crate::text::identity::escape;

/// At least so long it has been down: a problem is above 0.
const LEAST_MS: u64 = 1_000;
const PROBLEM: (&str, &str) = ("problem", Problem::Down.name());

/// Writes the series of the metric `name`, if a drill has any.
pub(super) fn write(name: &str, drill: &Drill, at: Mono, out: &mut String) {
    let labels = labels(drill);
    let is_of_problem = |(name, _): &&(&str, Cow<'_, str>)| *name == PROBLEM.0;
    let (without, number) = match name {
        "lockwatch_task_problem_seconds" => {
            (false, Number::Ms(at.since_ms(drill.began).max(LEAST_MS)))
        }
        "lockwatch_task_clear" => (true, Number::Count(0)),
        _ => return,
    };
    let shown = labels.iter().filter(|label| !(without && is_of_problem(label)));
    let mut own = String::new();
    text::labels(shown.map(|(name, value)| (*name, &**value)), &mut own);
    text::line(name, &own, &[], number, out);
}

/// The labels of its series `lockwatch_task_problem_seconds`.
pub(in crate::outputs) fn labels(drill: &Drill) -> Vec<(&str, Cow<'_, str>)> {
    let of = &drill.of;
    let severity = of.severity.as_deref().map(|severity| escape(severity.as_bytes()));
    let severity = severity.unwrap_or_else(|| severity_of(&of.task, Severity::Page).into());
    let first = [
        ("task", DRILL.into()),
        ("store", escape(of.store.as_bytes())),
        ("drill", escape(of.task.name.as_bytes())),
        (PROBLEM.0, PROBLEM.1.into()),
        (SEVERITY, severity),
    ];
    first.into_iter().chain(own_labels(&of.task)).collect()
}
