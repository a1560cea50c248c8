//! Runs the drills: passes requests, time and configurations to what decides, publishes the drill,
//! and reports who began it and why it ended.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::event::{DrillEnd, Event, EventKind, Subject as About};
use lockwatch_judge::spec::TaskSpec;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Config;
use crate::drill::{Drill, Drills, News, Refusal, Subject};
use crate::outputs::events::EventLog;
use crate::outputs::history::History;
use crate::published::{DrillRequest, DrillRequestKind, Snapshots};
use crate::text::nearest::no_such_task;

/// How long the engine may take to publish it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What drills need.
pub(super) struct Parts {
    pub(super) config: watch::Receiver<Arc<Config>>,
    pub(super) clock: Clock,
    pub(super) history: History,
    pub(super) snapshots: Snapshots,
    /// The drill that the engine publishes.
    pub(super) shown: watch::Sender<Option<Arc<Drill>>>,
}

/// Runs drills until `stop`.
pub(super) async fn serve(
    mut parts: Parts,
    mut requests: mpsc::Receiver<DrillRequest>,
    stop: CancellationToken,
) {
    let mut drills = Drills::new(Arc::clone(parts.history.boot()));
    loop {
        let due = drills.due().map(|due| parts.clock.instant(due));
        let mut asked = None;
        tokio::select! {
            () = stop.cancelled() => {
                drills.end(parts.clock.now(), DrillEnd::AgentStopped);
                return parts.report(&mut drills);
            }
            Some(request) = requests.recv() => {
                asked = Some((parts.change(&mut drills, request.kind), request.answer));
            }
            Ok(()) = parts.config.changed() => {
                let config = Arc::clone(&parts.config.borrow_and_update());
                let allows = |drill: &Arc<Drill>| {
                    config.drill && task(&config, &drill.of.task.name).is_some()
                };
                if !drills.running().is_none_or(allows) {
                    drills.end(parts.clock.now(), DrillEnd::Reloaded);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                drills.settle(parts.clock.now());
            }
        }
        parts.report(&mut drills);
        if let Some((answer, asker)) = asked {
            let is_shown = parts.is_shown(drills.running()).await;
            let is_unseen = !is_shown && drills.running().is_some();
            if is_unseen {
                drills.end(parts.clock.now(), DrillEnd::Unpublished);
                parts.report(&mut drills);
            }
            let refusal = is_unseen.then_some(Refusal::Unpublished);
            let _nobody_waits = asker.send(refusal.map_or(answer, Err));
        }
    }
}

impl Parts {
    fn change(&self, drills: &mut Drills, kind: DrillRequestKind) -> Result<Arc<Drill>, Refusal> {
        let (now, wall) = self.clock.both();
        match kind {
            DrillRequestKind::Start { task: name, severity, seconds, after, by } => {
                let config = Arc::clone(&self.config.borrow());
                if !config.drill {
                    return Err(Refusal::NotAllowed);
                }
                let names = config.tasks.iter().map(|task| &*task.name);
                let names = names.chain(config.patterns.iter().map(|pattern| &**pattern.name()));
                let task = task(&config, &name)
                    .ok_or_else(|| Refusal::NoTask(no_such_task(&name, names)))?;
                let store = config.store_label(&task);
                let [severity, by] = [severity, by].map(|text| text.map(Arc::from));
                let of = Subject { task, store, severity, by };
                drills.start((now, wall), of, seconds, after.as_deref())
            }
            DrillRequestKind::Renew(id) => drills.renew(now, &id),
            DrillRequestKind::Stop { id, notified } => drills.stop(now, &id, notified),
        }
    }

    /// Publishes what runs, and says what happened in the log and the history.
    fn report(&self, drills: &mut Drills) {
        self.shown.send_if_modified(|shown| {
            let is_new = shown.as_ref() != drills.running();
            *shown = drills.running().cloned();
            is_new
        });
        for news in drills.news() {
            let (at, of, kind) = match news {
                News::Began(drill) => {
                    let by = drill.of.by.as_ref().map(|by| by.as_bytes().to_vec());
                    (drill.began, drill, EventKind::DrillBegan { by })
                }
                News::Ended(drill, why) => {
                    let lasted_ms = drill.ends.since_ms(drill.began);
                    (drill.ends, drill, EventKind::DrillEnded { why, lasted_ms })
                }
            };
            let subject = About::Task(Arc::clone(&of.of.task));
            let event = Event { at, server_time: None, subject, node: None, kind };
            let (now, wall) = self.clock.both();
            EventLog::default().write(now, &event);
            self.history.keep(now, wall, &event);
        }
    }

    /// Waits until the snapshots have this drill.
    async fn is_shown(&self, running: Option<&Arc<Drill>>) -> bool {
        let mut snapshots = self.snapshots.clone();
        let shown = async {
            while snapshots.see().drill.as_ref() != running {
                if snapshots.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(PATIENCE, shown).await.unwrap_or(false)
    }
}

/// The task of this name, or what all tasks of the pattern of this name have in common.
fn task(config: &Config, name: &str) -> Option<Arc<TaskSpec>> {
    let task = config.tasks.iter().find(|task| &*task.name == name).cloned();
    let pattern = || config.patterns.iter().find(|pattern| &**pattern.name() == name);
    task.or_else(|| {
        let pattern = pattern()?;
        Some(Arc::new(pattern.task(Arc::clone(pattern.name()), pattern.glob())))
    })
}
