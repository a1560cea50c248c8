//! The alerts of the shipped rules, as this agent sees them, without the delays of scrape,
//! evaluation and Alertmanager; and how late lockwatch reports a task as down. For display only;
//! Prometheus evaluates the rules independently, and remembers.

use lockwatch_judge::problems::{Finding, Problem, Problems, Row};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::{KindSpec, TaskSpec};
use lockwatch_watch::redis::libraries;

/// A free lock must be confirmed by a second reading that is at least this many milliseconds later.
const CONFIRMATION_MS: u64 = 250;

/// Maximum time from the end of the grace period to a snapshot that shows it: the reading right
/// after it, possibly delayed by one in progress, and the pause between two snapshots.
const SEEN_WITHIN_MS: u64 = 250;

/// The alert on switches that were never seen fires when that has lasted for longer, in
/// milliseconds.
pub const UNSEEN_MS: u64 = 600_000;

/// An alert that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its problem's row of the table.
    pub row: &'static Row,
    /// For how long the problem has been seen; of an event: its age. In milliseconds.
    pub ms: u64,
    /// It is over, and told for a while.
    pub is_event: bool,
}

/// The alerts for what is seen now.
pub fn firing(problems: &Problems) -> Vec<Alert> {
    let states = problems.findings.iter().filter_map(|(problem, finding)| match finding {
        Finding::Positive { ms } if *problem != Problem::SwitchesUnseen || *ms > UNSEEN_MS => {
            Some(Alert { row: problem.row(), ms: *ms, is_event: false })
        }
        _ => None,
    });
    let mut alerts: Vec<Alert> = states.collect();
    for (problem, age_ms) in &problems.events {
        if !alerts.iter().any(|alert| alert.row.problem == *problem) {
            alerts.push(Alert { row: problem.row(), ms: *age_ms, is_event: true });
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

/// All critical alerts of a task that can compare a duration, whether due or not. They are all
/// deferred while [`TaskView::paused`].
pub fn of_task(view: &TaskView) -> Vec<Condition> {
    let (durations, spec) = (&view.durations, &view.spec);
    let page = |problem, measure, value_ms, threshold_ms| Condition {
        problem,
        measure,
        value_ms,
        threshold_ms,
    };
    let mut pages = vec![page(Problem::Split, "split_seconds", durations.split_ms, 0)];
    if spec.may_be_wanted() {
        // Nobody has a queue: it is only worked on.
        if view.queue().is_none() {
            pages.push(page(Problem::Down, "down_seconds", durations.down_ms, spec.grace_ms));
        }
    }
    if spec.has_switches() {
        pages.push(page(
            Problem::SwitchesLost,
            "switches_lost_seconds",
            durations.switches_lost_ms,
            0,
        ));
    }
    let stale_after_ms = match &spec.kind {
        KindSpec::Lock(_) => spec.progress.as_ref().map(|progress| progress.stale_after_ms),
        KindSpec::Turn(turn) => Some(turn.max_late_ms),
        KindSpec::Queue(queue) => Some(queue.max_late_ms),
    };
    if let Some(limit_ms) = stale_after_ms {
        pages.push(page(Problem::Stalled, "stalled_seconds", durations.stalled_ms, limit_ms));
    }
    pages.push(page(Problem::Blind, "blind_seconds", durations.blind_ms, spec.blind_after_ms));
    pages
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
