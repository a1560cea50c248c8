//! How near each alert of a task is to firing, and the worst-case time until an alert.

use lockwatch_judge::problems::{Finding, task_finding};
use lockwatch_judge::snapshot::{KindView, TaskView};
use lockwatch_judge::verdict::{LockFact, TurnFact, Wanted};

use super::seen::Seen;
use super::{PageDue, TimeToPage};
use crate::alerts::{self, Condition, crash_loop_after_ms, down_after_ms, lease_ms};
use crate::text::durations::duration_text;
use crate::text::instants::seconds;

/// All critical alerts of the task.
pub(super) fn due(seen: Seen<'_>) -> Vec<PageDue> {
    let view = seen.view;
    let shown = |page: Condition| {
        let row = page.problem.row();
        let finding = match seen.is_once() {
            // One reading shows no durations.
            true => Finding::Unknown,
            false => task_finding(page.problem, view, seen.published.snapshot.at),
        };
        let (word, because) = match finding {
            Finding::Positive { .. } => ("positive", row.positive),
            Finding::Negative => ("negative", row.negative),
            Finding::Unknown => ("unknown", "It cannot be told now."),
        };
        PageDue {
            alert: row.alert.to_owned(),
            measure: page.measure.to_owned(),
            value_seconds: (!seen.is_once()).then(|| seconds(page.value_ms)),
            threshold_seconds: seconds(page.threshold_ms),
            finding: word.to_owned(),
            because: because.to_owned(),
            due: matches!(finding, Finding::Positive { .. }),
            due_in_seconds: left_ms(seen, &page).map(seconds),
            paused: view.paused == Some(true),
        }
    };
    alerts::of_task(view).into_iter().map(shown).collect()
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
