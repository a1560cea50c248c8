//! What a watcher is to watch.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::reading::{Parts, Unknown};
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec, position_of};

use super::read::Scope;
use super::schedule::Sizes;
use super::store::Store;

/// Some tasks of one store, sorted by index.
pub type Tasks = Arc<Vec<(TaskIndex, Arc<TaskSpec>)>>;

/// The work of one watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch of the configuration that this belongs to.
    pub epoch: u32,
    /// Which store this is.
    pub index: StoreIndex,
    /// What is known of it.
    pub store: Store,
    /// The tasks with keys in it, sorted by index.
    pub tasks: Tasks,
    /// The sizes of batches.
    pub sizes: Sizes,
}

/// The address of a server, or why there is none.
pub(super) type Server = Result<Arc<str>, Unknown>;

/// The spec of a task.
pub(super) fn spec(tasks: &[(TaskIndex, Arc<TaskSpec>)], task: TaskIndex) -> Option<Arc<TaskSpec>> {
    let position = position_of(task, tasks, |(index, _)| *index)?;
    tasks.get(position).map(|(_, spec)| Arc::clone(spec))
}

/// The readings to report when the keys beside some locks cannot be read.
pub(super) fn unreadable(
    parts: &[(TaskIndex, Scope)],
    spec: impl Fn(TaskIndex) -> Option<Arc<TaskSpec>>,
    why: Unknown,
) -> Vec<(TaskIndex, Parts)> {
    parts
        .iter()
        .filter_map(|(task, scope)| Some((*task, scope.unreadable(&*spec(*task)?, why))))
        .collect()
}
