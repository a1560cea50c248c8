//! The alerts of the shipped rules, as this agent sees them, without the delays of scrape,
//! evaluation and Alertmanager; and how late lockwatch reports a task as down. For display only;
//! Prometheus evaluates the rules independently, and remembers.

use sha2::{Digest as _, Sha256};

use lockwatch_judge::problems::{Compared, Finding, Problem, Problems, Row, Severity, rows};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::libraries;

/// The shipped rules.
pub const RULES: &str = include_str!("../alerts/lockwatch.rules.yml");
/// What their recording rule `lockwatch:rules_info` begins its labels with.
const VERSION: &str = "        labels: {rules: \"";
/// Hex digits of the version.
const VERSION_DIGITS: usize = 12;

/// The version of these rules, which their own `lockwatch:rules_info` has as the label `rules`: a
/// digest of all their other lines.
pub fn rules_version(rules: &str) -> String {
    let mut digest = Sha256::new();
    for line in rules.lines().filter(|line| !line.starts_with(VERSION)) {
        digest.update(line);
        digest.update("\n");
    }
    let mut version = hex::encode(digest.finalize());
    version.truncate(VERSION_DIGITS);
    version
}

/// The version that these rules say they have.
pub fn stated_version(rules: &str) -> Option<&str> {
    rules.lines().find_map(|line| line.strip_prefix(VERSION)?.strip_suffix("\"}"))
}

/// The names of all alerts and recorded series of these rules, in their order.
pub fn rule_names(rules: &str) -> impl Iterator<Item = &str> {
    rules.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("- record: ").or_else(|| line.strip_prefix("- alert: "))
    })
}

/// A free lock must be confirmed by a second reading that is at least this many milliseconds later.
const CONFIRMATION_MS: u64 = 250;

/// Maximum time from the end of the grace period to a snapshot that shows it: the reading right
/// after it, possibly delayed by one in progress, and the pause between two snapshots.
const SEEN_WITHIN_MS: u64 = 250;

/// The alert of a task that is down, and of a drill.
pub const DOWN: &str = "LockwatchTaskDown";
/// The series that says which version of the rules is loaded.
pub const RULES_INFO: &str = "lockwatch:rules_info";

/// An alert that fires.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Its problem's row of the table.
    pub row: &'static Row,
    /// For how long the problem has been seen; of an event: its age. In milliseconds.
    pub ms: u64,
    /// It is over, and still shown.
    pub is_event: bool,
    /// Whom it wakes.
    pub severity: Severity,
}

/// The alerts for what is seen now.
pub fn firing(problems: &Problems) -> Vec<Alert> {
    let alert = |problem: &Problem, ms, is_event| {
        let row = problem.row();
        Alert { row, ms, is_event, severity: problems.of(row.alert_severity()) }
    };
    let states = problems.findings.iter().filter_map(|(problem, finding)| match finding {
        Finding::Positive { ms } if problem.row().fires(*ms) => Some(alert(problem, *ms, false)),
        _ => None,
    });
    let mut alerts: Vec<Alert> = states.collect();
    for (problem, age_ms) in &problems.events {
        if !alerts.iter().any(|alert| alert.row.problem == *problem) {
            alerts.push(alert(problem, *age_ms, true));
        }
    }
    alerts
}

/// An alert on a duration, and how near it is to firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The problem.
    pub problem: Problem,
    /// The measure that it compares, as named in `/api/v1/tasks`.
    pub measure: &'static str,
    /// The current value in milliseconds.
    pub value_ms: u64,
    /// The alert fires once the value is above this many milliseconds.
    pub threshold_ms: u64,
}

/// All critical alerts of a task that compare a duration, whether due or not. They are all deferred
/// while [`TaskView::paused`].
pub fn of_task(view: &TaskView) -> Vec<Condition> {
    let condition = |row: &Row| {
        let Compared { measure, value, limit } = row.compared?;
        let (value_ms, threshold_ms) = (value(&view.durations), limit(&view.spec)?);
        Some(Condition { problem: row.problem, measure, value_ms, threshold_ms })
    };
    rows().filter_map(condition).collect()
}

/// The worst-case time from the moment when a wanted task has no holder until lockwatch reports it
/// as down, in milliseconds.
///
/// The gap begins with the first reading that shows it, so up to one interval passes before
/// that. When the grace period ends, the lock is read at once.
pub fn down_after_ms(interval_ms: u64, task: &TaskSpec) -> u64 {
    interval_ms.saturating_add(task.grace_ms.max(CONFIRMATION_MS)).saturating_add(SEEN_WITHIN_MS)
}

/// The same of a crash loop, in which each hold ends before it has lasted for `settle`: what
/// happens to be held when the grace period ends breaks first, and that is seen at most an interval
/// later.
pub fn crash_loop_after_ms(interval_ms: u64, task: &TaskSpec) -> u64 {
    let breaks_ms = interval_ms.saturating_add(CONFIRMATION_MS).saturating_add(task.settle_ms);
    down_after_ms(interval_ms, task).saturating_add(breaks_ms)
}

/// Maximum time that a lock stays held after its holder crashed, in milliseconds: the configured
/// lease, else the library's default.
pub fn lease_ms(task: &TaskSpec) -> Option<u64> {
    let lock = task.lock()?;
    lock.lease_ms.or(libraries::of(&lock.library).default_lease_ms())
}
