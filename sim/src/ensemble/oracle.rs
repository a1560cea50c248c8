//! What the agent says, against what is true.
//!
//! A reading must have been true at some instant: that a lock is free that users want, and that
//! work stands still, at the instant of the reading; the rest within the time for which a server
//! without a majority goes on. Verdicts must follow in time while all is well.

use std::collections::VecDeque;
use std::sync::Arc;

use lockwatch_judge::event::{EventKind, Subject};
use lockwatch_judge::input::{Input, Outcome, Sample};
use lockwatch_judge::reading::{GuardReading, LockReading, SwitchesReading, TaskReading, wanted};
use lockwatch_judge::spec::{TaskSpec, WantedSource, WatchSpec};
use lockwatch_judge::time::ServerTime;
use lockwatch_judge::verdict::{Verdict, Wanted};

use super::clients::{Clients, Truth};
use super::coverage::{EnsembleCoverage, Seen};
use super::net::{Agent, mono, truly};
use super::servers::LONELY_MS;

/// So long before it asks, a session that was just granted may have been asked for, in
/// milliseconds.
const FRESH_MS: u64 = 260;
/// All must have been well for so long before something must be shown, in milliseconds.
const WELL_MS: u64 = 25_000;
/// What a reading costs at most while all is well: an interval, and the pause between two proofs.
const LATE_MS: u64 = 6_000;
/// Readings with less time between them show what happened, in milliseconds.
const DENSE_MS: u64 = 5_500;

#[derive(Debug)]
pub(crate) struct Oracle {
    spec: Arc<WatchSpec>,
    pub(crate) violation: Option<(u64, String)>,
    /// Since when all has been well.
    well: Option<u64>,
    restored_at: Option<u64>,
    /// The newest number of a holder, and when each task was last read.
    numbers: Vec<String>,
    read: Vec<VecDeque<u64>>,
    times: Option<(u64, ServerTime)>,
    lines: Vec<Vec<u8>>,
    recent: VecDeque<String>,
}

/// What was true at any instant from `from` to `to`.
fn during(truths: &[Truth], from: u64, to: u64) -> &[Truth] {
    let first = truths.partition_point(|truth| truth.at <= from).saturating_sub(1);
    let last = truths.partition_point(|truth| truth.at <= to);
    &truths[first..last.max(first + 1).min(truths.len())]
}

impl Oracle {
    pub(crate) fn new(spec: Arc<WatchSpec>) -> Oracle {
        let count = spec.tasks.len();
        Oracle {
            spec,
            violation: None,
            well: None,
            restored_at: None,
            numbers: vec![String::new(); count],
            read: vec![VecDeque::new(); count],
            times: None,
            lines: Vec::new(),
            recent: VecDeque::new(),
        }
    }

    /// The newest readings, for display.
    pub(crate) fn recent(&self) -> Vec<String> {
        self.recent.iter().cloned().collect()
    }

    fn blame(&mut self, now: u64, what: String) {
        self.violation.get_or_insert((now, what));
    }

    pub(crate) fn restored(&mut self, now: u64) {
        self.restored_at = Some(now);
        self.numbers.iter_mut().for_each(String::clear);
        self.well = None;
    }

    /// Whether the data went back at most so long before `now`.
    fn is_just_restored(&self, now: u64, ms: u64) -> bool {
        self.restored_at.is_some_and(|at| now.saturating_sub(at) < ms)
    }

    /// Checks what the agent has taken in since.
    pub(crate) fn inputs(
        &mut self,
        agent: &mut Agent,
        clients: &Clients,
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        for input in std::mem::take(&mut agent.inputs) {
            if let Input::Sample(sample) = input {
                self.sample(&sample, clients, coverage, now);
            }
        }
        for event in std::mem::take(&mut agent.events) {
            let name = match &event.subject {
                Subject::Task(spec) => spec.name.to_string(),
                Subject::Store(_, name) => name.to_string(),
            };
            let may_be_lost = self.is_just_restored(now, 300_000);
            match &event.kind {
                EventKind::LockLost { .. } | EventKind::SwitchesLost { .. } if !may_be_lost => {
                    self.blame(now, format!("{name}: {:?}, and no data were lost", event.kind));
                }
                EventKind::SplitBegan { .. } => {
                    self.blame(now, format!("{name}: {:?}", event.kind))
                }
                EventKind::Acquired { .. } => coverage.saw(Seen::TakenOver),
                _ => {}
            }
        }
        if agent.connections() > 3 {
            self.blame(now, format!("{} connections", agent.connections()));
        }
    }

    fn sample(
        &mut self,
        sample: &Sample,
        clients: &Clients,
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        let Outcome::Read { attestation, readings } = &sample.outcome else {
            self.note(format!("{now}: {:?}", sample.outcome));
            return;
        };
        let sent = truly(sample.sent);
        if let Some((before, time)) = self.times.replace((sent, attestation.first)) {
            let went = i64::try_from(sent).unwrap_or(0) - i64::try_from(before).unwrap_or(0);
            let off = attestation.first.since_ms(time) - went;
            if off != 0 && off.abs() < 10_000 {
                self.blame(now, format!("the ensemble's clock steps by {off} ms"));
            }
        }
        let line = attestation.generation.as_ref().map(|it| it.history.clone()).unwrap_or_default();
        if !self.lines.contains(&line) {
            if !self.lines.is_empty() {
                coverage.saw(Seen::LineChanged);
            }
            if !self.lines.is_empty() && !self.is_just_restored(now, 120_000) {
                self.blame(now, "data are said to have gone back".to_owned());
            }
            self.lines.push(line);
        }
        for (task, reading) in readings {
            coverage.readings += 1;
            let task = usize::try_from(task.0).unwrap_or(0);
            self.note(format!(
                "{now}: sent {sent} by {:?} {task} {:?}",
                sample.node, reading.guard
            ));
            self.reading(task, reading, sent, &clients.truths[task], coverage, now);
        }
    }

    fn note(&mut self, line: String) {
        self.recent.push_back(line);
        if self.recent.len() > 30 {
            self.recent.pop_front();
        }
    }

    fn reading(
        &mut self,
        task: usize,
        found: &TaskReading,
        sent: u64,
        truths: &[Truth],
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        let spec = Arc::clone(&self.spec.tasks[task]);
        let GuardReading::Lock { lock, .. } = &found.guard else { return };
        let past = during(truths, sent.saturating_sub(LONELY_MS + 8_000), now);
        let present = during(truths, sent.saturating_sub(FRESH_MS), now);
        let is_off = matches!(&found.parts.switches, Some(SwitchesReading::Read { switches, .. })
            if wanted(switches) == Wanted::No);
        match lock {
            LockReading::Free => {
                let is_wanted = spec.may_be_wanted() && !is_off;
                if is_wanted {
                    coverage.saw(Seen::WantedFree);
                }
                let states = if is_wanted { present } else { past };
                if states.iter().all(|truth| truth.holder.is_some()) {
                    self.blame(now, format!("t{task} is read as free, sent {sent}"));
                }
            }
            LockReading::Held(held) => {
                let thread = held.holders.first().and_then(|holder| holder.thread.clone());
                let number = String::from_utf8_lossy(&thread.unwrap_or_default()).into_owned();
                if past.iter().all(|truth| truth.holder.as_deref() != Some(&number)) {
                    self.blame(now, format!("t{task} is read as held by {number}, sent {sent}"));
                }
                // Also no older state after a newer one.
                if number < self.numbers[task] && !self.is_just_restored(now, 60_000) {
                    self.blame(
                        now,
                        format!("t{task} goes back from {} to {number}", self.numbers[task]),
                    );
                }
                self.numbers[task] = number;
            }
            LockReading::Unknown(_) => return,
        }
        self.read[task].push_back(sent);
        if self.read[task].len() > 400 {
            self.read[task].pop_front();
        }
    }

    /// Checks what the agent shows each second.
    pub(crate) fn second(
        &mut self,
        is_well: bool,
        agent: &mut Agent,
        clients: &Clients,
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        self.well = if is_well { Some(self.well.unwrap_or(now)) } else { None };
        if agent.sessions > now / 400 + 40 {
            self.blame(now, format!("{} sessions were asked for", agent.sessions));
        }
        if agent.paused_until > now {
            return;
        }
        let is_live = self.well.is_some_and(|since| now - since > WELL_MS);
        for view in &agent.snapshot(now).tasks {
            coverage.verdict(view.verdict);
            let task = self.spec.tasks.iter().position(|spec| spec.name == view.spec.name);
            let task = task.expect("a task of the plan");
            // A lost "on" counts until its user writes the switch again.
            if self.is_just_restored(now, 150_000) || !view.wanting.lost_users.is_empty() {
                continue;
            }
            let well_ms = self.well.map_or(0, |since| now - since);
            let facts = Facts::of(&view.spec, &clients.truths[task], now).within(well_ms);
            if view.verdict == Verdict::Unknown && is_live && now > 60_000 {
                self.blame(now, format!("t{task} is unknown: {:?}", view.unknown));
            }
            let at = view.last_reading.map_or(0, truly);
            let seen = Facts::of(&view.spec, &clients.truths[task], at);
            if view.last_reading.is_none() || view.last_reading > Some(mono(now)) {
                continue;
            }
            self.safe(task, view.verdict, view.unknown.is_none(), &seen, at, now);
            if is_live {
                coverage.live += 1;
                self.live(task, view.verdict, &facts, now);
            }
        }
    }

    /// No alert without a reason, as of the newest reading, which was sent at `at`.
    fn safe(
        &mut self,
        task: usize,
        verdict: Verdict,
        is_known: bool,
        facts: &Facts,
        at: u64,
        now: u64,
    ) {
        let spec = Arc::clone(&self.spec.tasks[task]);
        // What happened between two readings that are far apart is not known to anybody.
        let window = at.saturating_sub(spec.grace_ms + 30_000);
        let times: Vec<u64> = self.read[task].iter().copied().filter(|it| *it >= window).collect();
        let is_dense = times.windows(2).all(|two| two[1].saturating_sub(two[0]) < DENSE_MS)
            && times.first().is_some_and(|first| *first < window + DENSE_MS);
        if !is_dense || !is_known {
            return;
        }
        let wrong = match verdict {
            Verdict::Down => facts.gap_ms + 1_500 < spec.grace_ms,
            // The first free reading is confirmed by a second one.
            Verdict::Stalled if facts.is_held => {
                let limit_ms = spec.progress.as_ref().map_or(u64::MAX, |it| it.stale_after_ms);
                facts.still_ms + 1_500 < limit_ms
            }
            _ => false,
        };
        if wrong {
            let name = verdict.name();
            self.blame(now, format!("t{task} is {name} as of {at}: {facts:?}"));
        }
    }

    /// No missing alert, and none that stays.
    fn live(&mut self, task: usize, verdict: Verdict, facts: &Facts, now: u64) {
        let spec = Arc::clone(&self.spec.tasks[task]);
        let limit_ms = spec.progress.as_ref().map_or(u64::MAX, |it| it.stale_after_ms);
        let expected: &[Verdict] = if facts.is_steady(LATE_MS) {
            match (facts.is_held, facts.is_wanted) {
                (false, Wanted::Yes) if facts.alone_ms > spec.grace_ms + LATE_MS => {
                    &[Verdict::Down]
                }
                (false, Wanted::Yes) => &[Verdict::Pending, Verdict::Down],
                (false, _) => &[Verdict::Stopped],
                (true, Wanted::No) if facts.unwanted_ms > spec.wind_down_ms + LATE_MS => {
                    &[Verdict::Unwanted]
                }
                (true, Wanted::No) => &[Verdict::Unwanted, Verdict::Running],
                (true, _)
                    if facts.still_ms.min(facts.since_ms) > limit_ms.saturating_add(LATE_MS) =>
                {
                    &[Verdict::Stalled]
                }
                (true, _) if facts.held_ms > spec.settle_ms + LATE_MS => {
                    &[Verdict::Running, Verdict::Stalled]
                }
                (true, _) => &[Verdict::Running, Verdict::Stalled, Verdict::Down],
            }
        } else {
            return;
        };
        if !expected.contains(&verdict) {
            let name = verdict.name();
            self.blame(now, format!("t{task} is {name}, and not {expected:?}: {facts:?}"));
        }
    }
}

/// What is true of a task at an instant.
#[derive(Debug)]
struct Facts {
    is_held: bool,
    is_wanted: Wanted,
    /// Since the newest change of holder or wish.
    since_ms: u64,
    /// How long it has been free and wanted without a break.
    alone_ms: u64,
    /// The same, and holds that are too short to end a gap count.
    gap_ms: u64,
    held_ms: u64,
    unwanted_ms: u64,
    /// How long the holder's work has stood still.
    still_ms: u64,
}

impl Facts {
    fn of(spec: &TaskSpec, truths: &[Truth], at: u64) -> Facts {
        let before = &truths[..truths.partition_point(|truth| truth.at <= at).max(1)];
        // Work changes each second, so these are minutes.
        let before = &before[before.len().saturating_sub(400)..];
        let wish = |truth: &Truth| match spec.wanted.as_ref().map(|wanted| &wanted.source) {
            None => Wanted::Unset,
            Some(WantedSource::Always) => Wanted::Yes,
            Some(_) if truth.wanted == Some(true) => Wanted::Yes,
            Some(_) => Wanted::No,
        };
        // Since when all newer states have been so.
        let since = |is_so: &dyn Fn(&Truth) -> bool| {
            let from = before.iter().rposition(|truth| !is_so(truth)).map_or(0, |last| last + 1);
            before.get(from).map_or(0, |truth| at.saturating_sub(truth.at))
        };
        let last = before.last().expect("there is a first truth");
        let mut gap_since = None;
        for (position, truth) in before.iter().enumerate() {
            let end = before.get(position + 1).map_or(at, |next| next.at);
            let lasts_ms = hold_ms(before, position, at);
            match (&truth.holder, wish(truth)) {
                (_, wish) if wish != Wanted::Yes && end - truth.at >= 1_500 => gap_since = None,
                (Some(_), _) if lasts_ms > spec.settle_ms + DENSE_MS + 1_000 => gap_since = None,
                _ => drop(gap_since.get_or_insert(truth.at)),
            }
        }
        Facts {
            is_held: last.holder.is_some(),
            is_wanted: wish(last),
            since_ms: since(&|it| it.holder == last.holder && wish(it) == wish(last)),
            alone_ms: since(&|it| it.holder.is_none() && wish(it) == Wanted::Yes),
            gap_ms: gap_since.map_or(0, |since| at.saturating_sub(since)),
            held_ms: since(&|it| it.holder.is_some()),
            unwanted_ms: since(&|it| wish(it) == Wanted::No && it.holder.is_some()),
            still_ms: since(&|it| it.progress == last.progress && it.holder == last.holder),
        }
    }

    /// As far as it could be read for so long.
    fn within(self, ms: u64) -> Facts {
        Facts {
            alone_ms: self.alone_ms.min(ms),
            held_ms: self.held_ms.min(ms),
            unwanted_ms: self.unwanted_ms.min(ms),
            still_ms: self.still_ms.min(ms),
            ..self
        }
    }

    /// Whether nothing but the work has changed for so long.
    fn is_steady(&self, ms: u64) -> bool {
        self.since_ms > ms
    }
}

/// How long the lock has been held, by anybody, around a state.
fn hold_ms(truths: &[Truth], position: usize, at: u64) -> u64 {
    let is_held = |truth: &&Truth| truth.holder.is_some();
    let from = truths[..=position].iter().rev().take_while(is_held).last();
    let end = truths[position..].iter().find(|truth| truth.holder.is_none());
    from.map_or(0, |from| end.map_or(at, |end| end.at).saturating_sub(from.at))
}
