//! When an agent could surely see a Redis, and when it surely could not. Derived from the injected
//! faults and from delays on the machine, never from what the agent reports.

use super::read::{FaultLog, Logs};
use super::spans::Spans;
use super::truth::Truths;
use crate::campaign::clock::{Micros, SECOND};
use crate::campaign::fault::Kind;

/// Delay from which this process counts as starved of CPU, in microseconds.
const LATE: Micros = 300_000;
/// Limit in microseconds for the total wait of an agent's thread for a core between two scrapes,
/// and for the duration of a scrape. Above it, the agent counts as starved.
const WAITED: Micros = 800_000;
const SLOW: Micros = SECOND;
/// Time to catch up after a delay; the tolerances include another second.
const CATCH_UP: Micros = SECOND / 2;
/// Time without a scrape after which the agent's state counts as unknown.
const UNASKED: Micros = 3 * SECOND / 2;

/// The view that one agent has of one Redis.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// It surely gets answers, and has recovered from earlier faults.
    pub(super) clear: Spans,
    /// It surely gets no answers.
    pub(super) blind: Spans,
    /// Cannot be judged: the machine was too slow, the witness or the collector was not looking, or
    /// it is unknown which server decides.
    pub(super) unjudged: Spans,
    /// The reasons for that, in words.
    pub(super) reasons: [(&'static str, Spans); 4],
    /// When the agent ran. Each restart loses its earlier state.
    pub(super) runs: Spans,
    /// When it was scraped often enough.
    pub(super) asked: Spans,
}

/// The effect of a fault on the view of the agents concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: an alert for blindness would be false.
    None,
    /// Possibly blind.
    Perhaps,
    /// Blind for the intended duration.
    Blind,
}

/// The effect of a kind of fault on the view.
pub(super) fn effect(kind: Kind) -> Effect {
    match kind {
        Kind::PauseWrite
        | Kind::Oom
        | Kind::Eviction
        | Kind::Flush
        | Kind::FreezeReplica
        | Kind::KillReplica
        | Kind::PartitionReplica
        | Kind::KillSentinel
        | Kind::FreezeSentinel
        | Kind::DelayShort
        | Kind::ClockStep
        | Kind::HostKill
        | Kind::HostFreeze => Effect::None,
        Kind::KillEmpty
        | Kind::KillKept
        | Kind::TermEmpty
        | Kind::TermKept
        | Kind::Loading
        | Kind::Failover
        | Kind::KillMaster
        | Kind::FreezeMaster
        | Kind::PartitionMaster
        | Kind::PartitionMasterIn
        | Kind::PartitionMasterOut
        | Kind::PartitionMasterPeers
        | Kind::LoseEverySecond
        | Kind::Jitter
        | Kind::AgentKill
        | Kind::AgentFreeze => Effect::Perhaps,
        Kind::Freeze
        | Kind::Busy
        | Kind::Sleep
        | Kind::PauseAll
        | Kind::MaxClients
        | Kind::NoAuth
        | Kind::NoPerm
        | Kind::KillSentinels
        | Kind::Cut
        | Kind::Reset
        | Kind::Hang
        | Kind::LoseRequests
        | Kind::LoseAnswers
        | Kind::DelayLong
        | Kind::Dribble
        | Kind::Half => Effect::Blind,
    }
}

/// Whether another server may become master.
pub(super) fn changes_master(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Failover
            | Kind::KillMaster
            | Kind::FreezeMaster
            | Kind::PartitionMaster
            | Kind::PartitionMasterIn
            | Kind::PartitionMasterOut
            | Kind::PartitionMasterPeers
    )
}

/// Whether a fault affects the view that this agent has of this Redis.
pub(super) fn strikes(fault: &FaultLog, agent: usize, redis: usize) -> bool {
    fault.redis.is_none_or(|of| of == redis) && fault.agent.is_none_or(|of| of == agent)
}

/// How long after a fault of this length an agent may wait before it dials again. Pauses double
/// with each failed attempt up to 5 s, with at most two attempts a second. A dial that hangs takes
/// a timeout, and then the first sweep follows.
pub(super) fn recovery(logs: &Logs, lasted: Micros) -> Micros {
    let attempts = lasted * 2 / SECOND + 2;
    let pause_ms = 100_u64.saturating_mul(1 << attempts.saturating_sub(2).min(16)).min(5_000);
    let times = logs.header.times;
    (pause_ms + 2 * times.timeout + times.interval) * 1_000 + SECOND / 2
}

/// The view that one agent has of one Redis.
pub(super) fn sight(logs: &Logs, truths: &Truths, agent: usize, redis: usize) -> Sight {
    let whole = (logs.begin, logs.end);
    let mut disturbed = Vec::new();
    let (mut blind, mut gone, mut frozen) = (Vec::new(), Vec::new(), Vec::new());
    for fault in logs.faults.iter().filter(|fault| strikes(fault, agent, redis)) {
        match fault.kind {
            Kind::AgentKill => gone.push((fault.meant, fault.healed)),
            Kind::AgentFreeze => frozen.push((fault.meant, fault.healed)),
            _ => {}
        }
        if effect(fault.kind) == Effect::None {
            continue;
        }
        disturbed.push((fault.meant, fault.healed + recovery(logs, fault.healed - fault.meant)));
        if let (Effect::Blind, Some(verified)) = (effect(fault.kind), fault.verified) {
            // Answers of Sentinels count for two intervals.
            let later = if fault.kind == Kind::KillSentinels {
                2 * logs.header.times.interval * 1_000
            } else {
                0
            };
            blind.push((verified + later, fault.meant + fault.lasts));
        }
    }
    let scrapes = logs.agents.get(agent).map(|agent| agent.scrapes.as_slice()).unwrap_or_default();
    let slow = scrapes.windows(2).filter_map(|pair| match pair {
        [before, after] if after.waited > WAITED || after.received > after.sent + SLOW => {
            Some((before.received, after.received + CATCH_UP))
        }
        _ => None,
    });
    let ends = scrapes.iter().map(|scrape| scrape.received);
    let (froms, tos) = (ends.clone(), ends.skip(1).chain([logs.end]));
    let (gone, frozen) = (Spans::new(gone), Spans::new(frozen));
    // What one process reported says nothing about the next one until that is scraped.
    let asked =
        froms.zip(tos).filter(|(from, to)| to - from <= UNASKED && !gone.touches(*from, *to));
    let asked = Spans::new(asked);
    let unasked = asked.within(whole).minus(&gone).minus(&frozen.padded(0, CATCH_UP));
    let of = |sets: &[Spans]| sets.get(redis).cloned().unwrap_or_default();
    let reasons = [
        ("the campaign itself was late", logs.late.longer_than(LATE).padded(0, CATCH_UP)),
        ("an agent had no core", Spans::new(slow)),
        ("an agent was not asked", unasked),
        (
            "who decides was in doubt, or nobody looked",
            of(&truths.undecided).or(&of(&truths.unseen)),
        ),
    ];
    let run = Spans::one(whole.0, whole.1);
    let reasons = reasons.map(|(why, when)| (why, when.and(&run)));
    let unjudged = reasons.iter().fold(Spans::default(), |all, (_, when)| all.or(when));
    let clear = Spans::new(disturbed).or(&unjudged).within(whole).and(&asked);
    let blind = Spans::new(blind).minus(&unjudged).minus(&gone).minus(&frozen.padded(0, CATCH_UP));
    Sight { clear, blind, unjudged, reasons, runs: gone.within(whole), asked }
}
