//! Each measure: when it must be shown, and its maximum value.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::judge::{Case, Count, Measure, Violation, seconds};
use super::read::{FaultLog, HostLine, SwitchLine};
use super::sight::changes_master;
use super::spans::Spans;
use crate::campaign::clock::{Micros, SECOND};
use crate::campaign::fault::Kind;

impl Case<'_> {
    /// A killed agent loses its state; the next one may be scraped long before it is ready.
    fn restarts(&self) -> Spans {
        Spans::new(self.sight.runs.within(self.whole).iter().map(|(from, _)| (from, from + 1)))
    }

    pub(super) fn down(&self, count: &mut Count) -> Vec<Violation> {
        let times = self.logs.header.times;
        let grace = Self::ms(times.grace);
        let sure: Vec<_> =
            self.truth.free.and(&self.truth.wanted).and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Down, &sure, grace, count);
        let possible = self.truth.held.or(&self.truth.unwanted).within(self.whole);
        // A hold or a switch that was too short to be seen counts as absent.
        let unseen = self.truth.held.or(&self.truth.unwanted).shorter_than(self.tolerance.unseen);
        // While nothing is seen, from one free reading to the next.
        let dark = self.sight.clear.within(self.whole).padded(SECOND, SECOND);
        let bridges = dark.iter().filter_map(|(from, to)| {
            let first = possible.first_from(from).filter(|at| *at < to)?;
            Some((first, possible.last_before(to)?))
        });
        // A slow answer is evidence for the instant of its request.
        let early = possible.padded(Self::ms(times.timeout), 0).and(&dark);
        let grows = possible.or(&unseen).or(&Spans::new(bridges)).or(&early);
        let settled = self.seen(&self.truth.held, Self::ms(times.settle) + self.tolerance.sees);
        let nothing =
            settled.or(&self.seen(&self.truth.unwanted, self.tolerance.sees)).or(&self.restarts());
        let bound = Bound::new(grows, nothing);
        self.tally(&bound, grace, &sure, count);
        found.extend(self.must_not(Measure::Down, grace, |at| bound.at(at), bound.nothing()));
        found
    }

    pub(super) fn unwanted(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.wind_down);
        let sure: Vec<_> =
            self.truth.held.and(&self.truth.unwanted).and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Unwanted, &sure, threshold, count);
        let not = self.truth.free.or(&self.truth.wanted);
        let nothing = self.seen(&not, self.tolerance.sees).or(&self.restarts());
        let bound = Bound::new(not.within(self.whole), nothing);
        self.tally(&bound, threshold, &sure, count);
        found.extend(self.must_not(
            Measure::Unwanted,
            threshold,
            |at| bound.since(at),
            bound.nothing(),
        ));
        found
    }

    pub(super) fn stalled(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.stale_after);
        let still = self
            .truth
            .held
            .and(&self.truth.wanted)
            .and(&self.truth.has_progress)
            .and(&self.sight.clear);
        let sure = still.cut_at(&self.truth.moved);
        let mut found = self.must(Measure::Stalled, &sure, threshold, count);
        let seen = Spans::new(self.truth.moved.iter().filter_map(|at| {
            let by = at + self.tolerance.sees;
            self.sight.clear.iter().any(|(from, to)| from <= *at && by <= to).then_some((*at, by))
        }));
        let last = |at: Micros| {
            let moves = self.truth.moved.partition_point(|moved| moved + self.tolerance.sees <= at);
            let before = self.truth.moved.get(..moves).unwrap_or_default();
            before
                .iter()
                .rev()
                .find(|moved| seen.contains(**moved))
                .copied()
                .unwrap_or(self.whole.0)
        };
        let over = Spans::new(seen.iter().map(|(_, by)| (by, by + 1)));
        let quiet = self
            .truth
            .moved
            .windows(2)
            .filter(|pair| matches!(pair, [a, b] if b - a < threshold && b - a > SECOND))
            .count();
        count.must_not += quiet;
        found.extend(self.must_not(
            Measure::Stalled,
            threshold,
            |at| at.saturating_sub(last(at)),
            &over,
        ));
        found
    }

    pub(super) fn blind(&self, count: &mut Count) -> Vec<Violation> {
        let threshold = Self::ms(self.logs.header.times.blind_after);
        let sure: Vec<_> = self.sight.blind.iter().collect();
        let mut found = self.must(Measure::Blind, &sure, threshold, count);
        // A clear view for a moment between two delays proves nothing.
        let clear = self.sight.clear.longer_than(self.tolerance.sees);
        let nothing = clear.or(&self.restarts());
        let reading = Self::ms(self.logs.header.times.interval + self.logs.header.times.timeout);
        let bound =
            |at: Micros| clear.last_before(at).map_or(Micros::MAX / 2, |end| at - end + reading);
        let tallied = Bound::new(nothing.within(self.whole), nothing);
        self.tally(&tallied, threshold.saturating_sub(reading), &sure, count);
        let over = clear.without_beginnings(self.tolerance.sees);
        found.extend(self.must_not(Measure::Blind, threshold, bound, &over));
        found
    }

    pub(super) fn split(&self, count: &mut Count) -> Vec<Violation> {
        let sure: Vec<_> = self.truth.doubled.and(&self.sight.clear).iter().collect();
        let mut found = self.must(Measure::Split, &sure, 0, count);
        let twice = self.twice().padded(0, Self::ms(self.logs.header.times.lease) + 20 * SECOND);
        let said = self.said(Measure::Split);
        for (from, to) in self.shown(Measure::Split).iter() {
            // An agent that was stopped continues with what it reported, or would have reported,
            // before.
            let goes_on = said.iter().find(|(begin, end)| *begin <= from && from < *end);
            let began = self.answered_before(goes_on.map_or(from, |(begin, _)| begin));
            if twice.touches(began.saturating_sub(self.tolerance.age), from) {
                continue;
            }
            if self.truth.rival.padded(0, self.tolerance.age).touches(began, from + 1) {
                // Two masters do show two holders. Only the client knows that it has given up a
                // hold on one of them late.
                count.grey += 1;
            } else {
                let why = "no two candidates can have believed that they hold it".to_owned();
                found.push(self.violation(
                    Measure::Split,
                    false,
                    from.saturating_sub(20 * SECOND),
                    to,
                    why,
                ));
            }
        }
        count.must_not += self.twice().within(self.whole).iter().count();
        found
    }

    /// The newest answer of the agent before `at`.
    fn answered_before(&self, at: Micros) -> Micros {
        let scrapes = self
            .logs
            .agents
            .get(self.agent)
            .map(|agent| agent.scrapes.as_slice())
            .unwrap_or_default();
        let before = scrapes.partition_point(|scrape| scrape.received < at).checked_sub(1);
        before.and_then(|before| scrapes.get(before)).map_or(at, |scrape| scrape.received)
    }

    /// When two candidates may have believed to hold the lock, each from its first report until the
    /// end of its lease.
    fn twice(&self) -> Spans {
        let lease = Self::ms(self.logs.header.times.lease);
        // A restarted process is another candidate: from Redis alone, the kill of the previous one
        // cannot be seen.
        let mut beliefs: BTreeMap<(&str, usize), Vec<(Micros, Micros)>> = BTreeMap::new();
        let mut open: BTreeMap<(&str, usize), Micros> = BTreeMap::new();
        for line in self.logs.holds.iter().filter(|line| line.task == self.task) {
            let killed = |fault: &&FaultLog| {
                fault.kind == Kind::HostKill
                    && fault.target.as_deref() == Some(&line.worker)
                    && fault.meant < line.sent
            };
            let worker = (line.worker.as_str(), self.logs.faults.iter().filter(killed).count());
            match line.event.as_str() {
                "acquired" | "renewed" => {
                    open.insert(worker, line.sent);
                    // A stopped process does not notice that its lease ends.
                    beliefs.entry(worker).or_default().push((line.sent, line.at + lease));
                }
                "released" => {
                    open.remove(&worker);
                    // A belief that reached beyond this instant was wrong.
                    if let Some((_, to)) = beliefs.get_mut(&worker).and_then(|all| all.last_mut()) {
                        *to = (*to).min(line.at);
                    }
                }
                "lost" => {
                    if let Some(since) = open.remove(&worker) {
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

    pub(super) fn lost(&self, count: &mut Count) -> Vec<Violation> {
        let measure = Measure::SwitchesLost;
        let (shown, delay) = (self.shown(measure), self.tolerance.delay);
        let writes: Vec<Micros> = self
            .logs
            .switches
            .iter()
            .filter(|line| line.task == self.task)
            .map(|line| line.sent)
            .collect();
        let mut found = Vec::new();
        for at in &self.truth.lost {
            let known = self.truth.wanted.and(&self.sight.clear).longer_than(self.tolerance.sees);
            // It knew of the switch, its view was clear until the loss, and it did not restart
            // until it had to report the loss.
            let since = known.last_before(*at).unwrap_or(0);
            // When it has had a clear view for the maximum time until a report.
            let later = self.sight.clear.and(&Spans::one(*at, self.whole.1));
            let Some(sees) = later.longer_than(delay).first_from(*at) else { continue };
            let by = sees + delay;
            let remembers = since + 20 * SECOND > *at
                && self.sight.runs.iter().any(|(from, to)| from < since && by < to);
            let written = writes.iter().any(|write| since < *write && *write < by);
            if since == 0 || !remembers || written || by > self.whole.1 {
                count.grey += 1;
                continue;
            }
            count.must += 1;
            if !shown.touches(*at, by) {
                let why = format!(
                    "a switch that was on was gone, and nothing was shown for {:.2} s",
                    seconds(by - at)
                );
                found.push(self.violation(measure, true, *at, by, why));
            }
        }
        for (from, to) in shown.iter() {
            let entry = self.logs.header.tasks.get(self.task).map(|task| task.redis);
            let failed_over = self.logs.faults.iter().any(|fault| {
                changes_master(fault.kind)
                    && fault.redis == entry
                    && fault.meant < from
                    && from < fault.healed + 20 * SECOND
            });
            let gone = self.truth.gone.iter().rev().find(|at| **at <= from).is_some_and(|at| {
                // The agent may not have seen a switch-off just before.
                let seen = self
                    .sight
                    .clear
                    .last_before(*at)
                    .unwrap_or(0)
                    .saturating_sub(self.tolerance.age);
                let rewritten = writes
                    .iter()
                    .find(|write| *write > at)
                    .map(|write| write + self.tolerance.sees);
                // The witness may have seen a switch-on just before too late, or only once.
                let written = |line: &SwitchLine| {
                    line.task == self.task && line.on && seen <= line.at && line.sent <= *at
                };
                let on =
                    self.truth.wanted.touches(seen, *at) || self.logs.switches.iter().any(written);
                on && rewritten.is_none_or(|seen| from < seen || !self.sight.clear.contains(seen))
            });
            if !gone && !failed_over {
                let why = "no switch that was on was gone".to_owned();
                found.push(self.violation(
                    measure,
                    false,
                    from.saturating_sub(10 * SECOND),
                    to,
                    why,
                ));
            }
        }
        found
    }

    /// The displayed state of the lock must have been true within the maximum duration of a
    /// reading.
    pub(super) fn held(&self, count: &mut Count) -> Vec<Violation> {
        let agent = self.logs.agents.get(self.agent);
        let shown = |what: char| {
            agent
                .map(|agent| agent.when('h', self.task, what, self.whole.1))
                .unwrap_or_default()
                .and(&self.sight.asked)
        };
        let late = self.sight.unjudged.padded(0, self.tolerance.age);
        // Between two looks the lock may have been lost and taken again, as after a flush: only the
        // worker knows.
        let taken = |line: &&HostLine| line.task == self.task && line.event == "acquired";
        let taken = self.logs.holds.iter().filter(taken).map(|line| (line.sent, line.at + 1));
        let held = self.truth.held.minus(&Spans::new(taken));
        let mut found = Vec::new();
        for (what, opposite, word) in [('0', &held, "free"), ('1', &self.truth.free, "held")] {
            let shown = shown(what);
            count.must_not += shown.iter().count();
            let wrong = shown.and(&opposite.without_beginnings(self.tolerance.age)).minus(&late);
            for (from, to) in wrong.iter() {
                let why = format!(
                    "shown as {word}, though for {:.2} s before it was not",
                    seconds(self.tolerance.age)
                );
                found.push(self.violation(
                    Measure::Held,
                    false,
                    from.saturating_sub(self.tolerance.age),
                    to,
                    why,
                ));
            }
        }
        found
    }
}
