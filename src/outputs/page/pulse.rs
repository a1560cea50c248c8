//! The part of a row that renewals and progress change.

use lockwatch_judge::snapshot::{HoldView, NodeView, TaskView};
use lockwatch_judge::time::{AgentWall, ServerTime};

use crate::published::Published;

/// Differences of an instant below this many milliseconds come from the precision of readings and
/// clocks.
const JITTER_MS: u64 = 300;

/// The part of a row that renewals and progress change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::outputs) struct Pulse {
    /// When the lease ends.
    pub(in crate::outputs) deadline: Option<AgentWall>,
    /// Full lifetime of a hold in milliseconds. If it is not known yet, the lifetime observed for
    /// this hold.
    pub(in crate::outputs) lease_ms: Option<u64>,
    /// When the progress was last seen to move.
    pub(in crate::outputs) progress: Option<AgentWall>,
}

impl Pulse {
    pub(in crate::outputs) fn of(published: &Published, view: &TaskView) -> Pulse {
        let hold = present(view);
        let ttl_ms = hold.and_then(|hold| hold.ttl_ms);
        let known_ms = hold.zip(ttl_ms).map(|(hold, ttl_ms)| hold.held_ms.saturating_add(ttl_ms));
        let until = |ttl_ms| later(published.wall_at(view.last_reading?), ttl_ms);
        Pulse {
            deadline: ttl_ms.and_then(until),
            lease_ms: ttl_ms.and(view.lock().and_then(|lock| lock.lease_ms).or(known_ms)),
            progress: view.progress_moved().map(|moved| on_agents_clock(published, view, moved)),
        }
    }

    /// Whether it differs from the sent `other` by more than the jitter of readings and clocks.
    pub(in crate::outputs) fn differs(&self, other: &Pulse) -> bool {
        let instant = |wall: AgentWall| wall.0.unsigned_abs();
        moved(self.deadline.map(instant), other.deadline.map(instant))
            || moved(self.lease_ms, other.lease_ms)
            || moved(self.progress.map(instant), other.progress.map(instant))
    }
}

fn moved(now: Option<u64>, before: Option<u64>) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => now.abs_diff(before) >= JITTER_MS,
        (now, before) => now != before,
    }
}

fn later(instant: AgentWall, ms: u64) -> Option<AgentWall> {
    Some(AgentWall(instant.0.checked_add(i64::try_from(ms).ok()?)?))
}

/// Converts an instant of the server's clock to the agent's, with the offset if it is known.
pub(super) fn on_agents_clock(
    published: &Published,
    view: &TaskView,
    instant: ServerTime,
) -> AgentWall {
    let store = published.store(view.spec.store);
    let is_its = |node: &&NodeView| view.node.as_ref() == Some(&node.address);
    let offset_ms = store
        .and_then(|store| store.nodes.iter().find(is_its)?.clock_offset_ms)
        .unwrap_or_default();
    AgentWall(instant.ms().saturating_sub(offset_ms))
}

/// The hold, if the lock is held according to the newest reading.
pub(super) fn present(view: &TaskView) -> Option<&HoldView> {
    view.hold().filter(|_| view.held == Some(true))
}
