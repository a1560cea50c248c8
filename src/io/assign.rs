//! What one watcher watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::RedisConfig;
use crate::trace::Traces;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec, position_of};

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
