//! Faults, and the log of them: what was meant, that it really took effect, and when it was over.

use serde::{Deserialize, Serialize};

use super::clock::Micros;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    // A server that decides.
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
    // A failover.
    Failover,
    KillMaster,
    FreezeMaster,
    // The network of its machine.
    PartitionMaster,
    PartitionMasterIn,
    PartitionMasterOut,
    PartitionMasterPeers,
    PartitionReplica,
    // The others of a set with Sentinels.
    FreezeReplica,
    KillReplica,
    KillSentinel,
    KillSentinels,
    FreezeSentinel,
    // Between one agent and one redis.
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
    // An agent.
    AgentKill,
    AgentFreeze,
    // A worker process.
    HostKill,
    HostFreeze,
}

impl Kind {
    /// As written in logs and tables.
    pub(super) fn name(self) -> String {
        serde_json::to_string(&self).unwrap_or_default().trim_matches('"').to_owned()
    }
}

/// A line of the log of faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) at_us: Micros,
    /// Which fault.
    pub(super) id: u64,
    #[serde(flatten)]
    pub(super) word: Word,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub(super) enum Word {
    /// About to be done.
    Meant {
        kind: Kind,
        /// The redis that it is about, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        redis: Option<usize>,
        /// The only agent that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<usize>,
        /// The server, Sentinel or worker process.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        lasts_ms: u64,
    },
    /// Its effect was seen, and how.
    Verified { how: String },
    /// It was done, but no effect was seen.
    Unverified { why: String },
    /// It was taken back, and everything around it is well again.
    Healed,
}
