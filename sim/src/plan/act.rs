//! The steps of a plan: faults, switches, and what else happens.

use crate::rng::Rng;

/// Mean time between two steps in milliseconds.
pub(super) const MEAN_GAP_MS: u64 = 85_000;

/// A step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it happens.
    pub at: u64,
    /// What happens.
    pub act: Act,
}

/// The kinds of steps. Numbers name tasks, servers and agents; `ms` is the duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and `lab/RELIABILITY.md` lists them")]
pub enum Act {
    Switch { task: usize, user: usize, on: bool },
    SwitchAll { task: usize, on: bool },
    RemoveSwitch { task: usize, user: usize },
    GarbleSwitch { task: usize, user: usize, ms: u64 },
    IgnoreOff { task: usize, ms: u64 },
    Crash { task: usize, ms: u64 },
    CrashAll { task: usize, ms: u64 },
    PauseWorker { task: usize, ms: u64 },
    DeadThread { task: usize, ms: u64 },
    Release { task: usize },
    ReEnter { task: usize, lease: bool, ms: u64 },
    PileUp { task: usize, timers: u64 },
    Phantoms { task: usize, count: u64 },
    Loop { task: usize, held_ms: u64, free_ms: u64, runs_out: bool, left: u64 },
    StopWatchdog { task: usize },
    DeleteLock { task: usize },
    SecondHolder { task: usize, ms: u64 },
    StealBesideLiving { task: usize },
    Persist { task: usize },
    WrongType { task: usize, ms: u64 },
    Huge { task: usize, ms: u64 },
    Deploy { task: usize, ms: u64 },
    StrangeLayout { task: usize, ms: u64 },
    RestartServer { server: usize, keeps: Keeps, down_ms: u64, loading_ms: u64 },
    Flush { server: usize },
    FlushOther { server: usize },
    EvictLock { task: usize },
    EvictSwitches { task: usize },
    Freeze { server: usize, ms: u64 },
    Hang { server: usize, agent: usize, ms: u64 },
    Slow { server: usize, each_ms: u64, ms: u64 },
    Busy { server: usize, ms: u64 },
    Refuse { server: usize, why: &'static str, ms: u64 },
    Forbid { server: usize, what: Forbidden, ms: u64 },
    StepClock { server: usize, by_ms: i64 },
    Cut { agent: usize, server: usize, silently: bool, ms: u64 },
    Delay { agent: usize, server: usize, each_way_ms: u64, ms: u64 },
    DropReplies { agent: usize, server: usize, ms: u64 },
    Tear { agent: usize, server: usize, ms: u64 },
    PauseAgent { agent: usize, ms: u64 },
    RestartAgent { agent: usize },
    Reload { agent: usize },
    StepAgentWall { agent: usize, by_ms: i64 },
    Failover { of: usize, lose_ms: u64, old: OldMaster, ms: u64 },
    Partition { of: usize, ms: u64 },
    CutSentinels { count: usize, ms: u64 },
    LyingSentinel { ms: u64 },
    Lag { server: usize, lag_ms: u64, ms: u64 },
    MoveSlot { task: usize, to: usize, ms: u64 },
    PauseGuard { task: usize, ms: u64 },
    PauseKeeper { task: usize, ms: u64 },
    PauseBoth { task: usize, script: bool, ms: u64 },
    KillGuard { task: usize, ms: u64 },
    KillKeeper { task: usize },
    StopGuard { task: usize },
    CutGuard { task: usize, ms: u64 },
    LagGuard { task: usize, each_way_ms: u64, ms: u64 },
    Turn { task: usize, what: TurnAct, ms: u64 },
    Queue { task: usize, what: QueueAct, ms: u64 },
    Runs { task: usize, what: RunsAct, ms: u64 },
}

/// The data of a server after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Keeps {
    All,
    /// Without the newest writes, because its file is older.
    AllBut {
        last_ms: u64,
    },
    Nothing,
}

/// What the user of the server may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Forbidden {
    Locks,
    Switches,
    Progress,
    Claims,
}

/// What happens to the former master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OldMaster {
    /// It was killed, and returns as a replica.
    Killed,
    /// It was frozen, and resumes as a master that acknowledges writes until it learns of the new
    /// one.
    Frozen,
    /// It continues as a master for a limited time, then becomes a replica.
    Alive,
}

/// What happens to those that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and `lab/RELIABILITY.md` lists them")]
pub enum TurnAct {
    /// The participant that has the turn does nothing for a while.
    Stop,
    /// The next turn lasts long.
    Long,
    /// The next passing takes so long, in two steps.
    SlowPass,
    /// The participant that passes the turn on dies between `HDEL` and `HSET`.
    Forget,
    /// The participant that passes the turn on dies between `HSET` and `HDEL`.
    KeepBoth,
    /// The next turn comes to another one than the next.
    Skip,
    /// Somebody sets another field.
    SecondField,
    /// Somebody writes a name that is none of them.
    ForeignName,
    /// Somebody writes the instant in another unit.
    OtherUnit,
    /// Somebody writes what is no number.
    NoNumber,
    /// The turn is set again, at once.
    AtOnce,
}

/// What happens to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and `lab/RELIABILITY.md` lists them")]
pub enum QueueAct {
    /// A worker dies while it executes a member.
    Die,
    /// The next execution outlives its lock.
    Long,
    /// The next execution fails at once: the member gets another score.
    Retry,
    /// All workers stop.
    StopAll,
    /// Many members come at once.
    Burst,
    /// No worker takes one of the members.
    PassOver,
    /// A loop removes all that is due.
    CleanUp,
    /// The lock of the first member is held by nobody who works.
    StaleLock,
    /// The first member is removed.
    Remove,
    /// The first member gets another score.
    Rescore,
}

/// What happens to the runs of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and `lab/RELIABILITY.md` lists them")]
pub enum RunsAct {
    /// Nothing starts a run for a while.
    Stop,
    /// The next run takes so much longer.
    Long,
}

/// A duration around the thresholds that decide whether it shall be reported.
pub(super) fn draw_ms(rng: &mut Rng) -> u64 {
    let base =
        rng.weighted(&[(30, 3_000), (30, 20_000), (30, 60_000), (10, 5_000)]).unwrap_or(20_000);
    let percent = rng.weighted(&[(30, 30), (30, 90), (25, 130), (15, 250)]).unwrap_or(90);
    base * percent / 100 + rng.below(1_000)
}
