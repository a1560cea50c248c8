//! Periodic tasks, against the runs as they really were: no run is overdue that began, none is
//! missed for long, and the same of those that last too long; and what is shown of the last one.

use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::RunsSpec;
use lockwatch_judge::time::Mono;

use super::state::Oracle;
use crate::agent::MONO_MS;
use crate::truth::{Cause, LockState, Past};
use crate::world::{TrueRun, World};

/// Tolerance in milliseconds for answers and ticks.
const SLACK_MS: u64 = 1_300;

impl Oracle {
    /// A lock is read so often, and its first free reading is confirmed.
    fn noise_ms(&self) -> u64 {
        2 * self.interval_ms + SLACK_MS
    }

    pub(super) fn check_runs(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let (Some(spec), Some(real)) = (view.spec.runs(), &world.tasks[task].runs) else { return };
        let (now, home) = (at.ms() - MONO_MS, world.homes[task]);
        let sees_since = self.visible_since(task, world).map(|since| since + self.recovery_ms());
        // Changed thresholds apply from the next reading.
        if now < self.tasks[task].configured_at + self.noise_ms() {
            return;
        }
        let is = |problem| task_finding(problem, view, at).is_positive();
        let past = &world.tasks[task].past[home];
        let runs: Vec<&TrueRun> = real.newest.iter().filter(|run| run.server == home).collect();
        let (noise_ms, interval_ms) = (self.noise_ms(), self.interval_ms);
        let is_visible = |run: &TrueRun| {
            sees_since.is_some_and(|since| since <= run.began)
                && run.began + noise_ms <= now
                && lasted_ms(run, past, now) >= 2 * interval_ms + SLACK_MS
        };
        let newest_seen = runs.iter().rev().find(|run| is_visible(run)).map(|run| run.began);
        let seen = self.tasks[task].run_seen.max(newest_seen);
        self.tasks[task].run_seen = seen;
        let mut wrong = Vec::new();
        if is(Problem::Overdue) {
            wrong.extend(self.false_overdue(task, view, (&runs, past), now, world));
        } else if let Some(since) = sees_since {
            wrong.extend(self.missed_overdue(task, spec, since, now, world));
        }
        if let (Some(since), Some(max_ms)) = (sees_since, spec.max_ms) {
            let done = runs.last().is_some_and(|run| run.done.is_some());
            let too_long = overran(past, done, (since, now), max_ms, self.noise_ms());
            if too_long == Some(!is(Problem::Overran)) {
                wrong.push(format!(
                    "whether it lasts too long is shown as {:?}",
                    !too_long.unwrap_or_default()
                ));
            }
        }
        if let Some(run) = runs.iter().rev().find(|run| is_visible(run) && run.done.is_some())
            && run.done.is_some_and(|done| done + self.noise_ms() < now)
        {
            wrong.extend(self.wrong_last(view, run));
        }
        for what in wrong {
            let what = format!(
                "{}: {what}: {:?}, newest runs {:?}, seen {seen:?}, visible {sees_since:?}",
                view.spec.name,
                view.periodic(),
                runs.iter().rev().take(3).collect::<Vec<_>>()
            );
            self.blame(world, "runs", what);
        }
    }

    /// One is said to be overdue. None may have begun in time that was seen; and one that came
    /// when it was expected, and fell into a time without readings, is waited for a period longer.
    fn false_overdue(
        &self,
        task: usize,
        view: &TaskView,
        (runs, past): (&[&TrueRun], &Past),
        now: u64,
        world: &World,
    ) -> Option<String> {
        let (spec, noise_ms) = (view.spec.runs()?, self.noise_ms());
        let limit_ms = spec.every_ms + spec.late_after_ms - noise_ms;
        let from = self.tasks[task].began;
        if now < from + limit_ms {
            return Some(format!("overdue {} ms after the agent began", now - from));
        }
        let seen = self.tasks[task].run_seen?;
        if now < seen + limit_ms {
            return Some(format!("overdue {} ms after a run began", now - seen));
        }
        // What else may have hidden a run.
        let is_calm = world.rulers.last().is_none_or(|(at, _)| *at < seen)
            && world.moved_at[task] < seen
            && !world.generations.iter().any(|it| it.at >= seen);
        let expected = seen + spec.every_ms - spec.late_after_ms + noise_ms
            ..seen + spec.every_ms + spec.late_after_ms - noise_ms;
        // Longer than three intervals, the least time without readings that counts, whatever of
        // it was spent on a request that failed.
        let hidden_ms = 4 * self.interval_ms + self.timeout_ms + SLACK_MS;
        let run = runs.iter().rev().find(|run| expected.contains(&run.began))?;
        let counts = is_calm && lasted_ms(run, past, now) >= hidden_ms;
        // Some replies may have come though others were dropped. If the agent shows this run, then
        // it was not hidden, and the next one is awaited from there.
        let shown = view.periodic()?.began.map(|began| began.ms().saturating_sub(MONO_MS));
        let due = match shown {
            Some(began) if began + noise_ms >= run.began => run.began + limit_ms,
            _ => seen + limit_ms + spec.every_ms,
        };
        (counts && now < due).then(|| {
            format!("overdue though a run began {} ms after the last one seen", run.began - seen)
        })
    }

    /// None is overdue. The agent can see the lock since `since`.
    fn missed_overdue(
        &self,
        task: usize,
        spec: &RunsSpec,
        since: u64,
        now: u64,
        world: &World,
    ) -> Option<String> {
        let (facts, real) = (&self.tasks[task], &world.tasks[task]);
        let (noise_ms, recovery_ms) = (self.noise_ms(), self.recovery_ms());
        let past = &real.past[world.homes[task]];
        // What it finds after a time without readings may seem to begin then.
        let was_held = past
            .between(since.saturating_sub(recovery_ms), since + noise_ms)
            .any(|then| matches!(then.state, LockState::Held { .. }));
        let found = if was_held || facts.run_seen.is_none() { since } else { 0 };
        // The newest instant from which the agent may count: a run, its own start, or what may look
        // like a run.
        let began = real.past.iter().filter_map(newest_begin).max().unwrap_or(0);
        let ruled = world.rulers.last().map_or(0, |(at, _)| *at);
        let data = world.generations.back().map_or(0, |it| it.at);
        let moved = world.moved_at[task];
        let base = [found, began, ruled, data, real.odd_at, facts.began, moved];
        let base = base.into_iter().max().unwrap_or(0);
        // It counts from no earlier instant than this.
        let least = facts.run_seen.unwrap_or(facts.began);
        let is_whole = since < least + spec.every_ms.saturating_sub(spec.late_after_ms);
        let periods = if is_whole { 1 } else { 2 };
        let due = base + periods * spec.every_ms + spec.late_after_ms + noise_ms + recovery_ms;
        let is_odd = past.newest().is_some_and(|newest| newest.state == LockState::Other);
        (now > due.max(since + noise_ms) && !is_odd)
            .then(|| format!("not overdue {} ms after {base}", now - base))
    }

    /// What is shown of the last run, of which everything was seen.
    fn wrong_last(&self, view: &TaskView, run: &TrueRun) -> Option<String> {
        let last = view.periodic()?.last.as_ref()?;
        let by = last.by.first()?;
        // A later one may have been too short, or be over already.
        let began = last.began?.ms().saturating_sub(MONO_MS);
        if by.holder.client != run.who || began.abs_diff(run.began) > self.noise_ms() {
            return None;
        }
        let ms = last.over?.lasted_ms?;
        let real_ms = run.done? - run.began;
        (ms.abs_diff(real_ms) > self.noise_ms())
            .then(|| format!("the last run is said to have taken {ms} ms, it took {real_ms} ms"))
    }
}

/// How long the lock was held by a run, its rest included.
fn lasted_ms(run: &TrueRun, past: &Past, now: u64) -> u64 {
    let ended = past.latest().take_while(|since| since.at > run.began);
    let ended = ended.filter(|since| !since.state.held_by(&run.who)).last();
    ended.map_or(now, |since| since.at).saturating_sub(run.began)
}

/// When the newest hold on a server began, for whatever reason.
fn newest_begin(past: &Past) -> Option<u64> {
    let mut later: Option<u64> = None;
    for since in past.latest() {
        match (&since.state, later) {
            (LockState::Held { .. }, _) => later = Some(since.at),
            (_, Some(at)) => return Some(at),
            _ => {}
        }
    }
    later
}

/// Whether the present run lasts longer than `max_ms`; `None`: that is too close to say, or was not
/// seen whole.
fn overran(
    past: &Past,
    done: bool,
    (since, now): (u64, u64),
    max_ms: u64,
    noise_ms: u64,
) -> Option<bool> {
    let newest = past.newest()?;
    let LockState::Held { .. } = newest.state else {
        let settled = newest.at + noise_ms < now && since + noise_ms < now;
        return (settled && newest.cause != Cause::Odd && newest.state == LockState::Free)
            .then_some(false);
    };
    let held = past.held_since();
    if since > held || done {
        return None;
    }
    match now - held {
        ms if ms > max_ms + noise_ms => Some(true),
        ms if ms + noise_ms < max_ms => Some(false),
        _ => None,
    }
}
