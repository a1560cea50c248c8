//! What happened: each notable change, once. Outputs turn an event into a log line, a counter and a
//! line of history.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::reading::{Holder, Unknown, User};
use crate::spec::{Codec, RedisIndex, TaskSpec};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Rule, Verdict};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the agent's clock: the instant of the evidence.
    pub at: Mono,
    /// The same on the server's clock, where the evidence came from a server.
    pub server_time: Option<ServerTime>,
    /// To whom.
    pub subject: Subject,
    /// The server whose answer shows it, `host:port`.
    pub node: Option<Arc<str>>,
    /// What.
    pub kind: EventKind,
}

/// To whom something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A task.
    Task(Arc<TaskSpec>),
    /// A redis.
    Redis(RedisIndex, Arc<str>),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The verdict changed (`from` is `None` for the first one).
    Verdict {
        /// The verdict before.
        from: Option<Verdict>,
        /// The verdict now.
        to: Verdict,
        /// The rule that gave it.
        rule: Rule,
    },
    /// Somebody got the lock.
    Acquired {
        /// Who.
        holders: Vec<Holder>,
    },
    /// A hold ended.
    HoldEnded {
        /// Who held it.
        holders: Vec<Holder>,
        /// How it ended.
        reason: End,
        /// How long it was held; `None` when its start was not seen.
        held_ms: Option<u64>,
    },
    /// A lock was lost although its holder lived.
    LockLost {
        /// Who held it.
        holders: Vec<Holder>,
        /// What shows it.
        sign: LossSign,
    },
    /// The deadline moved back while the holder stayed.
    Shortened {
        /// By how much.
        by_ms: u64,
    },
    /// A wanted task has no holder.
    GapBegan,
    /// A gap ended because a hold settled: a handover.
    GapEnded {
        /// How long nobody held the lock.
        gap_ms: u64,
    },
    /// A hold was too short to end a gap.
    PhantomHold {
        /// How long it was seen.
        held_ms: u64,
    },
    /// After a hold expired, somebody took over.
    Outage {
        /// From the old holder's last sign of life to the take-over.
        outage_ms: u64,
    },
    /// There are two holders.
    SplitBegan {
        /// By what evidence.
        kind: SplitKind,
        /// The instances concerned.
        parties: Vec<Party>,
        /// What is left of the older lease, where that says how long it may last.
        left_ms: Option<u64>,
    },
    /// There are no longer two holders, as far as that evidence goes.
    SplitEnded {
        /// By what evidence it had begun.
        kind: SplitKind,
        /// How long it lasted.
        lasted_ms: u64,
    },
    /// A new holder came before the old one's deadline together with a generation change, but
    /// nothing proves that the old hold was lost rather than released.
    OverlapInDoubt {
        /// Who held it before.
        before: Vec<Holder>,
        /// Who holds it now.
        now: Vec<Holder>,
        /// What was left of the old lease.
        left_ms: u64,
    },
    /// Another server of the redis shows another holder, but the older hold may have been released
    /// where we could not see it.
    RivalInDoubt {
        /// The older hold.
        older: Vec<Party>,
        /// The newer one.
        newer: Vec<Party>,
    },
    /// Switches that were on vanished together with a generation change.
    SwitchesLost {
        /// Whose.
        users: Vec<User>,
    },
    /// A switch was written, or the configuration changed, so that nothing is lost any more.
    SwitchesFound,
    /// A switch's value says neither on nor off.
    SwitchUndecodable {
        /// Whose.
        user: User,
        /// The codec that would read it, if one would.
        fits: Option<Codec>,
    },
    /// The key of the switches was never seen to exist.
    SwitchKeyMissing,
    /// The progress is absent or cannot be read.
    ProgressMissing {
        /// Why; `None` when it is absent.
        why: Option<Unknown>,
    },
    /// The claims cannot be read.
    ClaimsUnreadable {
        /// Why.
        why: Unknown,
    },
    /// The hosts cannot be read.
    HostsUnreadable {
        /// Why.
        why: Unknown,
    },
    /// The value of the pause is neither Unix seconds nor RFC 3339.
    PauseUndecodable,
    /// The key of the pause cannot be read.
    PauseUnreadable {
        /// Why.
        why: Unknown,
    },
    /// A worker claims to run the task though nobody holds the lock.
    ClaimBesideFreeLock {
        /// Which one.
        instance: Holder,
    },
    /// The fencing token went backwards.
    TokenReset {
        /// The token before.
        from: i64,
        /// The token now.
        to: i64,
    },
    /// The lease became known.
    LeaseLearned {
        /// Full lifetime of a hold.
        lease_ms: u64,
    },
    /// The task cannot be read though its redis can.
    TaskUnreadable {
        /// Why.
        why: Unknown,
    },
    /// The task can be read again.
    TaskReadable,
    /// A server of a redis cannot be read.
    RedisDown {
        /// Why.
        why: Unknown,
        /// It decides; otherwise nothing but evidence is missing.
        decides: bool,
    },
    /// A redis can be read again, or for the first time.
    RedisUp,
    /// A redis may have lost data.
    GenerationChanged {
        /// What changed.
        change: GenerationChange,
    },
    /// Which servers decide has changed.
    MastersChanged {
        /// Who decided; empty when that was not known.
        from: Vec<Arc<str>>,
        /// Who decides now, or why that is not known.
        to: Result<Vec<Arc<str>>, Unknown>,
    },
    /// A second server says that it is master.
    RivalMaster,
    /// It does not any more.
    RivalMasterGone,
    /// What a change of generation did to the locks, once that is known.
    FailoverReport(FailoverReport),
    /// A server's clock moved against the agent's by more than a second.
    ClockStep {
        /// By how much, forward positive.
        by_ms: i64,
    },
}

/// Who is concerned, and which server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The instance.
    pub holder: Holder,
    /// The server that shows it, where it is not the one whose answer led to the event.
    pub node: Option<Arc<str>>,
}

/// What a change of generation did to the watched locks of a redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailoverReport {
    /// What changed, worst first.
    pub changes: Vec<GenerationChange>,
    /// The server that decided before, and the one after.
    pub from: Option<Arc<str>>,
    /// See `from`.
    pub to: Option<Arc<str>>,
    /// Bytes of the old history that the new master never had, at least as far as we saw; `None`
    /// when that cannot be told.
    pub bytes_lost: Option<u64>,
    /// Locks by what became of them, in the order of [`Fate::ALL`].
    pub fates: [u64; Fate::ALL.len()],
    /// The longest overlap, at least as far as it was seen.
    pub overlap_ms: u64,
    /// From the newest accepted reading before to the first after.
    pub blind_ms: u64,
}

named! {
    /// What became of a lock that was held before a change of generation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Fate {
        /// The same holder has it.
        Kept = "kept",
        /// It is gone before its deadline.
        Lost = "lost",
        /// Somebody else has it.
        Changed = "changed",
        /// Somebody else has it while the old holder believes that it does.
        Overlapped = "overlapped",
        /// It ran out or was released, as it would have without the change.
        Over = "over",
    }
}

named! {
    /// How a hold ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum End {
        /// Gone, and the server's clock had reached the deadline when it answered.
        Expired = "expired",
        /// Gone before the deadline: released or deleted.
        EndedEarly = "ended_early",
        /// Another holder took over before the deadline.
        Replaced = "replaced",
        /// Gone before the deadline, and the generation changed.
        Lost = "lost",
        /// It ended while nobody could see.
        Unknown = "unknown",
    }
}

named! {
    /// What shows that a lock was lost although its holder lived.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LossSign {
        /// It is gone with the server's data.
        Data = "data",
        /// It expired, and its holder's claim went on changing.
        Claim = "claim",
        /// It expired, and the progress moved although nobody held it.
        Progress = "progress",
    }
}

named! {
    /// The kinds of evidence for two holders.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SplitKind {
        /// An exclusive lock holds several holders.
        Holders = "holders",
        /// Two servers of one redis take writes and show different holders.
        Masters = "masters",
        /// Two workers keep claiming the task.
        Claims = "claims",
        /// A new holder before the old one's deadline, and the old hold was lost, not released.
        Overlap = "overlap",
    }
}

named! {
    /// Why a node may have lost data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum GenerationChange {
        /// Another process: it was restarted.
        Restarted = "restarted",
        /// Another replication history.
        Replication = "replication",
        /// Another server decides.
        Failover = "failover",
        /// A database was flushed.
        Flushed = "flushed",
    }
}
