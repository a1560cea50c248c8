//! Problems as JSON: what an alert is about.

use lockwatch_judge::problems::{Problems, Severity};
use serde::Serialize;

use crate::alerts::firing;
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct ProblemJson {
    problem: &'static str,
    alert: &'static str,
    /// `page` or `warning`.
    severity: &'static str,
    /// For how long it has been seen; of an event: its age.
    seconds: f64,
    /// It is over, and still shown.
    event: bool,
}

pub(super) fn problems_json(problems: &Problems) -> Vec<ProblemJson> {
    let alerts = firing(problems).into_iter().map(|alert| ProblemJson {
        problem: alert.row.problem.name(),
        alert: alert.row.alert,
        severity: match alert.row.alert_severity() {
            Severity::Page => "page",
            Severity::Warning => "warning",
        },
        seconds: seconds(alert.ms),
        event: alert.is_event,
    });
    alerts.collect()
}
