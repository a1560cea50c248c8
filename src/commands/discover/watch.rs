//! Watches the locks that were found as the agent would: with the same watcher and the same state.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::event::End;
use lockwatch_judge::reading::Mode;
use lockwatch_judge::snapshot::{HoldView, TaskView};
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::Config;
use crate::engine::{Engine, INPUTS};
use crate::io::{self, Assignment};
use crate::published::Unanswered;
use crate::text::durations::duration_text;
use crate::text::identity::{holder_label, list};
use crate::trace::Traces;

/// Interval between readings. It is short enough that only one whole second fits as the lease.
const INTERVAL: Duration = Duration::from_millis(400);
/// Interval for many locks, to limit the load on the server.
const INTERVAL_OF_MANY: Duration = Duration::from_millis(900);
/// Number of locks from which [`INTERVAL_OF_MANY`] is used.
const MANY: usize = 200;
/// Maximum time for the engine to publish the final state.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of holders that are named.
const NAMED_MAX: usize = 3;

/// Watches the tasks of `config`, which has one Redis, and returns the view of each task, in order.
pub(super) async fn watch_for(mut config: Config, watch_ms: u64) -> Vec<Option<Arc<TaskView>>> {
    let interval = if config.tasks.len() < MANY { INTERVAL } else { INTERVAL_OF_MANY };
    config.redises.iter_mut().for_each(|redis| redis.interval = interval);
    let names: Vec<Arc<str>> = config.tasks.iter().map(|task| Arc::clone(&task.name)).collect();
    let Some(redis) = config.redises.first().cloned() else { return Vec::new() };
    let clock = Clock::start();
    let (inputs, engine_inputs) = mpsc::channel(INPUTS);
    let (engine, snapshots) = Engine::new(clock, config.watch_spec(0));
    let tasks = config
        .tasks
        .iter()
        .zip(0..)
        .map(|(task, index)| (TaskIndex(index), Arc::clone(task)))
        .collect();
    let assignment = Arc::new(Assignment { epoch: 0, index: StoreIndex(0), config: redis, tasks });
    let (_assignments, receiver) = watch::channel(assignment);
    let _engine = AbortOnDropHandle::new(tokio::spawn(engine.run(engine_inputs, ())));
    let _watcher =
        AbortOnDropHandle::new(tokio::spawn(io::run(receiver, inputs, clock, Traces::default())));
    tokio::time::sleep(Duration::from_millis(watch_ms)).await;
    let newest =
        snapshots.everything(PATIENCE).await.unwrap_or_else(|Unanswered| snapshots.newest());
    let view = |name: &Arc<str>| newest.snapshot.tasks.find(name).map(Arc::clone);
    names.iter().map(view).collect()
}

/// What the watch showed of a lock, in a sentence. It contains no token, and does not depend on the
/// exact times of the readings.
pub(super) fn learned(view: &TaskView, watch_ms: u64) -> String {
    let mut text = match (view.hold(), view.held) {
        (Some(hold), _) => held(view, hold, watch_ms),
        (None, Some(false)) => format!("Free {}", how_it_ended(view)),
        (None, _) => match view.unknown {
            Some(why) => {
                format!("Could not be read ({}); {}", why.name(), lockwatch_watch::remedy(why))
            }
            None => "Not read yet".to_owned(),
        },
    };
    let changes = view.totals.acquisitions;
    if changes > 0 {
        text.push_str(&format!("; taken {} in {}", times(changes), duration_text(watch_ms)));
    }
    let waiters = view.lock().and_then(|lock| lock.waiters);
    if let Some(waiters) = waiters.filter(|waiters| *waiters > 0) {
        text.push_str(&format!("; {waiters} waiting"));
    }
    text
}

fn held(view: &TaskView, hold: &HoldView, watch_ms: u64) -> String {
    let names = hold.holders.iter().map(|(holder, _)| holder_label(holder));
    let secret = hold.holders.iter().any(|(holder, _)| holder.secret);
    let how = match hold.mode {
        Mode::Exclusive => "Held by",
        Mode::Read => "Read by",
        Mode::Write => "Written by",
    };
    let mut text = format!("{how} {}", list(names, NAMED_MAX));
    if secret {
        text.push_str(" (a digest of its token)");
    }
    let lease_ms = view.lock().and_then(|lock| lock.lease_ms);
    let period_ms = view.lock().and_then(|lock| lock.renewal_period_ms);
    match (lease_ms, period_ms, hold.persistent) {
        (_, _, Some(true)) => text.push_str(", without any TTL"),
        (Some(lease_ms), Some(period_ms), _) if view.totals.renewals > 0 => {
            text.push_str(&format!(
                ", lease {} learned, renewed every {}",
                duration_text(lease_ms),
                duration_text(period_ms)
            ));
        }
        (Some(lease_ms), None, _) if view.totals.renewals > 0 => {
            text.push_str(&format!(", lease {} learned, renewed", duration_text(lease_ms)));
        }
        _ if view.totals.renewals > 0 => text.push_str(", renewed"),
        _ => text.push_str(&format!(", not renewed within {}", duration_text(watch_ms))),
    }
    text
}

fn how_it_ended(view: &TaskView) -> &'static str {
    let count = |end| {
        End::ALL
            .iter()
            .zip(view.totals.ends)
            .find(|(one, _)| **one == end)
            .map_or(0, |(_, count)| count)
    };
    match (count(End::Expired), count(End::EndedEarly)) {
        (0, 0) => "when it was watched",
        (0, _) => "by now: it was released",
        _ => "by now: it ran out",
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
