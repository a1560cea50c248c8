//! What may reach the state: one input at a time, each with the agent's instant beside it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::reading::{TaskReading, Unknown};
use crate::spec::{RedisIndex, TaskIndex, WatchSpec};
use crate::time::{Mono, ServerTime};

/// One input of [`crate::state::State::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A new configuration. Tasks whose (redis, db, key) is unchanged keep their state.
    Config(Arc<WatchSpec>),
    /// The outcome of one batch.
    Sample(Sample),
    /// News of a connection.
    Node(NodeNews),
    /// Time has passed.
    Tick,
}

/// The outcome of one batch: some tasks of one redis, asked at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// [`WatchSpec::epoch`] of the configuration that it was made from; others are dropped.
    pub epoch: u32,
    /// Which redis was asked.
    pub redis: RedisIndex,
    /// When the request was sent: what is read is evidence for this instant.
    pub sent: Mono,
    /// How long the answer took.
    pub took_ms: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answers may be believed.
    Read {
        /// What the server said beside the answers.
        vouch: Vouch,
        /// The answers.
        readings: Vec<(TaskIndex, TaskReading)>,
    },
    /// They may not, or there are none.
    Failed {
        /// The tasks that were asked for.
        tasks: Vec<TaskIndex>,
        /// Why.
        why: Unknown,
    },
}

/// What a server says of itself in a batch, after the answers that it vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// The server's clock before the first answer.
    pub first: ServerTime,
    /// The server's clock after the last answer.
    pub last: ServerTime,
    /// Whether the server itself said that it is master (otherwise the user vouches for it).
    pub role_verified: bool,
    /// What changes when the node may have lost data; `None` when it refuses to tell.
    pub generation: Option<Generation>,
    /// The server's clock minus the agent's, halfway through the batch.
    pub clock_offset_ms: i64,
}

/// What changes when a node may have lost data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// The server process.
    pub run_id: Vec<u8>,
    /// The replication history.
    pub replication_id: Vec<u8>,
    /// Flushes since the process started (or since its statistics were reset).
    pub flushes: u64,
    /// Evictions since the process started (or since its statistics were reset).
    pub evictions: u64,
    /// The process has loaded nothing when it started, and keeps nothing: `Some(true)` proves that a restart lost all.
    pub started_empty: Option<bool>,
}

/// News of a connection to a redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNews {
    /// [`WatchSpec::epoch`].
    pub epoch: u32,
    /// Which redis.
    pub redis: RedisIndex,
    /// What happened.
    pub kind: NodeNewsKind,
}

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNewsKind {
    /// A connection was made.
    Connected {
        /// The server's version, where it tells.
        version: Option<Arc<str>>,
        /// The role that it gave, where it tells.
        role: Option<&'static str>,
    },
    /// A connection could not be made, or broke outside a batch.
    Failed {
        /// Why.
        why: Unknown,
    },
    /// A tick found the previous sweep still under way.
    TickSkipped,
}
