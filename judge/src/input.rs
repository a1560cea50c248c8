//! The inputs of the state. They arrive one at a time, each with the agent's monotonic time.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::reading::{Parts, TaskReading, Unknown};
use crate::spec::{StoreIndex, TaskIndex, WatchSpec};
use crate::time::{Mono, ServerTime};

/// One input of [`crate::state::State::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Input {
    /// A new configuration. Tasks whose (store, db, key) is unchanged keep their state.
    Config(Arc<WatchSpec>),
    /// The outcome of one batch.
    Sample(Sample),
    /// A report about a connection.
    Node(NodeNews),
    /// The known servers, and which of them decide.
    Topology(Topology),
    /// Time has passed.
    Tick,
}

/// The outcome of one batch: some tasks of one store, read at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Sample {
    /// [`WatchSpec::epoch`] of the configuration in use when it was sent. Samples with another
    /// epoch are dropped.
    pub epoch: u32,
    /// The store that was read.
    pub store: StoreIndex,
    /// The server, `host:port`. `None`: no server was read, because the deciding one is unknown.
    pub node: Option<Arc<str>>,
    /// The role of the server's answers in the decision.
    pub standing: Standing,
    /// When the request was sent. The reading is evidence for this instant.
    pub sent: Mono,
    /// Time until the last reply, in milliseconds.
    pub took_ms: u64,
    /// The readings, or why there are none.
    pub outcome: Outcome,
}

named! {
    /// The role that a server's answers have in the decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Standing {
        /// It decides whether a lock is held or free.
        Decides = "decides",
        /// It is a replica, or a master other than the deciding one. Its answers are evidence of
        /// replication lag and of rival holders.
        Witness = "witness",
    }
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Outcome {
    /// The answers may be believed.
    Read {
        /// What the server reported about itself.
        attestation: Attestation,
        /// The answers.
        readings: Vec<(TaskIndex, TaskReading)>,
    },
    /// The keys beside a lock that are on another server of the cluster. They are requested after
    /// the lock's reply was accepted.
    Parts {
        /// What the server reported about itself; `None` when there were no answers, so that every
        /// reading is unknown.
        attestation: Option<Attestation>,
        /// The answers.
        readings: Vec<(TaskIndex, Parts)>,
    },
    /// The batch was refused or not answered.
    Failed {
        /// The tasks in the batch.
        tasks: Vec<TaskIndex>,
        /// Why.
        why: Unknown,
    },
}

/// What a server reports about itself in a batch, after the answers that it attests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Attestation {
    /// The server's clock before the first answer.
    pub first: ServerTime,
    /// The server's clock after the last answer.
    pub last: ServerTime,
    /// The role that it reported after the answers.
    pub role: Role,
    /// Whether the server itself reported the role (otherwise the user attests it).
    pub role_verified: bool,
    /// The replication offset after the answers: bytes of the history that its generation names.
    pub offset: Option<u64>,
    /// Why it refuses writes, if it is known to.
    pub refuses_writes: Option<Refusal>,
    /// Its replicas, `host:port` as the server knows them.
    pub replicas: Vec<Arc<str>>,
    /// The data that change when the node may have lost data; `None` when the server refuses to
    /// report them.
    pub generation: Option<Generation>,
    /// The server's clock minus the agent's, halfway through the batch.
    pub clock_offset_ms: i64,
}

impl Attestation {
    /// A master that reports only its clock.
    pub fn master(first: ServerTime, last: ServerTime) -> Attestation {
        Attestation {
            first,
            last,
            role: Role::Master,
            role_verified: true,
            offset: None,
            refuses_writes: None,
            replicas: Vec::new(),
            generation: None,
            clock_offset_ms: 0,
        }
    }
}

named! {
    /// Why a server refuses writes: the code of its error.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Refusal {
        /// It is full, and may evict nothing.
        Oom = "OOM",
        /// Too few replicas follow it.
        NoReplicas = "NOREPLICAS",
        /// Its newest snapshot failed, or its append-only file cannot be written.
        Misconf = "MISCONF",
    }
}

named! {
    /// The role that a server reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Role {
        /// It accepts writes.
        Master = "master",
        /// It follows another server.
        Replica = "replica",
        /// It belongs to an ensemble, whose servers are copies of each other.
        Member = "member",
    }
}

/// The values that change when a node may have lost data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Generation {
    /// The id of the server process.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub process: Vec<u8>,
    /// The id of the replication history.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub history: Vec<u8>,
    /// The history that this one continues, and its first byte that is not shared.
    pub forked_from: Option<Fork>,
    /// Flushes of databases since the process started or its statistics were reset.
    pub flushes: u64,
    /// The same of single slots of a cluster.
    pub slot_flushes: u64,
    /// Evictions since the process started or its statistics were reset.
    pub evictions: u64,
    /// Whether it evicts only keys that have a TTL.
    pub evicts_only_with_ttl: bool,
    /// Whether the process loaded no data when it started, and stores none. `Some(true)` proves
    /// that a restart lost everything.
    pub started_empty: Option<bool>,
}

/// The point at which one replication history left another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Fork {
    /// [`Generation::history`] of the other one.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub history: Vec<u8>,
    /// The first byte that is not shared.
    pub offset: u64,
}

/// The servers of a store, and which of them decide. Sent whenever that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Topology {
    /// [`WatchSpec::epoch`] of the configuration in use.
    pub epoch: u32,
    /// The store concerned.
    pub store: StoreIndex,
    /// The deciding servers (in a cluster one for each range of slots), or why they are unknown.
    pub masters: Result<Vec<Arc<str>>, Unknown>,
    /// All servers of the store, deciding or not. The state of any other server is dropped.
    pub nodes: Vec<Arc<str>>,
    /// The last report of each configured Sentinel.
    pub announcers: Vec<Announcer>,
    /// Slots of a cluster that no master serves.
    pub uncovered: u32,
}

/// Number of announcers that name one and the same master, the one with the most votes.
pub fn agreeing(announcers: &[Announcer]) -> usize {
    let named = || announcers.iter().filter_map(|one| one.master.as_ref()?.as_ref().ok());
    named().map(|master| named().filter(|other| *other == master).count()).max().unwrap_or(0)
}

/// The last report of one Sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Announcer {
    /// The Sentinel, `host:port`.
    pub address: Arc<str>,
    /// The master that it names; `None` before its first answer or failure.
    pub master: Option<Result<Arc<str>, Unknown>>,
}

/// A report about a connection to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct NodeNews {
    /// [`WatchSpec::epoch`] of the configuration in use.
    pub epoch: u32,
    /// The store concerned.
    pub store: StoreIndex,
    /// The server, `host:port`.
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
        /// The server's version, if it reports one.
        version: Option<Arc<str>>,
        /// The role, if it reports one.
        role: Option<Role>,
    },
    /// A connection could not be made, or broke outside a batch.
    Failed {
        /// Why.
        why: Unknown,
    },
    /// The words that came with a failure. They differ from the last ones for the same reason.
    Said {
        /// The reason.
        why: Unknown,
        /// The words: bounded, printable, without secrets.
        words: Arc<str>,
    },
    /// The server answered, but not what was asked about these tasks. The words differ from the
    /// last ones for the same task and reason.
    SaidOf(Vec<SaidOf>),
    /// A tick found the previous sweep still in progress.
    TickSkipped,
    /// The state of change notifications; `None`: they are no longer requested.
    WakeUps(Option<WakeUps>),
}

/// The words for what was refused, or found instead of what was asked for, about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct SaidOf {
    /// The task.
    pub task: TaskIndex,
    /// The reason that they led to.
    pub why: Unknown,
    /// The words: bounded, printable, without secrets.
    pub words: Arc<str>,
}

/// The state of a server's change notifications, and the counts since the last report. No verdict
/// depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct WakeUps {
    /// The present state.
    pub state: WakeUpState,
    /// How often a subscription was started.
    pub connects: u64,
    /// Hints that caused a read.
    pub read: u64,
    /// Hints about tasks that were already due.
    pub coalesced: u64,
    /// Changes of keys that belong to no task.
    pub foreign: u64,
}

impl WakeUps {
    /// How often a subscription was started again.
    pub fn reconnects(&self) -> u64 {
        self.connects.saturating_sub(1)
    }
}

named! {
    /// The state of a server's change notifications.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum WakeUpState {
        /// It was not tried yet.
        #[default]
        Connecting = "connecting",
        /// The server sends notifications.
        On = "on",
        /// The server refuses, or does not support it.
        Refused = "refused",
        /// The server does not answer.
        Lost = "lost",
        /// The server sent more changes than allowed, so the subscription is suspended for a
        /// limited time.
        Flooded = "flooded",
    }
}
