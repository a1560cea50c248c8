//! The watchers: one for each store, whatever its kind.

use std::sync::Arc;

use lockwatch_judge::input::Input as Evidence;
use lockwatch_judge::spec::StoreIndex;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::assign::Assignment;
use super::{drive, zookeeper};
use crate::clock::Clock;
use crate::config::{Config, ZooKeeperConfig};
use crate::trace::Traces;

/// What the watcher of a store of any kind watches.
#[derive(Clone, Debug)]
pub enum StoreAssignment {
    /// A Redis store.
    Redis(Arc<Assignment>),
    /// A ZooKeeper ensemble.
    ZooKeeper(Arc<Assignment<ZooKeeperConfig>>),
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

fn assignment<C>(config: &Config, epoch: u32, (of, index): (C, StoreIndex)) -> Arc<Assignment<C>> {
    Arc::new(Assignment { epoch, index, config: of, tasks: config.tasks_on(index) })
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
                let (to, from) = watch::channel(it);
                (Assignments::Redis(to), tokio::spawn(drive::run(from, inputs, clock, traces)))
            }
            StoreAssignment::ZooKeeper(it) => {
                let (to, from) = watch::channel(it);
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
                to.send_replace(it);
            }
            (Assignments::ZooKeeper(to), StoreAssignment::ZooKeeper(it)) => {
                to.send_replace(it);
            }
            (_, assignment) => return Err(assignment),
        }
        Ok(())
    }
}
