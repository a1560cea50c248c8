//! docs/problems.md is that of the table of problems.

use std::fmt::Write as _;
use std::path::Path;

use lockwatch_judge::problems::{Memory, Row, Severity, rows};

use crate::exposition::check_golden;

const HEAD: &str = "\
# Problems

Generated from the agent's own table; `BLESS=1 cargo test` rewrites it.

A problem is a condition that deserves an alert. Each has its own clock and its own evidence, which
the agent judges: thresholds, pauses, blindness, what users want, and history. It publishes

- `lockwatch_task_problem_seconds`, `lockwatch_store_problem_seconds`: above 0, the agent sees now \
that it is so, and for how long. 0: it sees that it is not so. Absent: it cannot tell now, as while it \
is blind, or new.
- `lockwatch_task_clear`, `lockwatch_store_clear`: 1 while there is fresh evidence against every \
state that pages. Then no zeros are shown, so that a healthy task costs one series.
- `lockwatch_task_event_age_seconds`, `lockwatch_store_event_age_seconds`: what happened not long \
ago. The age counts from the end of a pause, or of a time without scrapes, if that was later.

While a pause lasts, a problem that pages is withheld unless it was shown before; what happened in
the pause shows at its end. The label `severity` is that of the alert: a task's own label `severity`
replaces that of its pages. (Only the series of `switches_unseen` has the severity of pages, \
because it becomes `switches_lost` where users wanted the task before.) A task's own labels stand on \
these series.

The agent keeps nothing: what it knows was seen by this process. The alerting rules read nothing
else of tasks and stores. They put agents together, and remember what an agent said while it cannot
tell.

";

#[test]
fn the_reference_is_that_of_the_table() {
    let mut text = HEAD.to_owned();
    for (of_task, title) in [(true, "Of a task"), (false, "Of a store")] {
        let head = "problem | severity | it is so while | evidence against it | the number | alert";
        write!(text, "## {title}\n\n| {head} |\n|---|---|---|---|---|---|\n").unwrap();
        for row in rows().filter(|row| row.is_of_task() == of_task) {
            text += &line(row);
        }
        text += "\n";
    }
    check_golden(Path::new("docs/problems.md"), text.trim_end_matches('\n'));
}

fn line(row: &Row) -> String {
    let severity = match row.alert_severity() {
        Severity::Page => "page",
        Severity::Warning => "warning",
    };
    let against = match (row.negative, row.memory) {
        ("", Memory::Event(ms)) => format!("None: it is told for {} minutes.", ms / 60_000),
        ("", _) => "None is needed.".to_owned(),
        (negative, _) => negative.to_owned(),
    };
    format!(
        "| `{}` | {severity} | {} | {against} | {} | {} |\n",
        row.problem.name(),
        row.positive,
        row.number,
        row.alert
    )
}
