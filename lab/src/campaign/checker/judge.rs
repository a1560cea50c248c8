//! The judgement: what an agent had to say and did not, and what it said though it could not be true.

use super::bound::Bound;
use super::read::Logs;
use super::sight::{Effect, Sight, effect, sight, strikes};
use super::spans::Spans;
use super::truth::{Truth, Truths};
use crate::campaign::clock::{Micros, SECOND};
use crate::campaign::fault::Kind;

/// A measure of the agents that pages, or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Measure {
    Down,
    Unwanted,
    Stalled,
    Blind,
    Split,
    SwitchesLost,
    /// That a lock is held, or free.
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

/// What an agent did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) measure: Measure,
    /// A page that had to come, or one that must not have come.
    pub(super) missed: bool,
    pub(super) agent: usize,
    pub(super) task: usize,
    pub(super) from: Micros,
    pub(super) to: Micros,
    pub(super) why: String,
}

/// How often there was something to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) must: usize,
    pub(super) must_not: usize,
    /// Neither is certain.
    pub(super) grey: usize,
}

/// The judgement of a whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    pub(super) violations: Vec<Violation>,
    pub(super) counts: Vec<(Measure, Count)>,
    /// Task-time, over all agents, and how much of it could be judged.
    pub(super) time: Micros,
    pub(super) judged: Micros,
    /// Why the rest could not, with overlaps.
    pub(super) unjudged: Vec<(&'static str, Micros)>,
    pub(super) unjudged_faults: Vec<(u64, String)>,
}

/// The tolerances, from how a run is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// How much later than its threshold a value may be shown.
    pub(super) delay: Micros,
    /// How much more than the truth an agent may count.
    pub(super) slack: Micros,
    /// How long the agent must see the opposite until it surely has taken it in, and shows it.
    pub(super) sees: Micros,
    /// How old what an agent shows of a lock may be.
    pub(super) age: Micros,
    /// A hold that is shorter may fall between two readings.
    pub(super) unseen: Micros,
}

impl Tolerance {
    pub(super) fn of(logs: &Logs) -> Tolerance {
        let times = logs.header.times;
        let ms = |ms: u64| ms * 1_000;
        let reading = ms(times.interval);
        // A confirmation, a snapshot and a scrape, and a second for a machine that is busy but not too busy.
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

/// What judging one task of one agent needs.
struct Case<'a> {
    logs: &'a Logs,
    truth: &'a Truth,
    sight: &'a Sight,
    tolerance: Tolerance,
    whole: (Micros, Micros),
    agent: usize,
    task: usize,
}

pub(super) fn judge(logs: &Logs, truths: &Truths) -> Judgement {
    let mut judgement = Judgement::default();
    let mut counts: Vec<(Measure, Count)> = Measure::ALL.iter().map(|measure| (*measure, Count::default())).collect();
    let whole = (logs.begin, logs.end);
    let sights: Vec<Vec<Sight>> = (0..logs.header.agents)
        .map(|agent| (0..logs.header.redises.len()).map(|redis| sight(logs, truths, agent, redis)).collect())
        .collect();
    for (agent, sights) in sights.iter().enumerate() {
        for (task, (entry, truth)) in logs.header.tasks.iter().zip(&truths.tasks).enumerate() {
            let Some(sight) = sights.get(entry.redis) else { continue };
            let case = Case { logs, truth, sight, tolerance: Tolerance::of(logs), whole, agent, task };
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
            let unknown =
                truth.held.or(&truth.free).within(whole).longer_than(SECOND / 5).minus(&excused(logs, entry.redis));
            for (why, when) in sight.reasons.iter().chain([&("what its lock was is not known", unknown.clone())]) {
                match judgement.unjudged.iter_mut().find(|(of, _)| of == why) {
                    Some((_, sum)) => *sum += when.total(),
                    None => judgement.unjudged.push((why, when.total())),
                }
            }
            judgement.judged += (whole.1 - whole.0).saturating_sub(unknown.or(&sight.unjudged).total());
        }
    }
    judgement.counts = counts;
    judgement.violations.sort_by_key(|violation| violation.from);
    judgement.unjudged_faults = unjudged_faults(logs, &sights);
    judgement
}

/// While a server is stopped or away, what its locks are is no question.
fn excused(logs: &Logs, redis: usize) -> Spans {
    let of = logs.faults.iter().filter(|fault| fault.redis == Some(redis) && effect(fault.kind) != Effect::None);
    Spans::new(of.map(|fault| (fault.meant, fault.healed)))
}

/// Faults whose effect was not seen, or during which nobody could judge.
fn unjudged_faults(logs: &Logs, sights: &[Vec<Sight>]) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for fault in &logs.faults {
        if fault.verified.is_none() {
            let why = fault.why_not.clone().unwrap_or_else(|| "its effect was never seen".to_owned());
            found.push((fault.id, why));
            continue;
        }
        let window = (fault.meant, (fault.healed + 2 * SECOND).min(logs.end));
        let struck = sights.iter().enumerate().flat_map(|(agent, redises)| {
            redises.iter().enumerate().filter(move |(redis, _)| strikes(fault, agent, *redis)).map(|(_, sight)| sight)
        });
        let most = struck.map(|sight| sight.unjudged.within_of(window.0, window.1)).max().unwrap_or_default();
        // Who decides is in doubt for a moment in each failover.
        let budget = ((window.1 - window.0) / 2).max(10 * SECOND).min(window.1 - window.0);
        if most >= budget {
            found.push((fault.id, format!("{:.1} s of it could not be judged", seconds(most))));
        }
    }
    found
}

/// For people.
pub(super) fn seconds(of: Micros) -> f64 {
    std::time::Duration::from_micros(of).as_secs_f64()
}

impl Case<'_> {
    fn ms(ms: u64) -> Micros {
        ms * 1_000
    }

    fn shown(&self, measure: Measure) -> Spans {
        let agent = self.logs.agents.get(self.agent);
        agent
            .map(|agent| agent.when(measure.letter(), self.task, '1', self.whole.1))
            .unwrap_or_default()
            .and(&self.sight.asked)
    }

    fn violation(&self, measure: Measure, missed: bool, from: Micros, to: Micros, why: String) -> Violation {
        Violation { measure, missed, agent: self.agent, task: self.task, from, to, why }
    }

    /// Instants from which on the agent surely has seen that `what` is so.
    fn seen(&self, what: &Spans, after: Micros) -> Spans {
        what.and(&self.sight.clear).without_beginnings(after)
    }

    /// How long the agent waited for a core in this time, and the collector for its answers: so much later it may say something.
    fn waited(&self, from: Micros, to: Micros) -> Micros {
        let scrapes = self.logs.agents.get(self.agent).map(|agent| agent.scrapes.as_slice()).unwrap_or_default();
        let first = scrapes.partition_point(|scrape| scrape.received < from);
        let these = scrapes.get(first..).unwrap_or_default().iter().take_while(|scrape| scrape.sent < to);
        these.map(|scrape| scrape.waited.max(scrape.received - scrape.sent)).sum()
    }

    /// What must be shown at the latest so long after each of these stretches has lasted for `threshold`.
    fn must(
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
            let by = due + self.tolerance.delay + self.waited(due.saturating_sub(SECOND), due + self.tolerance.delay);
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

    /// What must not be shown: at its beginning more than `bound` allows, or still when it surely is over.
    fn must_not(
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
                let why =
                    format!("it pages above {:.2} s, but could be {:.2} s at most", seconds(threshold), seconds(most));
                found.push(self.violation(measure, false, from.saturating_sub(threshold), from, why));
            } else if let Some(at) = over.first_from(from).filter(|at| *at < to) {
                let why = format!(
                    "it was over and could be seen to be for long enough, and was still shown for {:.2} s",
                    seconds(to - at)
                );
                found.push(self.violation(measure, false, at, to, why));
            }
        }
        found
    }

    /// Counts the episodes of a bound: those that must not page, and those of which it is not certain.
    fn tally(&self, bound: &Bound, threshold: Micros, musts: &[(Micros, Micros)], count: &mut Count) {
        for ((from, to), most) in bound.peaks(self.whole) {
            if most < SECOND / 5
                || musts
                    .iter()
                    .any(|(begin, end)| *begin < to && from < *end && end - begin >= threshold + self.tolerance.delay)
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

    /// What an agent knew is gone when it is killed; the next one may look long before it is ready.
    fn restarts(&self) -> Spans {
        Spans::new(self.sight.runs.within(self.whole).iter().map(|(from, _)| (from, from + 1)))
    }

    fn down(&self, count: &mut Count) -> Vec<Violation> {
        let times = self.logs.header.times;
        let grace = Self::ms(times.grace);
        let sure: Vec<_> = self.truth.free.and(&self.truth.wanted).and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Down, &sure, grace, count);
        let possible = self.truth.held.or(&self.truth.unwanted).within(self.whole);
        // A hold or a switch that nobody saw counts as if it had not been.
        let unseen = self.truth.held.or(&self.truth.unwanted).shorter_than(self.tolerance.unseen);
        // Without sight, from one free reading to the next.
        let dark = self.sight.clear.within(self.whole).padded(SECOND, SECOND);
        let bridges = dark.iter().filter_map(|(from, to)| {
            let first = possible.first_from(from).filter(|at| *at < to)?;
            Some((first, possible.last_before(to)?))
        });
        // A slow answer is evidence for the instant at which it was asked for.
        let early = possible.padded(Self::ms(times.timeout), 0).and(&dark);
        let grows = possible.or(&unseen).or(&Spans::new(bridges)).or(&early);
        let settled = self.seen(&self.truth.held, Self::ms(times.settle) + self.tolerance.sees);
        let nothing = settled.or(&self.seen(&self.truth.unwanted, self.tolerance.sees)).or(&self.restarts());
        let bound = Bound::new(grows, nothing);
        self.tally(&bound, grace, &sure, count);
        found.extend(self.must_not(Measure::Down, grace, |at| bound.at(at), bound.nothing()));
        found
    }

    fn unwanted(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.wind_down);
        let sure: Vec<_> = self.truth.held.and(&self.truth.unwanted).and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Unwanted, &sure, threshold, count);
        let not = self.truth.free.or(&self.truth.wanted);
        let nothing = self.seen(&not, self.tolerance.sees).or(&self.restarts());
        let bound = Bound::new(not.within(self.whole), nothing);
        self.tally(&bound, threshold, &sure, count);
        found.extend(self.must_not(Measure::Unwanted, threshold, |at| bound.since(at), bound.nothing()));
        found
    }

    fn stalled(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.stale_after);
        let still = self.truth.held.and(&self.truth.wanted).and(&self.truth.has_progress).and(&self.sight.clear);
        let sure = still.cut_at(&self.truth.moved);
        let mut found = self.must(Measure::Stalled, &sure, threshold, count);
        let seen = Spans::new(self.truth.moved.iter().filter_map(|at| {
            let by = at + self.tolerance.sees;
            self.sight.clear.iter().any(|(from, to)| from <= *at && by <= to).then_some((*at, by))
        }));
        let last = |at: Micros| {
            let moves = self.truth.moved.partition_point(|moved| moved + self.tolerance.sees <= at);
            let before = self.truth.moved.get(..moves).unwrap_or_default();
            before.iter().rev().find(|moved| seen.contains(**moved)).copied().unwrap_or(self.whole.0)
        };
        let over = Spans::new(seen.iter().map(|(_, by)| (by, by + 1)));
        let quiet = self
            .truth
            .moved
            .windows(2)
            .filter(|pair| matches!(pair, [a, b] if b - a < threshold && b - a > SECOND))
            .count();
        count.must_not += quiet;
        found.extend(self.must_not(Measure::Stalled, threshold, |at| at.saturating_sub(last(at)), &over));
        found
    }

    fn blind(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.blind_after);
        let sure: Vec<_> = self.sight.blind.iter().collect();
        let mut found = self.must(Measure::Blind, &sure, threshold, count);
        // What is clear for a moment only between two delays proves nothing.
        let clear = self.sight.clear.longer_than(self.tolerance.sees);
        let nothing = clear.or(&self.restarts());
        let reading = Self::ms(self.logs.header.times.interval + self.logs.header.times.timeout);
        let bound = |at: Micros| clear.last_before(at).map_or(Micros::MAX / 2, |end| at - end + reading);
        let tallied = Bound::new(nothing.within(self.whole), nothing);
        self.tally(&tallied, threshold.saturating_sub(reading), &sure, count);
        let over = clear.without_beginnings(self.tolerance.sees);
        found.extend(self.must_not(Measure::Blind, threshold, bound, &over));
        found
    }

    fn split(&self, count: &mut Count) -> Vec<Violation> {
        let sure: Vec<_> = self.truth.doubled.and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Split, &sure, 0, count);
        let twice = self.twice().padded(0, Self::ms(self.logs.header.times.lease) + 20 * SECOND);
        for (from, to) in self.shown(Measure::Split).iter() {
            if twice.touches(from.saturating_sub(self.tolerance.age), from) {
                continue;
            }
            if self.truth.rival.padded(0, self.tolerance.age).contains(from) {
                // Two masters do show two holders, and only its client knows that it has given up what one of them did late.
                count.grey += 1;
            } else {
                let why = "no two candidates can have believed that they hold it".to_owned();
                found.push(self.violation(Measure::Split, false, from.saturating_sub(20 * SECOND), to, why));
            }
        }
        count.must_not += self.twice().within(self.whole).iter().count();
        found
    }

    /// When two candidates may have believed that they hold the lock, each from its first word to the end of its lease.
    fn twice(&self) -> Spans {
        let lease = Self::ms(self.logs.header.times.lease);
        let mut beliefs: std::collections::BTreeMap<&str, Vec<(Micros, Micros)>> = std::collections::BTreeMap::new();
        let mut open: std::collections::BTreeMap<&str, Micros> = std::collections::BTreeMap::new();
        for line in self.logs.holds.iter().filter(|line| line.task == self.task) {
            let worker = line.worker.as_str();
            match line.event.as_str() {
                "acquired" | "renewed" => {
                    open.insert(worker, line.sent);
                    // A process that is stopped does not know when its lease is over.
                    beliefs.entry(worker).or_default().push((line.sent, line.at + lease));
                }
                "released" => {
                    open.remove(worker);
                    // What was believed of the time after it is not so.
                    if let Some((_, to)) = beliefs.get_mut(worker).and_then(|all| all.last_mut()) {
                        *to = (*to).min(line.at);
                    }
                }
                "lost" => {
                    if let Some(since) = open.remove(worker) {
                        beliefs.entry(worker).or_default().push((since, line.at));
                    }
                }
                _ => {}
            }
        }
        let sets: Vec<Spans> = beliefs.into_values().map(Spans::new).collect();
        let mut twice = self.truth.doubled.clone();
        for (at, one) in sets.iter().enumerate() {
            for other in sets.iter().skip(at + 1) {
                twice = twice.or(&one.and(other));
            }
        }
        twice
    }

    fn lost(&self, count: &mut Count) -> Vec<Violation> {
        let measure = Measure::SwitchesLost;
        let (shown, delay) = (self.shown(measure), self.tolerance.delay);
        let writes: Vec<Micros> =
            self.logs.switches.iter().filter(|line| line.task == self.task).map(|line| line.sent).collect();
        let mut found = Vec::new();
        for at in &self.truth.lost {
            let known = self.truth.wanted.and(&self.sight.clear).longer_than(self.tolerance.sees);
            // It knew of the switch, nothing kept it from that until the loss, and it did not begin anew.
            let since = known.last_before(*at).unwrap_or(0);
            let remembers =
                since + 20 * SECOND > *at && self.sight.runs.iter().any(|(from, to)| from < since && at < &to);
            let Some(sees) = self.sight.clear.first_from(*at) else { continue };
            let by = sees + delay;
            let written = writes.iter().any(|write| since < *write && *write < by);
            if since == 0 || !remembers || written || by > self.whole.1 || !self.sight.runs.contains(by) {
                count.grey += 1;
                continue;
            }
            count.must += 1;
            if !shown.touches(*at, by) {
                let why = format!("a switch that was on was gone, and nothing was shown for {:.2} s", seconds(by - at));
                found.push(self.violation(measure, true, *at, by, why));
            }
        }
        for (from, to) in shown.iter() {
            let entry = self.logs.header.tasks.get(self.task).map(|task| task.redis);
            let failed_over = self.logs.faults.iter().any(|fault| {
                matches!(fault.kind, Kind::Failover | Kind::KillMaster | Kind::FreezeMaster)
                    && fault.redis == entry
                    && fault.meant < from
                    && from < fault.healed + 20 * SECOND
            });
            let gone = self.truth.gone.iter().rev().find(|at| **at <= from).is_some_and(|at| {
                // That it was switched off just before may not have been seen.
                let seen = self.sight.clear.last_before(*at).unwrap_or(0).saturating_sub(self.tolerance.age);
                let rewritten = writes.iter().find(|write| *write > at).map(|write| write + self.tolerance.sees);
                let on = self.truth.wanted.touches(seen, *at);
                on && rewritten.is_none_or(|seen| from < seen || !self.sight.clear.contains(seen))
            });
            if !gone && !failed_over {
                let why = "no switch that was on was gone".to_owned();
                found.push(self.violation(measure, false, from.saturating_sub(10 * SECOND), to, why));
            }
        }
        found
    }

    /// What is shown of the lock must have been true within the time that a reading may take.
    fn held(&self, count: &mut Count) -> Vec<Violation> {
        let agent = self.logs.agents.get(self.agent);
        let shown = |what: char| {
            agent.map(|agent| agent.when('h', self.task, what, self.whole.1)).unwrap_or_default().and(&self.sight.asked)
        };
        let late = self.sight.unjudged.padded(0, self.tolerance.age);
        let mut found = Vec::new();
        for (what, opposite, word) in [('0', &self.truth.held, "free"), ('1', &self.truth.free, "held")] {
            let shown = shown(what);
            count.must_not += shown.iter().count();
            let wrong = shown.and(&opposite.without_beginnings(self.tolerance.age)).minus(&late);
            for (from, to) in wrong.iter() {
                let why = format!("shown as {word}, though for {:.2} s before it was not", seconds(self.tolerance.age));
                found.push(self.violation(Measure::Held, false, from.saturating_sub(self.tolerance.age), to, why));
            }
        }
        found
    }
}
