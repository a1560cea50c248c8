//! Reads Redis without an agent: the same watcher and the same state, for a few seconds.

use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::snapshot::{KindView, TaskView};
use lockwatch_judge::verdict::{LockFact, TurnFact, Wanted};
use lockwatch_watch::redis::RedisKind;

use crate::commands::momentary::{self, Momentary};
use crate::commands::source::task_of;
use crate::config::Config;
use crate::outputs::explanation::{Explanation, Seen, Trace, Watched, explanation};
use crate::published::{Published, Unanswered};
use crate::text::nearest::no_such_task;
use crate::trace::Traces;

/// Time for connecting and for a confirmation, in addition to the timeout.
const SLACK: Duration = Duration::from_secs(2);
/// Maximum duration of the whole reading.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Time for servers that do not decide to answer.
const OTHERS: Duration = Duration::from_millis(700);

/// The result of one reading.
pub(super) struct Look {
    pub(super) explanation: Explanation,
    /// Whether the lock could be read.
    pub(super) is_read: bool,
}

/// Reads a task once; a free lock twice, because that must be confirmed.
///
/// # Errors
/// There is no such task, or none is named and there is more than one.
pub(super) async fn look(config: &Config, name: Option<&str>) -> Result<Look, String> {
    let names = || config.tasks.iter().map(|task| &*task.name);
    let task = Arc::clone(task_of(config, name)?);
    let name = &*task.name;
    let (timeout, has_others) = match config.redises.get(usize::from(task.store.0)) {
        Some(redis) => (redis.timeout, redis.servers.kind() != RedisKind::Standalone),
        None => {
            let zookeeper = config.zookeeper(task.store);
            (zookeeper.ok_or_else(|| no_such_task(name, names()))?.timeout, false)
        }
    };
    let patience = (timeout + SLACK).min(LOOK_MAX);

    let traces = Traces::default();
    let ticket = traces.arm(name);
    let only = Config { tasks: vec![Arc::clone(&task)], ..config.clone() };
    let Momentary { snapshots, .. } = &momentary::begin(&only, &traces, |store| task.is_on(store));

    let settled = |published: &Published| view(published).is_some_and(is_settled);
    let is_read = snapshots.task_that(name, patience, settled).await.is_ok();
    if is_read && has_others {
        tokio::time::sleep(OTHERS).await;
    }
    let trace = Trace::until_now(ticket);
    let published =
        snapshots.task(name, SLACK).await.unwrap_or_else(|Unanswered| snapshots.newest());
    let view = view(&published).ok_or_else(|| no_such_task(name, names()))?;
    let seen = Seen { published: &published, view, trace: &trace, watched: Watched::Once };
    Ok(Look { explanation: explanation(seen), is_read })
}

fn view(published: &Published) -> Option<&TaskView> {
    published.snapshot.tasks.first().map(|view| &**view)
}

/// Whether everything is known that a single reading can show.
fn is_settled(view: &TaskView) -> bool {
    let guard = match &view.kind {
        KindView::Lock(lock) => view.held == Some(true) || lock.fact == LockFact::Free,
        KindView::Turn(turn) => turn.fact != TurnFact::Unknown,
        KindView::Queue(queue) => queue.members.is_some(),
    };
    let switches = view.wanted != Wanted::Unknown
        || view.switches_unknown.is_some()
        || view.wanting.switches.is_some();
    guard && view.unknown.is_none() && switches && view.judged.is_some()
}
