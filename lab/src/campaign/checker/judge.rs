//! Judges each agent: what it failed to report, and what it reported although that could not be
//! true.

use super::bound::Bound;
use super::read::Logs;
use super::sight::{Effect, Sight, effect, sight, strikes};
use super::spans::Spans;
use super::truth::{Truth, Truths};
use crate::campaign::clock::{Micros, SECOND};

/// A measure of the agents that raises an alert, or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Measure {
    Down,
    Unwanted,
    Stalled,
    Blind,
    Split,
    SwitchesLost,
    /// Whether a lock is held.
    Held,
}

impl Measure {
    pub(super) const ALL: [Measure; 7] = [
        Measure::Down,
        Measure::Unwanted,
        Measure::Stalled,
        Measure::Blind,
        Measure::Split,
        Measure::SwitchesLost,
        Measure::Held,
    ];

    pub(super) fn letter(self) -> char {
        match self {
            Measure::Down => 'd',
            Measure::Unwanted => 'u',
            Measure::Stalled => 't',
            Measure::Blind => 'b',
            Measure::Split => 'x',
            Measure::SwitchesLost => 'o',
            Measure::Held => 'h',
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Down => "down",
            Measure::Unwanted => "unwanted",
            Measure::Stalled => "stalled",
            Measure::Blind => "blind",
            Measure::Split => "split",
            Measure::SwitchesLost => "switches lost",
            Measure::Held => "held or free",
        }
    }
}

/// A mistake of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) measure: Measure,
    /// `true`: an alert is missing; `false`: an alert is false.
    pub(super) missed: bool,
    pub(super) agent: usize,
    pub(super) task: usize,
    pub(super) from: Micros,
    pub(super) to: Micros,
    pub(super) why: String,
}

/// How many cases there were to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) must: usize,
    pub(super) must_not: usize,
    /// Cases in which either answer may be right.
    pub(super) grey: usize,
}

/// The judgement of a whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    pub(super) violations: Vec<Violation>,
    pub(super) counts: Vec<(Measure, Count)>,
    /// Task time over all agents, and the part of it that could be judged.
    pub(super) time: Micros,
    pub(super) judged: Micros,
    /// Why the rest could not be judged; the reasons may overlap in time.
    pub(super) unjudged: Vec<(&'static str, Micros)>,
    pub(super) unjudged_faults: Vec<(u64, String)>,
}

/// The tolerances, which follow from the setup of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// How much later than its threshold a value may be shown.
    pub(super) delay: Micros,
    /// How much more than the truth an agent may count.
    pub(super) slack: Micros,
    /// How long the agent must see the opposite until it has surely processed and shown it.
    pub(super) sees: Micros,
    /// Maximum age of what an agent shows of a lock.
    pub(super) age: Micros,
    /// A shorter hold may fall between two readings.
    pub(super) unseen: Micros,
}

impl Tolerance {
    pub(super) fn of(logs: &Logs) -> Tolerance {
        let times = logs.header.times;
        let ms = |ms: u64| ms * 1_000;
        let reading = ms(times.interval);
        // A confirmation, a snapshot, a scrape, and one second for a busy machine.
        let shown = ms(260 + times.scrape) + SECOND;
        Tolerance {
            delay: reading + shown,
            slack: SECOND * 3 / 10,
            sees: 2 * reading + shown,
            age: reading + ms(times.timeout) + shown,
            unseen: 2 * reading,
        }
    }
}

/// The input for judging one task of one agent.
pub(super) struct Case<'a> {
    pub(super) logs: &'a Logs,
    pub(super) truth: &'a Truth,
    pub(super) sight: &'a Sight,
    pub(super) tolerance: Tolerance,
    pub(super) whole: (Micros, Micros),
    pub(super) agent: usize,
    pub(super) task: usize,
}

pub(super) fn judge(logs: &Logs, truths: &Truths) -> Judgement {
    let mut judgement = Judgement::default();
    let mut counts: Vec<(Measure, Count)> =
        Measure::ALL.iter().map(|measure| (*measure, Count::default())).collect();
    let whole = (logs.begin, logs.end);
    let sights: Vec<Vec<Sight>> = (0..logs.header.agents)
        .map(|agent| {
            (0..logs.header.redises.len()).map(|redis| sight(logs, truths, agent, redis)).collect()
        })
        .collect();
    for (agent, sights) in sights.iter().enumerate() {
        for (task, (entry, truth)) in logs.header.tasks.iter().zip(&truths.tasks).enumerate() {
            let Some(sight) = sights.get(entry.redis) else { continue };
            let case =
                Case { logs, truth, sight, tolerance: Tolerance::of(logs), whole, agent, task };
            for (measure, count) in &mut counts {
                let found = match measure {
                    Measure::Down => case.down(count),
                    Measure::Unwanted => case.unwanted(count),
                    Measure::Stalled if entry.progress => case.stalled(count),
                    Measure::Stalled => Vec::new(),
                    Measure::Blind => case.blind(count),
                    Measure::Split => case.split(count),
                    Measure::SwitchesLost => case.lost(count),
                    Measure::Held => case.held(count),
                };
                judgement.violations.extend(found);
            }
            judgement.time += whole.1 - whole.0;
            let unknown = truth
                .held
                .or(&truth.free)
                .within(whole)
                .longer_than(SECOND / 5)
                .minus(&excused(logs, entry.redis));
            for (why, when) in
                sight.reasons.iter().chain([&("what its lock was is not known", unknown.clone())])
            {
                match judgement.unjudged.iter_mut().find(|(of, _)| of == why) {
                    Some((_, sum)) => *sum += when.total(),
                    None => judgement.unjudged.push((why, when.total())),
                }
            }
            judgement.judged +=
                (whole.1 - whole.0).saturating_sub(unknown.or(&sight.unjudged).total());
        }
    }
    judgement.counts = counts;
    judgement.violations.sort_by_key(|violation| violation.from);
    judgement.unjudged_faults = unjudged_faults(logs, &sights);
    judgement
}

/// Periods in which a server is stopped or away: the state of its locks is not judged then.
fn excused(logs: &Logs, redis: usize) -> Spans {
    let of = logs
        .faults
        .iter()
        .filter(|fault| fault.redis == Some(redis) && effect(fault.kind) != Effect::None);
    Spans::new(of.map(|fault| (fault.meant, fault.healed)))
}

/// Faults whose effect was not verified, or during which judging was impossible.
fn unjudged_faults(logs: &Logs, sights: &[Vec<Sight>]) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for fault in &logs.faults {
        if fault.verified.is_none() {
            let why =
                fault.why_not.clone().unwrap_or_else(|| "its effect was never seen".to_owned());
            found.push((fault.id, why));
            continue;
        }
        let window = (fault.meant, (fault.healed + 2 * SECOND).min(logs.end));
        let struck = sights.iter().enumerate().flat_map(|(agent, redises)| {
            redises
                .iter()
                .enumerate()
                .filter(move |(redis, _)| strikes(fault, agent, *redis))
                .map(|(_, sight)| sight)
        });
        let most = struck
            .map(|sight| sight.unjudged.within_of(window.0, window.1))
            .max()
            .unwrap_or_default();
        // In each failover it is briefly unknown which server decides.
        let budget = ((window.1 - window.0) / 2).max(10 * SECOND).min(window.1 - window.0);
        if most >= budget {
            found.push((fault.id, format!("{:.1} s of it could not be judged", seconds(most))));
        }
    }
    found
}

/// Seconds, for display.
pub(super) fn seconds(of: Micros) -> f64 {
    std::time::Duration::from_micros(of).as_secs_f64()
}

impl Case<'_> {
    pub(super) fn ms(ms: u64) -> Micros {
        ms * 1_000
    }

    /// When the agent showed the measure, limited to the time in which it was scraped.
    pub(super) fn shown(&self, measure: Measure) -> Spans {
        self.said(measure).and(&self.sight.asked)
    }

    /// From each scrape that showed the measure to the first one that did not.
    pub(super) fn said(&self, measure: Measure) -> Spans {
        let agent = self.logs.agents.get(self.agent);
        agent
            .map(|agent| agent.when(measure.letter(), self.task, '1', self.whole.1))
            .unwrap_or_default()
    }

    pub(super) fn violation(
        &self,
        measure: Measure,
        missed: bool,
        from: Micros,
        to: Micros,
        why: String,
    ) -> Violation {
        Violation { measure, missed, agent: self.agent, task: self.task, from, to, why }
    }

    /// Instants at which the agent has surely seen that `what` holds.
    pub(super) fn seen(&self, what: &Spans, after: Micros) -> Spans {
        what.and(&self.sight.clear).without_beginnings(after)
    }

    /// How long the agent waited for a core in this period, and the collector for its answers: an
    /// alert may come later by this time.
    fn waited(&self, from: Micros, to: Micros) -> Micros {
        let scrapes = self
            .logs
            .agents
            .get(self.agent)
            .map(|agent| agent.scrapes.as_slice())
            .unwrap_or_default();
        let first = scrapes.partition_point(|scrape| scrape.received < from);
        let these =
            scrapes.get(first..).unwrap_or_default().iter().take_while(|scrape| scrape.sent < to);
        these.map(|scrape| scrape.waited.max(scrape.received - scrape.sent)).sum()
    }

    /// Checks that the measure is shown in time after each of these periods has lasted for
    /// `threshold`.
    pub(super) fn must(
        &self,
        measure: Measure,
        stretches: &[(Micros, Micros)],
        threshold: Micros,
        count: &mut Count,
    ) -> Vec<Violation> {
        let shown = self.shown(measure);
        let mut found = Vec::new();
        for (from, to) in stretches {
            let due = from + threshold;
            let by = due
                + self.tolerance.delay
                + self.waited(due.saturating_sub(SECOND), due + self.tolerance.delay);
            if by > *to {
                continue;
            }
            count.must += 1;
            if !shown.touches(due.saturating_sub(self.tolerance.slack), by) {
                let why = format!(
                    "it was so and could be seen for {:.2} s, and nothing was shown by then",
                    seconds(by - from)
                );
                found.push(self.violation(measure, true, *from, by, why));
            }
        }
        found
    }

    /// Checks that the measure is not shown: neither starting above `bound`, nor when its condition
    /// is surely over.
    pub(super) fn must_not(
        &self,
        measure: Measure,
        threshold: Micros,
        bound: impl Fn(Micros) -> Micros,
        over: &Spans,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        for (from, to) in self.shown(measure).iter() {
            let most = bound(from);
            if most + self.tolerance.slack < threshold {
                let why = format!(
                    "it pages above {:.2} s, but could be {:.2} s at most",
                    seconds(threshold),
                    seconds(most)
                );
                found.push(self.violation(
                    measure,
                    false,
                    from.saturating_sub(threshold),
                    from,
                    why,
                ));
            } else if let Some(at) = over.first_from(from).filter(|at| *at < to) {
                let why = format!(
                    "it was over and could be seen to be for long enough, and was still shown for \
                     {:.2} s",
                    seconds(to - at)
                );
                found.push(self.violation(measure, false, at, to, why));
            }
        }
        found
    }

    /// Counts the episodes of a bound: those in which no alert may fire, and the uncertain ones.
    pub(super) fn tally(
        &self,
        bound: &Bound,
        threshold: Micros,
        musts: &[(Micros, Micros)],
        count: &mut Count,
    ) {
        for ((from, to), most) in bound.peaks(self.whole) {
            if most < SECOND / 5
                || musts.iter().any(|(begin, end)| {
                    *begin < to && from < *end && end - begin >= threshold + self.tolerance.delay
                })
            {
                continue;
            }
            if most + self.tolerance.slack < threshold {
                count.must_not += 1;
            } else {
                count.grey += 1;
            }
        }
    }
}
