//! How near each alert of a task is to firing, and the worst-case time until an alert.

use lockwatch_judge::problems::{self, Finding, Problem, Problems, task_finding};
use lockwatch_judge::snapshot::{KindView, TaskView};
use lockwatch_judge::verdict::{LockFact, TurnFact, Wanted};

use super::seen::Seen;
use super::{PageDue, TimeToPage};
use crate::alerts::{self, Alert, Condition, crash_loop_after_ms, down_after_ms, lease_ms};
use crate::outputs::runs;
use crate::text::durations::duration_text;
use crate::text::instants::{rfc3339, seconds};

/// All critical alerts of the task that compare a duration, and each other one that fires.
pub(super) fn due(seen: Seen<'_>) -> Vec<PageDue> {
    let view = seen.view;
    // One reading shows no durations.
    let problems = match seen.is_once() {
        true => Problems::default(),
        false => problems::of_task(view, seen.published.snapshot.at, None),
    };
    let firing = alerts::firing(&problems);
    let pages = || firing.iter().filter(|alert| alert.severity.is_page());
    let fires = |problem: Problem| pages().find(|alert| alert.row.problem == problem);
    let mut conditions = alerts::of_task(view);
    for Alert { row, ms, .. } in pages() {
        if !conditions.iter().any(|page| page.problem == row.problem) {
            let (measure, problem) = ("problem_seconds", row.problem);
            conditions.push(Condition { problem, measure, value_ms: *ms, threshold_ms: 0 });
        }
    }
    conditions.into_iter().map(|page| shown(seen, &page, fires(page.problem))).collect()
}

fn shown(seen: Seen<'_>, page: &Condition, fires: Option<&Alert>) -> PageDue {
    let (view, row, at) = (seen.view, page.problem.row(), seen.published.snapshot.at);
    let finding = match seen.is_once() {
        true => Finding::Unknown,
        false => task_finding(page.problem, view, at),
    };
    let (word, because) = match (finding, fires) {
        (Finding::Positive { .. }, _) => ("positive", active(view, page.problem)),
        (_, Some(Alert { is_event: true, .. })) => {
            let long = duration_text(row.event_ms());
            ("positive", format!("{} It is over, and shown for {long}.", row.positive))
        }
        (Finding::Negative, _) => ("negative", row.negative.to_owned()),
        (Finding::Unknown, _) => ("unknown", "It is not known now.".to_owned()),
    };
    let ms = match finding {
        Finding::Positive { ms } => Some(ms),
        _ => fires.map(|alert| alert.ms),
    };
    PageDue {
        alert: row.alert.to_owned(),
        measure: page.measure.to_owned(),
        value_seconds: (!seen.is_once()).then(|| seconds(page.value_ms)),
        threshold_seconds: seconds(page.threshold_ms),
        finding: word.to_owned(),
        because,
        since: ms.and_then(|ms| rfc3339(seen.published.wall_at(at.minus_ms(ms)).0)),
        due: ms.is_some(),
        due_in_seconds: left_ms(seen, page).map(seconds),
        paused: view.paused == Some(true),
    }
}

/// What is active, with what was seen of it where no other part of the answer says it.
fn active(view: &TaskView, problem: Problem) -> String {
    let positive = problem.row().positive;
    match view.runs.as_deref().filter(|_| problem == Problem::Failing) {
        Some(runs) => format!("{positive} {}.", runs::newest(runs)),
        None => positive.to_owned(),
    }
}

/// Milliseconds until an alert is due if nothing changes; `None` if it is due, or if its value does
/// not grow.
fn left_ms(seen: Seen<'_>, page: &Condition) -> Option<u64> {
    if seen.is_once() {
        return None;
    }
    let view = seen.view;
    let moves = match page.measure {
        "down_seconds" => nobody_has_it(view) && view.wanted == Wanted::Yes,
        "blind_seconds" => page.value_ms > 0,
        "stalled_seconds" => {
            return still_ms(seen, view).map(|ms| page.threshold_ms.saturating_sub(ms));
        }
        _ => false,
    };
    (moves && page.value_ms <= page.threshold_ms).then(|| page.threshold_ms - page.value_ms)
}

/// Whether it is confirmed that nobody has it.
fn nobody_has_it(view: &TaskView) -> bool {
    match &view.kind {
        KindView::Lock(lock) => lock.fact == LockFact::Free,
        KindView::Turn(turn) => turn.fact == TurnFact::Nobody,
        KindView::Queue(_) => false,
    }
}

/// Milliseconds for which the progress of a held task has not moved: the shorter of the time since
/// its last movement, by the clock of the server that shows it, and the time since the hold began.
fn still_ms(seen: Seen<'_>, view: &TaskView) -> Option<u64> {
    if !matches!(view.wanted, Wanted::Yes | Wanted::Unset) {
        return None;
    }
    let hold = view.hold()?;
    if view.durations.stalled_ms > 0
        || view.progress.as_ref().is_some_and(|own| own.missing.is_some() || own.expired)
    {
        return None;
    }
    let nodes = &seen.redis()?.nodes;
    let node = nodes.iter().find(|node| Some(&node.address) == view.node.as_ref())?;
    let since_moved = node
        .last_success
        .zip(view.progress_moved())
        .and_then(|(now, moved)| now.since_ms(moved).try_into().ok());
    Some(hold.held_ms.min(since_moved.unwrap_or(u64::MAX)))
}

/// The worst-case time until lockwatch reports the task as down, as `check-config` computes it.
pub(super) fn worst_time(seen: Seen<'_>) -> TimeToPage {
    let spec = &seen.view.spec;
    let interval_ms = seen.redis().map_or(0, |redis| redis.spec.interval_ms);
    if let Some(runs) = spec.runs() {
        let late_ms = runs.every_ms.saturating_add(runs.late_after_ms);
        return TimeToPage {
            down_after_seconds: None,
            from_crash_seconds: None,
            says: format!(
                "{} after a run began, if the next one does not.",
                duration_text(late_ms)
            ),
        };
    }
    if !spec.may_be_wanted() {
        return TimeToPage {
            down_after_seconds: None,
            from_crash_seconds: None,
            says: "Never: nobody says that it is wanted, so it is never down.".to_owned(),
        };
    }
    let down_ms = down_after_ms(interval_ms, spec);
    // A configured lease wins over a learned one, and that over the library's default.
    let configured_ms = spec.lock().and_then(|lock| lock.lease_ms);
    let learned_ms = seen.view.lock().and_then(|lock| lock.lease_ms);
    let lease_ms = configured_ms.or(learned_ms).or_else(|| lease_ms(spec));
    let lease = match (configured_ms, learned_ms, lease_ms) {
        (Some(ms), _, _) => format!("the configured lease {}", duration_text(ms)),
        (None, Some(ms), _) => format!("the learned lease {}", duration_text(ms)),
        (None, None, Some(ms)) => format!("the library's default lease {}", duration_text(ms)),
        (None, None, None) if seen.redis().is_some_and(|it| it.spec.authority.ensemble) => {
            "the timeout of the holder's session".to_owned()
        }
        (None, None, None) => "the lease, which is not known yet,".to_owned(),
    };
    TimeToPage {
        down_after_seconds: Some(seconds(down_ms)),
        from_crash_seconds: lease_ms.map(|lease_ms| seconds(down_ms.saturating_add(lease_ms))),
        says: format!(
            "interval {} + grace {} (at least 250ms, to confirm it) + 250ms; from a crash, {lease} \
             comes first; where each hold ends within settle {}, {} at worst. On top come Prometheus' scrape and evaluation and Alertmanager's \
             group_wait: `lockwatch check-config` adds them.",
            duration_text(interval_ms),
            duration_text(spec.grace_ms),
            duration_text(spec.settle_ms),
            duration_text(crash_loop_after_ms(interval_ms, spec)),
        ),
    }
}
