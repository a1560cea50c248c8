//! The kinds of faults: what each does, and what agents can see meanwhile.

use std::time::{Duration, Instant};

use super::span::Span;
use crate::stack::{Data, Partition, Weather};

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) act: Act,
    pub(super) sight: Sight,
    /// Whether keys surely get lost.
    pub(super) loses: bool,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The deciding server is stopped by SIGSTOP.
    Freeze,
    /// It is killed, and started later with these data.
    Kill(Data),
    /// It is ended in order, and saves its data.
    Term,
    /// It is killed, and loads its data slowly.
    Load,
    /// An endless script.
    Busy,
    Sleep,
    PauseAll,
    PauseWrite,
    MaxClients,
    Oom,
    Evict,
    Flush,
    /// The agents' password changes, or what their user may do.
    NoAuth,
    NoPerm,
    Failover,
    KillMaster,
    FreezeMaster,
    FreezeReplica,
    KillReplica,
    KillSentinels(usize),
    FreezeSentinel,
    /// The network of a machine is cut: that of the master, or of a replica.
    Cut(Partition, bool),
    /// The cables between one agent and one Redis.
    Cable(Weather),
    KillAgent,
    FreezeAgent,
    ReloadAgent,
}

/// What agents can read of the Redis while the fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Everything.
    Clear,
    /// Nothing: its Redis cannot be reached.
    Unreachable,
    /// Nothing of any task, though their Redis answers.
    Blind,
    /// Perhaps.
    Blurred,
}

const fn kind(name: &'static str, act: Act, sight: Sight) -> Kind {
    Kind { name, act, sight, loses: false }
}

const fn losing(name: &'static str, act: Act, sight: Sight) -> Kind {
    Kind { name, act, sight, loses: true }
}

/// Of a single server.
pub(super) const ALONE: [Kind; 15] = [
    kind("freeze", Act::Freeze, Sight::Unreachable),
    losing("kill-empty", Act::Kill(Data::Lost), Sight::Unreachable),
    kind("kill-kept", Act::Kill(Data::Kept), Sight::Unreachable),
    kind("term-kept", Act::Term, Sight::Unreachable),
    kind("loading", Act::Load, Sight::Blurred),
    kind("busy", Act::Busy, Sight::Blurred),
    kind("sleep", Act::Sleep, Sight::Unreachable),
    kind("pause-all", Act::PauseAll, Sight::Unreachable),
    kind("pause-write", Act::PauseWrite, Sight::Blurred),
    kind("max-clients", Act::MaxClients, Sight::Blurred),
    kind("oom", Act::Oom, Sight::Clear),
    kind("eviction", Act::Evict, Sight::Clear),
    losing("flush", Act::Flush, Sight::Clear),
    kind("no-auth", Act::NoAuth, Sight::Unreachable),
    kind("no-perm", Act::NoPerm, Sight::Blind),
];

/// Of a set with Sentinels.
pub(super) const SET: [Kind; 12] = [
    kind("failover", Act::Failover, Sight::Blurred),
    kind("kill-master", Act::KillMaster, Sight::Blurred),
    kind("freeze-master", Act::FreezeMaster, Sight::Blurred),
    kind("freeze-replica", Act::FreezeReplica, Sight::Clear),
    kind("kill-replica", Act::KillReplica, Sight::Clear),
    kind("kill-sentinel", Act::KillSentinels(1), Sight::Clear),
    kind("kill-sentinels", Act::KillSentinels(2), Sight::Blurred),
    kind("freeze-sentinel", Act::FreezeSentinel, Sight::Clear),
    kind("pause-write", Act::PauseWrite, Sight::Blurred),
    kind("oom", Act::Oom, Sight::Clear),
    kind("no-auth", Act::NoAuth, Sight::Blurred),
    kind("no-perm", Act::NoPerm, Sight::Blurred),
];

/// Of the network of a machine.
pub(super) const MACHINE: [Kind; 5] = [
    kind("partition-master", Act::Cut(Partition::Both, true), Sight::Blurred),
    kind("partition-master-in", Act::Cut(Partition::Inwards, true), Sight::Blurred),
    kind("partition-master-out", Act::Cut(Partition::Outwards, true), Sight::Blurred),
    kind("partition-master-peers", Act::Cut(Partition::Peers, true), Sight::Blurred),
    kind("partition-replica", Act::Cut(Partition::Both, false), Sight::Clear),
];

/// Well below the timeout; the next one is above it.
const SHORT_DELAY: Duration = Duration::from_millis(200);
const LONG_DELAY: Duration = Duration::from_millis(1_500);
const BYTE_BY_BYTE: Duration = Duration::from_millis(10);

/// Between one agent and one Redis.
pub(super) const CABLE: [Kind; 12] = [
    kind("cut", Act::Cable(Weather::Cut), Sight::Unreachable),
    kind("reset", Act::Cable(Weather::Reset), Sight::Unreachable),
    kind("hang", Act::Cable(Weather::Hang), Sight::Unreachable),
    kind("lose-requests", Act::Cable(Weather::LoseRequests), Sight::Unreachable),
    kind("lose-answers", Act::Cable(Weather::LoseAnswers), Sight::Unreachable),
    kind("lose-every-second", Act::Cable(Weather::LoseEverySecond), Sight::Blurred),
    kind("delay-short", Act::Cable(Weather::Delay(SHORT_DELAY)), Sight::Clear),
    kind("delay-long", Act::Cable(Weather::Delay(LONG_DELAY)), Sight::Blurred),
    kind("jitter", Act::Cable(Weather::Jitter(LONG_DELAY)), Sight::Blurred),
    kind("dribble", Act::Cable(Weather::Dribble(BYTE_BY_BYTE)), Sight::Blurred),
    kind("half", Act::Cable(Weather::Half), Sight::Blurred),
    kind("clock-step", Act::Cable(Weather::ClockAhead(120)), Sight::Blurred),
];

/// Of an agent.
pub(super) const AGENT: [Kind; 3] = [
    kind("agent-kill", Act::KillAgent, Sight::Blurred),
    kind("agent-freeze", Act::FreezeAgent, Sight::Blurred),
    kind("agent-reload", Act::ReloadAgent, Sight::Clear),
];

impl Act {
    /// Whether another server may decide afterwards, which may lack the newest writes, or show
    /// older ones.
    pub(super) fn moves_the_master(self) -> bool {
        matches!(
            self,
            Act::Failover
                | Act::KillMaster
                | Act::FreezeMaster
                | Act::KillSentinels(_)
                | Act::Cut(..)
        )
    }

    /// Whether keys may get lost.
    pub(super) fn may_lose(self) -> bool {
        self.moves_the_master()
            || matches!(self, Act::Kill(_) | Act::Term | Act::Load | Act::Evict | Act::Flush)
    }
}

/// A fault that was injected.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The Redis concerned; none if it is an agent.
    pub(super) redis: Option<&'static str>,
    /// The agent concerned, if it is only one.
    pub(super) agent: Option<usize>,
    /// When it began, and when all was well again.
    pub(super) whole: Span,
    /// From when its effect was seen until before it was undone; or why it was not seen.
    pub(super) effect: Result<Span, String>,
}

impl Fault {
    /// Whether it concerns what this agent reads of this Redis.
    pub(super) fn strikes(&self, agent: usize, redis: &str) -> bool {
        self.redis.is_none_or(|own| own == redis) && self.agent.is_none_or(|own| own == agent)
    }

    /// From its beginning to some time after its end.
    pub(super) fn and_after(&self, time: Duration) -> Span {
        let (from, to): (Instant, Instant) = self.whole;
        (from, to + time)
    }
}
