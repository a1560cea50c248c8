//! The alerts that the shipped rules would fire: the same comparisons as in `alerts/`, without the
//! delays of scrape, evaluation and Alertmanager; and how late lockwatch reports a task as down. Used
//! for display and for replay only; Prometheus evaluates the rules independently.

use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::libraries;

/// How long an alert on an event fires after the event, in milliseconds.
pub const EVENT_MS: u64 = 15 * 60_000;

/// A free lock must be confirmed by a second reading that is at least this many milliseconds later.
const CONFIRMATION_MS: u64 = 250;

/// Maximum time from the end of the grace period to a snapshot that shows it: the reading right
/// after it, possibly delayed by one in progress, and the pause between two snapshots.
const SEEN_WITHIN_MS: u64 = 250;

/// An alert on a duration, and how near it is to firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The alert's name.
    pub alert: &'static str,
    /// The measure that it compares, as named in `/api/v1/tasks`.
    pub measure: &'static str,
    /// The current value in milliseconds.
    pub value_ms: u64,
    /// The alert fires once the value is above this many milliseconds.
    pub threshold_ms: u64,
}

impl Condition {
    /// Whether its condition holds.
    pub fn is_due(&self) -> bool {
        self.value_ms > self.threshold_ms
    }
}

/// All critical alerts of a task that compare a duration, whether due or not. They are all deferred
/// while [`TaskView::paused`].
pub fn of_task(view: &TaskView) -> Vec<Condition> {
    let (durations, spec) = (&view.durations, &view.spec);
    let page = |alert, measure, value_ms, threshold_ms| Condition {
        alert,
        measure,
        value_ms,
        threshold_ms,
    };
    let mut pages = vec![page("LockwatchTaskSplit", "split_seconds", durations.split_ms, 0)];
    if spec.may_be_wanted() {
        pages.push(page("LockwatchTaskDown", "down_seconds", durations.down_ms, spec.grace_ms));
        pages.push(page(
            "LockwatchSwitchesLost",
            "switches_lost_seconds",
            durations.switches_lost_ms,
            0,
        ));
    }
    if let Some(progress) = &spec.progress {
        pages.push(page(
            "LockwatchTaskStalled",
            "stalled_seconds",
            durations.stalled_ms,
            progress.stale_after_ms,
        ));
    }
    pages.push(page(
        "LockwatchTaskBlind",
        "blind_seconds",
        durations.blind_ms,
        spec.blind_after_ms,
    ));
    pages
}

/// The warnings of a task that compare a duration with one of its thresholds, whether due or not. A
/// pause does not defer them.
pub fn warnings_of_task(view: &TaskView) -> Vec<Condition> {
    let page = |alert, measure, value_ms, threshold_ms| Condition {
        alert,
        measure,
        value_ms,
        threshold_ms,
    };
    let mut warnings = vec![page(
        "LockwatchTaskUnwanted",
        "unwanted_seconds",
        view.durations.unwanted_ms,
        view.spec.wind_down_ms,
    )];
    let hold = view.lock().hold.as_ref();
    let overdue_ms = hold.map_or(0, |hold| hold.renewal_overdue_ms);
    if let Some(period_ms) = view.lock().renewal_period_ms {
        warnings.push(page(
            "LockwatchRenewalOverdue",
            "renewal_overdue_seconds",
            overdue_ms,
            period_ms / 2,
        ));
    }
    if let Some(max_hold_ms) = view.spec.max_hold_ms {
        let held_ms = hold.map_or(0, |hold| hold.held_ms);
        warnings.push(page("LockwatchHeldTooLong", "held_seconds", held_ms, max_hold_ms));
    }
    warnings
}

/// An alert that fires for events within the last [`EVENT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCondition {
    /// The alert's name.
    pub alert: &'static str,
    /// How often the event has occurred.
    pub count: u64,
}

/// The critical alerts of a task that count events. While [`TaskView::paused`], they are deferred
/// until the pause ends.
pub fn events_of_task(view: &TaskView) -> [EventCondition; 2] {
    [
        EventCondition { alert: "LockwatchTaskSplit", count: view.totals.splits.iter().sum() },
        EventCondition { alert: "LockwatchLockLost", count: view.totals.holds_lost },
    ]
}

/// The critical alert of a Redis store, whether due or not. `blind_after_ms` is the shortest one of
/// its tasks. A pause does not defer it.
pub fn of_redis(view: &StoreView, blind_after_ms: u64) -> Condition {
    // One deciding server that can be read is enough. A store that can be read again is not blind,
    // whatever its other servers report.
    let value_ms = if view.readable == Some(true) { 0 } else { view.blind_ms };
    Condition {
        alert: "LockwatchStoreUnreachable",
        measure: "blind_seconds",
        value_ms,
        threshold_ms: blind_after_ms,
    }
}

/// The worst-case time from the moment when a wanted task has no holder until lockwatch reports it
/// as down, in milliseconds.
///
/// The gap begins with the first reading that shows it, so up to one interval passes before
/// that. When the grace period ends, the lock is read at once.
pub fn down_after_ms(interval_ms: u64, task: &TaskSpec) -> u64 {
    interval_ms.saturating_add(task.grace_ms.max(CONFIRMATION_MS)).saturating_add(SEEN_WITHIN_MS)
}

/// Maximum time that a lock stays held after its holder crashed, in milliseconds: the configured
/// lease, else the library's default.
pub fn lease_ms(task: &TaskSpec) -> Option<u64> {
    task.lock().lease_ms.or(libraries::of(&task.lock().library).default_lease_ms())
}
