//! Which watcher watches what: one for each store, whatever its kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwatch_judge::input::Input as Evidence;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec, position_of};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{drive, zookeeper};
use crate::clock::Clock;
use crate::config::{Config, RedisConfig, ZooKeeperConfig};
use crate::trace::Traces;

/// What one watcher watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<C = RedisConfig> {
    /// The epoch of the configuration that this belongs to.
    pub epoch: u32,
    /// Which store this is.
    pub index: StoreIndex,
    /// The configuration of the store.
    pub config: C,
    /// The tasks with keys or nodes in it, sorted by index.
    pub tasks: Vec<(TaskIndex, Arc<TaskSpec>)>,
}

impl<C> Assignment<C> {
    /// The tasks whose exchanges are wanted, if they are others than those of `before`.
    pub(super) fn traced(
        &self,
        traces: &Traces,
        before: &BTreeSet<TaskIndex>,
    ) -> Option<Arc<BTreeSet<TaskIndex>>> {
        let wanted = traces.wanted().unwrap_or_default();
        if wanted.is_empty() && before.is_empty() {
            return None;
        }
        let tasks = self.tasks.iter().filter(|(_, spec)| wanted.contains(&spec.name));
        let tasks: BTreeSet<TaskIndex> = tasks.map(|(task, _)| *task).collect();
        (tasks != *before).then(|| Arc::new(tasks))
    }

    pub(super) fn spec_of(&self, task: TaskIndex) -> Option<&Arc<TaskSpec>> {
        let position = position_of(task, &self.tasks, |(task, _)| *task)?;
        self.tasks.get(position).map(|(_, spec)| spec)
    }
}

/// What the watcher of a store of any kind watches.
#[derive(Clone, Debug)]
pub enum StoreAssignment {
    /// A Redis store.
    Redis(Assignment),
    /// A ZooKeeper ensemble.
    ZooKeeper(Assignment<ZooKeeperConfig>),
}

impl StoreAssignment {
    /// What the watchers of all stores watch.
    pub fn all(config: &Config, epoch: u32) -> Vec<StoreAssignment> {
        let redises = config.redises.iter().cloned().zip(0..).map(|(redis, index)| {
            StoreAssignment::Redis(assignment(config, epoch, (redis, StoreIndex(index))))
        });
        let zookeepers = config.zookeepers.iter().cloned().zip(config.first_zookeeper()..);
        let zookeepers = zookeepers.map(|(zookeeper, index)| {
            StoreAssignment::ZooKeeper(assignment(config, epoch, (zookeeper, StoreIndex(index))))
        });
        redises.chain(zookeepers).collect()
    }

    /// The store's name.
    pub fn name(&self) -> Arc<str> {
        match self {
            StoreAssignment::Redis(it) => Arc::clone(&it.config.name),
            StoreAssignment::ZooKeeper(it) => Arc::clone(&it.config.name),
        }
    }

    /// Which store it is.
    pub fn index(&self) -> StoreIndex {
        match self {
            StoreAssignment::Redis(it) => it.index,
            StoreAssignment::ZooKeeper(it) => it.index,
        }
    }
}

fn assignment<C>(config: &Config, epoch: u32, (of, index): (C, StoreIndex)) -> Assignment<C> {
    Assignment { epoch, index, config: of, tasks: config.tasks_on(index) }
}

/// The watcher of one store. It ends when this is dropped.
#[derive(Debug)]
pub struct Watching {
    assignments: Assignments,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum Assignments {
    Redis(watch::Sender<Arc<Assignment>>),
    ZooKeeper(watch::Sender<Arc<Assignment<ZooKeeperConfig>>>),
}

impl Watching {
    /// Begins to watch. Evidence goes to `inputs`, exchanges about traced tasks to `traces`.
    pub fn begin(
        assignment: StoreAssignment,
        (inputs, clock, traces): (&mpsc::Sender<Evidence>, Clock, &Traces),
    ) -> Watching {
        let (inputs, traces) = (inputs.clone(), traces.clone());
        let (assignments, task) = match assignment {
            StoreAssignment::Redis(it) => {
                let (to, from) = watch::channel(Arc::new(it));
                (Assignments::Redis(to), tokio::spawn(drive::run(from, inputs, clock, traces)))
            }
            StoreAssignment::ZooKeeper(it) => {
                let (to, from) = watch::channel(Arc::new(it));
                let task = tokio::spawn(zookeeper::run(from, inputs, clock, traces));
                (Assignments::ZooKeeper(to), task)
            }
        };
        Watching { assignments, _task: AbortOnDropHandle::new(task) }
    }

    /// Gives it a new assignment.
    ///
    /// # Errors
    /// The store is of another kind now. The assignment comes back.
    pub fn assign(&self, assignment: StoreAssignment) -> Result<(), StoreAssignment> {
        match (&self.assignments, assignment) {
            (Assignments::Redis(to), StoreAssignment::Redis(it)) => {
                to.send_replace(Arc::new(it));
            }
            (Assignments::ZooKeeper(to), StoreAssignment::ZooKeeper(it)) => {
                to.send_replace(Arc::new(it));
            }
            (_, assignment) => return Err(assignment),
        }
        Ok(())
    }
}
