//! What a plan has: the simulated world, its tasks, and the steps.

use std::sync::Arc;

use lockwatch_guard::Terms;
use lockwatch_judge::spec::{Unit, WatchSpec};
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::schedule::Sizes;

use super::act::Step;

/// A run before its start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Determines everything else.
    pub seed: u64,
    /// Length of the run in milliseconds.
    pub length_ms: u64,
    /// The configuration of the agents.
    pub spec: Arc<WatchSpec>,
    /// The tasks, beyond their specs.
    pub(crate) tasks: Vec<TaskPlan>,
    /// Number of agents.
    pub(crate) agents: usize,
    pub(crate) servers: usize,
    /// Number of initial masters; in a cluster each other server follows one of these.
    pub(crate) masters: usize,
    pub(crate) sentinels: usize,
    pub(crate) has_pexpiretime: bool,
    pub(crate) append_only: bool,
    /// Servers report changed keys.
    pub(crate) wakes: bool,
    /// In some worlds the few locks are read as if there were many: whole only in some sweeps, and
    /// with glances between them if servers report changes; and each lock has its own slot.
    pub(crate) sizes: Sizes,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One task's workers and users.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlan {
    pub(crate) workers: usize,
    pub(crate) users: usize,
    pub(crate) lease_ms: u64,
    /// The lock is taken and released continuously.
    pub(crate) churns: bool,
    /// Holds are never renewed; each has a fixed lease.
    pub(crate) fixed: bool,
    /// Its switches, progress and claims are in another slot of the cluster than its lock.
    pub(crate) apart: bool,
    /// Its progress is a heartbeat that ends so long after it was written.
    pub(crate) beats_ms: Option<u64>,
    /// Guards run it.
    pub(crate) guards: Option<GuardPlan>,
    /// Those that take turns.
    pub(crate) turns: Option<TurnPlan>,
    /// The workers of a queue.
    pub(crate) queue: Option<QueuePlan>,
    /// What starts the runs of a periodic task.
    pub(crate) runs: Option<RunsPlan>,
}

/// The guards of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardPlan {
    pub(crate) guards: usize,
    pub(crate) terms: Terms,
}

/// Those that take turns.
#[derive(Clone, Debug)]
pub(crate) struct TurnPlan {
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) unit: Unit,
    pub(crate) passing: Passing,
    /// The shortest and the longest work of one turn, in milliseconds.
    pub(crate) work_ms: (u64, u64),
    /// How long the next one waits for its turn, in milliseconds.
    pub(crate) pause_ms: u64,
}

/// How a turn is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// In one transaction.
    AtOnce,
    /// `HDEL`, then `HSET`.
    DelFirst,
    /// `HSET`, then `HDEL`.
    SetFirst,
}

/// The workers of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuePlan {
    pub(crate) workers: usize,
    pub(crate) unit: Unit,
    pub(crate) max_late_ms: u64,
    /// Mean time between two new members, in milliseconds.
    pub(crate) each_ms: u64,
    /// The shortest and the longest execution, in milliseconds.
    pub(crate) work_ms: (u64, u64),
    /// How long the lock of a member lives, in milliseconds.
    pub(crate) lock_ms: u64,
    /// A worker renews that lock.
    pub(crate) renews: bool,
    /// A worker looks whose lock it is before it deletes it.
    pub(crate) looks_whose: bool,
}

/// What starts the runs of a periodic task.
#[derive(Clone, Debug)]
pub(crate) struct RunsPlan {
    pub(crate) every_ms: u64,
    /// How much later than that a run may begin, in milliseconds.
    pub(crate) jitter_ms: u64,
    /// The shortest and the longest work of one run, in milliseconds.
    pub(crate) work_ms: (u64, u64),
    /// For how long the lock is kept at least, in milliseconds.
    pub(crate) least_ms: u64,
}

impl Plan {
    /// The kind of its redis.
    pub fn kind(&self) -> RedisKind {
        self.spec.stores.first().and_then(RedisKind::of).unwrap_or(RedisKind::Standalone)
    }

    /// Whether its servers report changed keys.
    pub fn has_wake_ups(&self) -> bool {
        self.wakes
    }

    /// Whether guards run some of its tasks.
    pub fn has_guards(&self) -> bool {
        self.tasks.iter().any(|task| task.guards.is_some())
    }

    /// The same plan, ended after `ms`.
    #[must_use]
    pub fn until(&self, ms: u64) -> Plan {
        Plan { length_ms: ms, ..self.clone() }
    }

    /// The same plan with only the steps at these positions.
    #[must_use]
    pub fn keeping(&self, positions: &[usize]) -> Plan {
        let steps =
            positions.iter().filter_map(|position| self.steps.get(*position).copied()).collect();
        Plan { steps, ..self.clone() }
    }
}
