//! Plays a timeline: advances the world, the agent's reading of it and the state from one virtual
//! instant to the next.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lockwatch_judge::event::Event;
use lockwatch_judge::input::Input;
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::state::State;

use super::checks::{agent_ms, event_words, field};
use super::fleet::Fleet;
use super::script::{Check, Line, Script, What};
use super::setup::Setup;
use super::text::{Found, seconds};
use super::watcher::Watcher;
use super::world::mono;
use crate::invariants::Invariants;

/// Snapshots are made once a second, as the engine does.
const LOOK_EVERY_MS: u64 = 1_000;
/// Number of failures after which a timeline is given up.
const ENOUGH_FAILURES: usize = 4;
/// Number of recent events shown with a failure.
const EVENTS_SHOWN: usize = 15;

/// The state of a timeline while it is played.
struct Play<'a> {
    script: &'a Script,
    /// All instants named by the script.
    instants: BTreeSet<u64>,
    /// Positions of the lines with checks.
    checking: Vec<usize>,
    setup: Setup,
    fleet: Fleet,
    watcher: Watcher,
    state: State,
    events: Vec<Event>,
    /// Events before this position were checked by a line of an earlier instant.
    window_from: usize,
    window_checked: Option<(u64, usize)>,
    invariants: Invariants,
    became: Vec<bool>,
    failures: Vec<String>,
}

/// Plays `script`; returns its failures as text.
///
/// # Errors
/// A mistake in the timeline itself.
pub(crate) fn play(script: &Script) -> Result<Vec<String>, String> {
    let mut setup = Setup::default();
    for (number, words) in &script.config {
        setup.set(&strs(words)).map_err(|why| format!("line {number}: {why}"))?;
    }
    let checks = |line: &Line| !matches!(line.what, What::Verb(_));
    let mut play = Play {
        script,
        instants: script.lines.iter().flat_map(|line| [line.from, line.until]).collect(),
        checking: (0..script.lines.len())
            .filter(|at| script.lines.get(*at).is_some_and(checks))
            .collect(),
        setup,
        fleet: Fleet::new(),
        watcher: Watcher::new(),
        state: State::new(),
        events: Vec::new(),
        window_from: 0,
        window_checked: None,
        invariants: Invariants::default(),
        became: vec![false; script.lines.len()],
        failures: Vec::new(),
    };
    play.step(0, Input::Config(play.setup.spec()));
    let mut now = 0;
    loop {
        play.instant(now)?;
        match play.next_instant(now) {
            Some(next) if play.failures.len() < ENOUGH_FAILURES => now = next,
            _ => return Ok(play.failures),
        }
    }
}

impl Play<'_> {
    fn next_instant(&self, now: u64) -> Option<u64> {
        let own = [self.watcher.next_event(), (now / LOOK_EVERY_MS + 1) * LOOK_EVERY_MS];
        let named = self.instants.range(now + 1..).next().copied();
        let all = own.into_iter().chain(named).chain(self.fleet.next_event());
        all.filter(|at| *at > now && *at <= self.script.end).min()
    }

    /// Plays one instant: the world advances, the verbs act, samples arrive, then the checks run.
    fn instant(&mut self, now: u64) -> Result<(), String> {
        let script = self.script;
        self.fleet.advance(now);
        let first = script.lines.partition_point(|line| line.from < now);
        for line in script.lines.iter().skip(first).take_while(|line| line.from == now) {
            if let What::Verb(words) = &line.what {
                self.verb(now, &strs(words))
                    .map_err(|why| format!("line {}: {why}", line.number))?;
            }
        }
        for input in self.watcher.run(now, &self.fleet, &self.setup) {
            self.step(now, input);
        }
        if !self.watcher.paused(now) {
            self.look(now)?;
        }
        Ok(())
    }

    fn verb(&mut self, now: u64, words: &[&str]) -> Result<(), String> {
        if let ["reload", rest @ ..] = words {
            self.setup.set(rest)?;
            self.setup.epoch += 1;
            self.step(now, Input::Config(self.setup.spec()));
            return Ok(());
        }
        match self.watcher.fault(now, words) {
            Some(result) => result,
            None => self.fleet.act(now, words),
        }
    }

    fn step(&mut self, now: u64, input: Input) {
        let events = self.state.step(mono(now), input);
        self.events.extend(events);
    }

    fn look(&mut self, now: u64) -> Result<(), String> {
        let script = self.script;
        if now.is_multiple_of(LOOK_EVERY_MS) || self.instants.contains(&now) {
            self.step(now, Input::Tick);
        }
        let snapshot = self.state.snapshot(mono(now));
        let broken = self.invariants.check(&snapshot, &self.setup.spec());
        self.failures
            .extend(broken.iter().map(|what| format!("at {}: {what}", seconds(now as i64))));
        for index in self.checking.clone() {
            if let Some(line) =
                script.lines.get(index).filter(|line| line.from <= now && now <= line.until)
            {
                self.judge(now, index, line, &snapshot)?;
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        now: u64,
        index: usize,
        line: &Line,
        snapshot: &Snapshot,
    ) -> Result<(), String> {
        let (What::Expect(checks)
        | What::Becomes(checks)
        | What::Always(checks)
        | What::Never(checks)) = &line.what
        else {
            return Ok(());
        };
        let unmet = self
            .unmet(now, checks, snapshot)
            .map_err(|why| format!("line {}: {why}", line.number))?;
        let failure = match &line.what {
            What::Expect(_) | What::Always(_) => (!unmet.is_empty()).then(|| unmet.join("; ")),
            What::Never(_) => unmet.is_empty().then(|| "it is so".to_owned()),
            _ if now == line.from => unmet.is_empty().then(|| "it is so already".to_owned()),
            _ => {
                let became = self.became.get_mut(index);
                let so = became.is_some_and(|so| {
                    *so |= unmet.is_empty();
                    *so
                });
                (now == line.until && !so)
                    .then(|| format!("it never became so; {}", unmet.join("; ")))
            }
        };
        if let Some(found) = failure {
            self.report(now, line, &found);
        }
        Ok(())
    }

    /// The failed checks, as text.
    fn unmet(
        &mut self,
        now: u64,
        checks: &[Check],
        snapshot: &Snapshot,
    ) -> Result<Vec<String>, String> {
        let mut unmet = Vec::new();
        for check in checks {
            match check {
                Check::Field { name, want } => {
                    let found = seen(snapshot, name)?;
                    if !want.holds(&found) {
                        unmet.push(format!("{name} is {}", found.show()));
                    }
                }
                Check::Event { count, words } => {
                    let found = self.count_events(now, words);
                    if !count.map_or(found > 0, |count| found == count) {
                        unmet.push(format!("{found} × {}", words.join(" ")));
                    }
                }
            }
        }
        Ok(unmet)
    }

    /// Number of events since the event checks of an earlier instant that contain all of `words`.
    fn count_events(&mut self, now: u64, words: &[String]) -> u64 {
        match self.window_checked {
            Some((at, _)) if at == now => {}
            earlier => {
                self.window_from = earlier.map_or(0, |(_, end)| end);
                self.window_checked = Some((now, self.events.len()));
            }
        }
        let matching = self.events.iter().skip(self.window_from).filter(|event| {
            let shown = event_words(event);
            shown.first() == words.first() && words.iter().all(|word| shown.contains(word))
        });
        matching.count() as u64
    }

    fn report(&mut self, now: u64, line: &Line, found: &str) {
        let mut text =
            format!("line {}: at {}: wanted `{}`\n", line.number, seconds(now as i64), line.text);
        let _ = writeln!(text, "    found: {found}");
        for event in self.events.iter().skip(self.events.len().saturating_sub(EVENTS_SHOWN)) {
            let _ = writeln!(
                text,
                "    {:>10}  {}",
                seconds(agent_ms(event.at)),
                event_words(event).join(" ")
            );
        }
        self.failures.push(text);
    }
}

/// The field `name` of the watched task; a task that was removed has only the field `task`.
fn seen(snapshot: &Snapshot, name: &str) -> Result<Found, String> {
    let view = snapshot.tasks.find("outbound");
    match (view, snapshot.stores.first()) {
        (Some(view), Some(redis)) => field(view, redis, snapshot.at, name),
        _ if name == "task" => Ok(Found::Word("absent".to_owned())),
        _ => Ok(Found::Word("(there is no such task)".to_owned())),
    }
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
