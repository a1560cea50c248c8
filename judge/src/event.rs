//! Notable changes, each reported once. Outputs turn an event into a log line, a counter and a line
//! of history.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::reading::{Holder, Unknown, User};
use crate::spec::{Codec, StoreIndex, TaskSpec};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Rule, Verdict};

/// One notable change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instant of the evidence, on the agent's clock.
    pub at: Mono,
    /// The same instant on the server's clock, if the evidence came from a server.
    pub server_time: Option<ServerTime>,
    /// The task or store concerned.
    pub subject: Subject,
    /// The server whose answer shows the change, `host:port`.
    pub node: Option<Arc<str>>,
    /// The kind of change, with its details.
    pub kind: EventKind,
}

/// The task or store that an event concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A task.
    Task(Arc<TaskSpec>),
    /// A store.
    Store(StoreIndex, Arc<str>),
}

named! {
    /// The kinds of events.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum EventKind {
        /// The verdict changed (`from` is `None` for the first one).
        Verdict {
            /// The previous verdict.
            from: Option<Verdict>,
            /// The present verdict.
            to: Verdict,
            /// The rule that gave it.
            rule: &'static Rule,
        } = "verdict",
        /// A holder acquired the lock.
        Acquired {
            /// The new holders.
            holders: Vec<Holder>,
        } = "acquired",
        /// A hold ended.
        HoldEnded {
            /// The holders that it had.
            holders: Vec<Holder>,
            /// How it ended.
            reason: End,
            /// Duration of the hold in milliseconds; `None` when its start was not seen.
            held_ms: Option<u64>,
        } = "hold_ended",
        /// A lock was lost although its holder lived.
        LockLost {
            /// The holders that lost it.
            holders: Vec<Holder>,
            /// The evidence for the loss.
            sign: LossSign,
        } = "lock_lost",
        /// The deadline moved back while the holder stayed.
        Shortened {
            /// Reduction of the lease in milliseconds.
            by_ms: u64,
        } = "shortened",
        /// A wanted task has no holder.
        GapBegan = "gap_began",
        /// A gap ended because a hold settled: a handover.
        GapEnded {
            /// Time without a holder, in milliseconds.
            gap_ms: u64,
        } = "gap_ended",
        /// A hold was too short to end a gap.
        PhantomHold {
            /// Observed duration of the hold in milliseconds.
            held_ms: u64,
        } = "phantom_hold",
        /// Another holder took over after a hold expired.
        Outage {
            /// Milliseconds from the old holder's last sign of life to the take-over.
            outage_ms: u64,
        } = "outage",
        /// There are two holders.
        SplitBegan {
            /// The kind of evidence.
            kind: SplitKind,
            /// The instances concerned.
            parties: Vec<Party>,
            /// Remaining lease of the older hold in milliseconds, if it limits how long the split
            /// may last.
            left_ms: Option<u64>,
        } = "split_began",
        /// The evidence for two holders has ended.
        SplitEnded {
            /// The kind of evidence that had begun it.
            kind: SplitKind,
            /// Duration in milliseconds.
            lasted_ms: u64,
        } = "split_ended",
        /// A new holder came before the old one's deadline together with a generation change, but
        /// nothing proves that the old hold was lost rather than released.
        OverlapInDoubt {
            /// The previous holders.
            before: Vec<Holder>,
            /// The present holders.
            now: Vec<Holder>,
            /// Remaining lease of the old hold in milliseconds.
            left_ms: u64,
        } = "overlap_in_doubt",
        /// Another server of the store shows another holder, but the older hold may have been
        /// released unseen.
        RivalInDoubt {
            /// The older hold.
            older: Vec<Party>,
            /// The newer one.
            newer: Vec<Party>,
        } = "rival_in_doubt",
        /// Switches that were on vanished together with a generation change.
        SwitchesLost {
            /// The users whose switches vanished.
            users: Vec<User>,
        } = "switches_lost",
        /// A switch was written, or the configuration changed, so that no switch counts as lost any
        /// more.
        SwitchesFound = "switches_found",
        /// A user flipped the own switch on the page. Only the program makes this one.
        Switched {
            /// The user.
            user: User,
            /// Whether the switch is on now.
            on: bool,
        } = "switched",
        /// A drill began: alerts are tried with the labels of the task. Only the program makes this
        /// one and the next.
        DrillBegan {
            /// The user who began it, where users log in.
            by: Option<User>,
        } = "drill_began",
        /// A drill ended.
        DrillEnded {
            /// Why.
            why: DrillEnd,
            /// How long it lasted, in milliseconds.
            lasted_ms: u64,
        } = "drill_ended",
        /// A switch's value decodes as neither on nor off.
        SwitchUndecodable {
            /// The user of the switch.
            user: User,
            /// The codec that would decode the value, if any.
            fits: Option<Codec>,
        } = "switch_undecodable",
        /// The key of the switches was never seen to exist.
        SwitchKeyMissing = "switch_key_missing",
        /// The progress is absent or cannot be read.
        ProgressMissing {
            /// Why; `None` when the key is absent.
            why: Option<Unknown>,
        } = "progress_missing",
        /// The claims cannot be read.
        ClaimsUnreadable {
            /// Why.
            why: Unknown,
        } = "claims_unreadable",
        /// The hosts cannot be read.
        HostsUnreadable {
            /// Why.
            why: Unknown,
        } = "hosts_unreadable",
        /// The value of the pause is neither Unix seconds nor RFC 3339.
        PauseUndecodable = "pause_undecodable",
        /// The key of the pause cannot be read.
        PauseUnreadable {
            /// Why.
            why: Unknown,
        } = "pause_unreadable",
        /// A worker claims to run the task while the lock is free.
        ClaimBesideFreeLock {
            /// The claiming instance.
            instance: Holder,
        } = "claim_beside_free_lock",
        /// A name appeared that is none of the tasks that take turns.
        TurnUnknownName {
            /// The name.
            name: Vec<u8>,
        } = "turn_unknown_name",
        /// The turn was given to another task than the next one.
        TurnOutOfOrder {
            /// The task that was to come.
            expected: Vec<u8>,
            /// The task that came.
            came: Vec<u8>,
        } = "turn_out_of_order",
        /// Another worker took the lock of a queue's member while the member kept its score.
        ExecutedAgain {
            /// The member.
            id: Vec<u8>,
            /// Who executed it before.
            before: Vec<Holder>,
            /// Who executes it now.
            now: Vec<Holder>,
        } = "executed_again",
        /// The lock of a queue's member expired, and the member is still there. Its worker is dead,
        /// or the task takes longer than its lock.
        ExecutionExpired {
            /// The member.
            id: Vec<u8>,
            /// Who had the lock.
            holders: Vec<Holder>,
            /// Whether its claim lives.
            goes_on: bool,
        } = "execution_expired",
        /// Who executes a queue's member shows no sign of life.
        DeadHolder {
            /// The member.
            id: Vec<u8>,
            /// Who holds its lock.
            holders: Vec<Holder>,
            /// When the lock ends; until then nobody else can execute the member.
            until: Option<ServerTime>,
        } = "dead_holder",
        /// A member left the queue, and its lock stays.
        LockOutlivedTask {
            /// The member.
            id: Vec<u8>,
            /// Who holds its lock.
            holders: Vec<Holder>,
            /// When the lock ends.
            until: Option<ServerTime>,
        } = "lock_outlived_task",
        /// Due members left the queue, and nobody was seen to execute them, though executions are
        /// seen otherwise.
        MembersVanished {
            /// Their number.
            number: u64,
        } = "members_vanished",
        /// The fencing token went backwards.
        TokenReset {
            /// The previous token.
            from: i64,
            /// The present token.
            to: i64,
        } = "token_reset",
        /// The lease became known.
        LeaseLearned {
            /// Full lifetime of a hold in milliseconds.
            lease_ms: u64,
        } = "lease_learned",
        /// The task cannot be read though its store can.
        TaskUnreadable {
            /// Why.
            why: Unknown,
        } = "task_unreadable",
        /// The task can be read again.
        TaskReadable = "task_readable",
        /// A server of a store cannot be read.
        StoreDown {
            /// Why.
            why: Unknown,
            /// Whether the server decides. If not, only evidence is missing.
            decides: bool,
        } = "redis_down",
        /// A store can be read again, or for the first time.
        StoreUp = "redis_up",
        /// A store may have lost data.
        GenerationChanged {
            /// What changed.
            change: GenerationChange,
        } = "generation_changed",
        /// The set of deciding servers changed.
        MastersChanged {
            /// The servers that decided before; empty when unknown.
            from: Vec<Arc<str>>,
            /// The servers that decide now, or why they are unknown.
            to: Result<Vec<Arc<str>>, Unknown>,
        } = "masters_changed",
        /// A second server reports that it is master.
        RivalMaster = "rival_master",
        /// The second server no longer reports that it is master.
        RivalMasterGone = "rival_master_gone",
        /// The configured servers never replicated from each other.
        UnrelatedServers = "unrelated_servers",
        /// The effect of a change of generation on the locks, once it is known.
        FailoverReport(FailoverReport) = "generation_settled",
        /// A server's clock moved against the agent's by more than a second.
        ClockStep {
            /// Size of the step in milliseconds, forward positive.
            by_ms: i64,
        } = "clock_step",
    }
}

/// An instance concerned, and the server that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The instance.
    pub holder: Holder,
    /// The server that shows it, if it is not the one whose answer led to the event.
    pub node: Option<Arc<str>>,
    /// Its host, where that is known.
    pub host: Option<Vec<u8>>,
}

impl Party {
    pub(crate) fn of(holder: &Holder, node: Option<&Arc<str>>) -> Party {
        Party { holder: holder.clone(), node: node.cloned(), host: None }
    }
}

/// The effect of a change of generation on the watched locks of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailoverReport {
    /// The changes, worst first.
    pub changes: Vec<GenerationChange>,
    /// The server that decided before.
    pub from: Option<Arc<str>>,
    /// The server that decides now.
    pub to: Option<Arc<str>>,
    /// Bytes of the old history that the new master certainly never had, a lower bound; `None` when
    /// unknown.
    pub bytes_lost: Option<u64>,
    /// Number of locks by fate, in the order of [`Fate::ALL`].
    pub fates: [u64; Fate::ALL.len()],
    /// The longest observed overlap in milliseconds, a lower bound.
    pub overlap_ms: u64,
    /// Milliseconds from the newest accepted reading before the change to the first one after it.
    pub blind_ms: u64,
}

named! {
    /// Why a drill ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DrillEnd {
        /// It was stopped.
        Stopped = "stopped",
        /// Nobody renewed it: the command that began it is gone.
        NotRenewed = "not_renewed",
        /// Its time was over.
        TimeOver = "time_over",
        /// A configuration was loaded that forbids drills, or lacks the task.
        Reloaded = "reloaded",
        /// The engine did not publish it.
        Unpublished = "unpublished",
        /// The agent was stopped.
        AgentStopped = "agent_stopped",
    }
}

named! {
    /// The fate of a lock that was held before a change of generation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Fate {
        /// The same holder has it.
        Kept = "kept",
        /// It is gone before its deadline.
        Lost = "lost",
        /// Another holder has it.
        Changed = "changed",
        /// Another holder has it while the old holder still believes that it holds the lock.
        Overlapped = "overlapped",
        /// It expired or was released, as it would have without the change.
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
        /// It ended while it could not be observed.
        Unknown = "unknown",
    }
}

named! {
    /// The evidence that a lock was lost although its holder lived.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LossSign {
        /// It is gone with the server's data.
        Data = "data",
        /// It expired, and its holder's claim continued to change.
        Claim = "claim",
        /// It expired, and the progress moved although the lock was free.
        Progress = "progress",
    }
}

named! {
    /// The kinds of evidence for two holders.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SplitKind {
        /// An exclusive lock holds several holders.
        Holders = "holders",
        /// Two servers of one store accept writes and show different holders.
        Masters = "masters",
        /// Two workers keep claiming the task.
        Claims = "claims",
        /// A new holder appeared before the old one's deadline, and the old hold was lost, not
        /// released.
        Overlap = "overlap",
        /// Two tasks have the turn, for longer than it takes to pass it.
        Turns = "turns",
        /// Another worker executes a member of a queue while the first one goes on.
        Executions = "executions",
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
