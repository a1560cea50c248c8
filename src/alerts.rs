//! Which pages the shipped alert rules send: the same comparisons as in `alerts/`, without the time
//! that scrape, evaluation and Alertmanager take. For people and for replay; Prometheus decides by
//! itself.

use lockwatch_model::snapshot::{RedisView, TaskView};

/// An alert on something that happened fires for as long as that is younger than this.
pub const EVENT_MS: u64 = 15 * 60_000;

/// A page and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The alert's name.
    pub alert: &'static str,
    /// What it compares, as named in `/api/v1/tasks`.
    pub measure: &'static str,
    /// The value now.
    pub value_ms: u64,
    /// It pages once the value is above this.
    pub threshold_ms: u64,
}

impl Condition {
    /// Whether its condition holds.
    pub fn is_due(&self) -> bool {
        self.value_ms > self.threshold_ms
    }
}

/// All pages of a task that look at a duration, whether due or not. While [`TaskView::paused`], all
/// of them wait.
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

/// Warnings of a task that look at a duration which one of its thresholds decides about, whether
/// due or not. No pause holds them back.
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
    let hold = view.hold.as_ref();
    let overdue_ms = hold.map_or(0, |hold| hold.renewal_overdue_ms);
    if let Some(period_ms) = view.renewal_period_ms {
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

/// An alert that fires for what happened within [`EVENT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCondition {
    /// The alert's name.
    pub alert: &'static str,
    /// How often it has happened.
    pub count: u64,
}

/// The pages of a task that look at what happened. While [`TaskView::paused`], what happens waits
/// for the end of the pause.
pub fn events_of_task(view: &TaskView) -> [EventCondition; 2] {
    [
        EventCondition { alert: "LockwatchTaskSplit", count: view.totals.splits.iter().sum() },
        EventCondition { alert: "LockwatchLockLost", count: view.totals.holds_lost },
    ]
}

/// The page of a redis, whether due or not; `blind_after_ms` of its task that waits least. No pause
/// holds it back.
pub fn of_redis(view: &RedisView, blind_after_ms: u64) -> Condition {
    // One server that decides is enough; what is read again is not blind, whatever else is.
    let value_ms = if view.readable == Some(true) { 0 } else { view.blind_ms };
    Condition {
        alert: "LockwatchRedisUnreachable",
        measure: "blind_seconds",
        value_ms,
        threshold_ms: blind_after_ms,
    }
}
