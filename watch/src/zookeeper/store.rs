//! What a watcher needs to know of an ensemble and its tasks. It holds no secret.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec};

use crate::redis::store::HostPort;

/// A named ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers, in the order of the configuration.
    pub servers: Vec<HostPort>,
    /// Pause between two readings of a task, in milliseconds.
    pub interval_ms: u64,
    /// A reply older than this is discarded as evidence, in milliseconds.
    pub timeout_ms: u64,
}

/// The work of one watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch of the configuration that this belongs to.
    pub epoch: u32,
    /// Which store this is.
    pub index: StoreIndex,
    /// What is known of it.
    pub store: Store,
    /// The tasks with nodes in it, sorted by index.
    pub tasks: Arc<Vec<(TaskIndex, Arc<TaskSpec>)>>,
}
