//! What may reach the state: one input at a time, each with the agent's instant beside it.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::reading::{Beside, TaskReading, Unknown};
use crate::spec::{RedisIndex, TaskIndex, WatchSpec};
use crate::time::{Mono, ServerTime};

/// One input of [`crate::state::State::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Input {
    /// A new configuration. Tasks whose (redis, db, key) is unchanged keep their state.
    Config(Arc<WatchSpec>),
    /// The outcome of one batch.
    Sample(Sample),
    /// News of a connection.
    Node(NodeNews),
    /// Which servers there are, and which of them decide.
    Topology(Topology),
    /// Time has passed.
    Tick,
}

/// The outcome of one batch: some tasks of one redis, asked at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Sample {
    /// [`WatchSpec::epoch`] of the configuration that it was made from; others are dropped.
    pub epoch: u32,
    /// Which redis was asked.
    pub redis: RedisIndex,
    /// Which server of it, `host:port`; `None`: none was asked, because it is not known which one
    /// decides.
    pub node: Option<Arc<str>>,
    /// What its answers are good for.
    pub standing: Standing,
    /// When the request was sent: what is read is evidence for this instant.
    pub sent: Mono,
    /// How long the answer took.
    pub took_ms: u64,
    /// What came of it.
    pub outcome: Outcome,
}

named! {
    /// What a server's answers are good for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Standing {
        /// It decides whether a lock is held or free.
        Decides = "decides",
        /// It is a replica, or a master that is not the one: its answers are evidence of replication
        /// lag and of rival holders.
        Witness = "witness",
    }
}

/// What came of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Outcome {
    /// The answers may be believed.
    Read {
        /// What the server said beside the answers.
        attestation: Attestation,
        /// The answers.
        readings: Vec<(TaskIndex, TaskReading)>,
    },
    /// What is read beside a lock, where that lives on another server of the cluster. Asked after
    /// the lock's reply was accepted.
    Beside {
        /// What the server said beside the answers; `None` when there were none, so that every
        /// reading is unknown.
        attestation: Option<Attestation>,
        /// The answers.
        readings: Vec<(TaskIndex, Beside)>,
    },
    /// They may not, or there are none.
    Failed {
        /// The tasks that were asked for.
        tasks: Vec<TaskIndex>,
        /// Why.
        why: Unknown,
    },
}

/// What a server says of itself in a batch, after the answers that it attests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Attestation {
    /// The server's clock before the first answer.
    pub first: ServerTime,
    /// The server's clock after the last answer.
    pub last: ServerTime,
    /// The role it said it has, after the answers.
    pub role: Role,
    /// Whether the server itself said so (otherwise the user attests it).
    pub role_verified: bool,
    /// Where its replication stood after the answers: bytes of the history that its generation
    /// names.
    pub offset: Option<u64>,
    /// It refuses writes because too few replicas follow it.
    pub refuses_writes: bool,
    /// Replicas that follow it, `host:port` as it knows them.
    pub replicas: Vec<Arc<str>>,
    /// What changes when the node may have lost data; `None` when it refuses to tell.
    pub generation: Option<Generation>,
    /// The server's clock minus the agent's, halfway through the batch.
    pub clock_offset_ms: i64,
}

impl Attestation {
    /// A master that tells nothing but its clock.
    pub fn master(first: ServerTime, last: ServerTime) -> Attestation {
        Attestation {
            first,
            last,
            role: Role::Master,
            role_verified: true,
            offset: None,
            refuses_writes: false,
            replicas: Vec::new(),
            generation: None,
            clock_offset_ms: 0,
        }
    }
}

named! {
    /// What a server says it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Role {
        /// It takes writes.
        Master = "master",
        /// It follows another server.
        Replica = "replica",
    }
}

/// What changes when a node may have lost data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Generation {
    /// The server process.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub run_id: Vec<u8>,
    /// The replication history.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub replication_id: Vec<u8>,
    /// The history that this one continues, and the first byte of it that this one does not share.
    pub forked_from: Option<Fork>,
    /// Flushes since the process started (or since its statistics were reset).
    pub flushes: u64,
    /// Evictions since the process started (or since its statistics were reset).
    pub evictions: u64,
    /// The process has loaded nothing when it started, and keeps nothing: `Some(true)` proves that
    /// a restart lost all.
    pub started_empty: Option<bool>,
}

/// Where one replication history left another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Fork {
    /// [`Generation::replication_id`] of the other one.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub replication_id: Vec<u8>,
    /// The first byte that is not shared.
    pub offset: u64,
}

/// Which servers a redis has, and which of them decide. Sent whenever that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Topology {
    /// [`WatchSpec::epoch`].
    pub epoch: u32,
    /// Which redis.
    pub redis: RedisIndex,
    /// Who decides: one server, in a cluster one for each range of slots. Or why that is not known.
    pub masters: Result<Vec<Arc<str>>, Unknown>,
    /// Every server that belongs to it, whether it decides or not; what was known of any other is
    /// forgotten.
    pub nodes: Vec<Arc<str>>,
    /// What each configured Sentinel said last.
    pub sentinels: Vec<SentinelWord>,
    /// Slots of a cluster that no master serves.
    pub uncovered_slots: u32,
}

/// What one Sentinel said last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct SentinelWord {
    /// The Sentinel, `host:port`.
    pub address: Arc<str>,
    /// The master that it names; `None` before it was asked.
    pub master: Option<Result<Arc<str>, Unknown>>,
}

/// News of a connection to a redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct NodeNews {
    /// [`WatchSpec::epoch`].
    pub epoch: u32,
    /// Which redis.
    pub redis: RedisIndex,
    /// Which server of it, `host:port`.
    pub node: Arc<str>,
    /// What happened.
    pub kind: NodeNewsKind,
}

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum NodeNewsKind {
    /// A connection was made.
    Connected {
        /// The server's version, where it tells.
        version: Option<Arc<str>>,
        /// The role that it gave, where it tells.
        role: Option<Role>,
    },
    /// A connection could not be made, or broke outside a batch.
    Failed {
        /// Why.
        why: Unknown,
    },
    /// A tick found the previous sweep still under way.
    TickSkipped,
    /// How its telling of changes stands; `None`: it is not asked to tell any more.
    WakeUps(Option<WakeUps>),
}

/// How a server's telling of changes stands, and what came of it since that was told last. Nothing
/// is judged by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct WakeUps {
    /// How it stands.
    pub state: WakeUpState,
    /// How often it was begun to listen.
    pub connects: u64,
    /// Hints because of which a task is read.
    pub read: u64,
    /// Hints about tasks that were to be read already.
    pub coalesced: u64,
    /// Changes of keys that are no task's.
    pub foreign: u64,
}

impl WakeUps {
    /// How often it was begun anew to listen.
    pub fn reconnects(&self) -> u64 {
        self.connects.saturating_sub(1)
    }
}

named! {
    /// How a server's telling of changes stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum WakeUpState {
        /// It was not tried yet.
        #[default]
        Connecting = "connecting",
        /// It tells.
        On = "on",
        /// It refuses, or cannot.
        Refused = "refused",
        /// It does not answer.
        Lost = "lost",
        /// It told of so much that it is left alone for a while.
        Flooded = "flooded",
    }
}
