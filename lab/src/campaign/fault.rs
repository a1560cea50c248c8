//! Faults and their log: what was intended, that it took effect, and when it was over.

use serde::{Deserialize, Serialize};

use super::clock::Micros;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    // Of the deciding server.
    Freeze,
    KillEmpty,
    KillKept,
    TermEmpty,
    TermKept,
    Loading,
    Busy,
    Sleep,
    PauseAll,
    PauseWrite,
    MaxClients,
    Oom,
    Eviction,
    Flush,
    NoAuth,
    NoPerm,
    // Failovers.
    Failover,
    KillMaster,
    FreezeMaster,
    // Of the network of its machine.
    PartitionMaster,
    PartitionMasterIn,
    PartitionMasterOut,
    PartitionMasterPeers,
    PartitionReplica,
    // Of the other servers of a set with Sentinels.
    FreezeReplica,
    KillReplica,
    KillSentinel,
    KillSentinels,
    FreezeSentinel,
    // Between one agent and one Redis.
    Cut,
    Reset,
    Hang,
    LoseRequests,
    LoseAnswers,
    LoseEverySecond,
    DelayShort,
    DelayLong,
    Jitter,
    Dribble,
    Half,
    ClockStep,
    // Of an agent.
    AgentKill,
    AgentFreeze,
    // Of a worker process.
    HostKill,
    HostFreeze,
}

impl Kind {
    /// The name in logs and tables.
    pub(super) fn name(self) -> String {
        serde_json::to_string(&self).unwrap_or_default().trim_matches('"').to_owned()
    }
}

/// A line of the log of faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) at_us: Micros,
    /// The id of the fault.
    pub(super) id: u64,
    #[serde(flatten)]
    pub(super) word: Word,
}

/// What a line reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub(super) enum Word {
    /// The fault is about to be injected.
    Meant {
        kind: Kind,
        /// The Redis concerned, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        redis: Option<usize>,
        /// The agent concerned, if it is only one.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<usize>,
        /// The server, Sentinel or worker process concerned.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        lasts_ms: u64,
    },
    /// Its effect was observed, and how.
    Verified { how: String },
    /// It was injected, but no effect was observed.
    Unverified { why: String },
    /// It was undone, and everything concerned is healthy again.
    Healed,
}
