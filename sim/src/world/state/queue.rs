//! The workers of a queue, and what really happened to its members.

use std::collections::BTreeMap;

use crate::plan::{QueueAct, QueuePlan};
use crate::server::Clock;
use crate::truth::{LockState, Past};

/// The workers of a queue, and what really happened to its members.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) plan: QueuePlan,
    pub(in crate::world) workers: Vec<Executor>,
    /// What shall happen to the next execution.
    pub(in crate::world) next: Option<(QueueAct, u64)>,
    /// A member that no worker takes, until then.
    pub(in crate::world) passed_over: Option<(Vec<u8>, u64)>,
    pub(in crate::world) added: u64,
    pub(in crate::world) tokens: u64,
    /// What each server has of each member.
    pub(crate) members: Vec<BTreeMap<Vec<u8>, MemberPast>>,
    /// When each server's set last changed, and when a member that had been due left it.
    pub(crate) changed_at: Vec<u64>,
    pub(crate) left: Vec<Vec<Leave>>,
    /// Executions under way: the member, the token, since when, and the end.
    pub(crate) executions: Vec<Execution>,
    /// How often another token took the lock of a member, on any server.
    pub(crate) again: u64,
}

/// A member that left, or got another score.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    pub(crate) at: u64,
}

/// The work of one worker on one member.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) id: Vec<u8>,
    pub(crate) token: Vec<u8>,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    /// The newest change of its claim.
    pub(crate) claimed: u64,
}

/// A member on one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberPast {
    /// Its instant, if it is there, and since when that is so.
    pub(crate) due: Option<i64>,
    pub(crate) since: u64,
    /// When it was last there, and its instant then.
    pub(crate) gone: Option<(u64, i64)>,
    pub(crate) lock: Past,
    /// The last token that held its lock since it has this score.
    pub(in crate::world) holder: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::world) struct Executor {
    /// It does nothing until then.
    pub(in crate::world) stopped_until: u64,
    /// Number of its lives and executions so far: a timer of another one does nothing.
    pub(in crate::world) number: u64,
}

impl Queues {
    pub(crate) fn new(plan: &QueuePlan, servers: usize) -> Queues {
        Queues {
            plan: plan.clone(),
            workers: vec![Executor::default(); plan.workers],
            next: None,
            passed_over: None,
            added: 0,
            tokens: 0,
            members: vec![BTreeMap::new(); servers],
            changed_at: vec![0; servers],
            left: vec![Vec::new(); servers],
            executions: Vec::new(),
            again: 0,
        }
    }
}

impl MemberPast {
    /// Since when it has been due. If the clock has stepped since it came, at `stepped_at`, it may
    /// have been due all the time.
    pub(crate) fn due_since(&self, clock: &Clock, stepped_at: u64, now: u64) -> Option<u64> {
        let due = self.due.filter(|due| *due <= clock.at(now))?;
        let due_at = if stepped_at > self.since { 0 } else { clock.when(due) };
        Some(due_at.max(self.since))
    }

    /// Since when it has waited: due, and its lock free.
    pub(crate) fn free_since(&self, clock: &Clock, stepped_at: u64, now: u64) -> Option<u64> {
        let mut since = self.due_since(clock, stepped_at, now)?;
        let mut past = self.lock.clone();
        past.settle(clock, now);
        if let Some(newest) = past.newest() {
            if newest.state != LockState::Free {
                return None;
            }
            since = since.max(newest.at);
        }
        Some(since)
    }
}
