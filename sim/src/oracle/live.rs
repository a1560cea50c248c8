//! Liveness: a true and visible state must be reported in time. These checks use the truth, not the
//! readings.

use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;

use super::state::Oracle;
use crate::agent::MONO_MS;
use crate::request::Says;
use crate::truth::LockState;
use crate::world::World;

/// The first free reading is confirmed 260 ms later; the engine's rhythm adds a second, and the
/// answer some milliseconds.
const CONFIRM_MS: u64 = 260 + 1_000 + ANSWER_MS;
/// A lock is read again 20 ms after its grace is over, plus the time for the answer.
const LOOK_MS: u64 = 20 + ANSWER_MS;
/// Tolerance in milliseconds for answers: each takes a few milliseconds, and in each of two rounds
/// another client may be served for 60 ms.
const ANSWER_MS: u64 = 150;

impl Oracle {
    pub(super) fn check_live(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        self.check_split_due(task, view, world);
        let Some(visible) = self.visible_since(task, world) else { return };
        let now = at.ms() - MONO_MS;
        let server = world.homes[task];
        let real = &world.tasks[task];
        let Some(lock) = real.past[server].newest() else { return };
        let expired = lock
            .state
            .deadline()
            .is_some_and(|deadline| world.servers[server].clock.at(now) >= deadline);
        let odd = lock.state == LockState::Other;
        let known_by =
            (visible + self.recovery_ms()).max(real.odd_at + 2 * self.interval_ms + 1_100);
        if now < known_by || odd {
            return;
        }
        self.check_turns_live(task, view, (at, known_by), world);
        let says = &real.wanting[world.part_homes[task]];
        // Keys on another server are read after the lock, so their effect may come with the next
        // reading.
        let later_ms = if world.plan.tasks[task].apart { self.interval_ms + ANSWER_MS } else { 0 };
        let name = &view.spec.name;
        let is_shown = |problem| task_finding(problem, view, at).is_positive();
        let mut missing = Vec::new();
        if view.held.is_none() {
            let what = format!(
                "{name}: all has been in order for {} ms, and the lock is unknown ({:?})",
                now - visible,
                view.unknown
            );
            missing.push(("known", what));
        }
        let read = view.last_reading.map_or(u64::MAX, |read| at.since_ms(read));
        // If slots are read separately, each has its own instant, counted from the start of the
        // rhythm; one that shared a batch was early.
        let sizes = &world.plan.sizes;
        let slots_apart = sizes.slot_tasks < world.plan.tasks.len();
        let early_ms = match slots_apart {
            // Each change of the tasks may move a slot by nearly an interval.
            true if at < self.rhythm_at.plus_ms(3 * self.interval_ms) => 2 * self.interval_ms,
            true => sizes.joined_ms,
            false => 0,
        };
        if read > self.interval_ms + early_ms + ANSWER_MS {
            missing.push((
                "known",
                format!(
                    "{name}: all has been in order for {} ms, and the newest reading is {read} ms \
                     old",
                    now - visible
                ),
            ));
        }
        let spec = &view.spec;
        // A changed threshold counts from the next reading.
        let reloaded_ms = self.tasks[task].configured_at + 2 * self.interval_ms + LOOK_MS;
        // Free and wanted, without any hold between: must be down once the first free reading
        // (within an interval), its confirmation and the grace are over.
        let free_since = match lock.state {
            LockState::Free => Some(lock.at),
            _ if expired => {
                Some(world.servers[server].clock.when(lock.state.deadline().unwrap_or_default()))
            }
            _ => None,
        };
        if let (Some(free), Says::Yes) = (free_since, says.says) {
            let since = free.max(says.since).max(known_by);
            let due = since
                + later_ms
                + self.interval_ms
                + spec.grace_ms.max(CONFIRM_MS)
                + CONFIRM_MS
                + LOOK_MS;
            if now > due.max(reloaded_ms) && !is_shown(Problem::Down) {
                missing.push((
                    "missed down",
                    format!(
                        "{name}: free and wanted for {} ms, shown as down for {} ms",
                        now - since,
                        view.durations.down_ms
                    ),
                ));
            }
        }
        // Held though unwanted: each reading counts, so an interval more than the threshold, plus
        // the engine's second.
        if let (LockState::Held { .. }, false, Says::No) = (&lock.state, expired, says.says) {
            // A switch that was on and was lost in a failover may be in force; another check covers
            // that.
            let lost = &self.tasks[task].lost;
            let in_force = lost.over().map_or(0, |over| over.ms().saturating_sub(MONO_MS));
            let held = real.past[server].held_since().max(says.since).max(known_by).max(in_force);
            let due = held + later_ms + 2 * self.interval_ms + spec.wind_down_ms + CONFIRM_MS;
            if now > due.max(reloaded_ms)
                && !lost.any()
                && !lost.unsure
                && !is_shown(Problem::Unwanted)
            {
                missing.push((
                    "missed unwanted",
                    format!(
                        "{name}: held and not wanted for {} ms, shown as unwanted for {} ms",
                        now - held,
                        view.durations.unwanted_ms
                    ),
                ));
            }
        }
        // Held without progress: the same tolerance.
        if let (Some(progress), LockState::Held { .. }, false) =
            (&spec.progress, &lock.state, expired)
        {
            let held = real.past[server].held_since().max(world.held_again_at(task));
            let held = held.max(real.progress_at).max(says.since).max(known_by);
            let due = held + later_ms + 2 * self.interval_ms + progress.stale_after_ms + CONFIRM_MS;
            let there =
                real.keys.progress.as_ref().is_some_and(|key| {
                    world.servers[world.part_homes[task]].get(key, now).is_some()
                });
            // A heartbeat that was seen, and ended, is a stall from then on.
            let ended = world.plan.tasks[task].beats_ms.map(|ms| real.progress_at + ms);
            let lost = world.generations.back().is_some_and(|it| it.at >= real.progress_at);
            let ended = ended.filter(|end| known_by + 2 * self.interval_ms < *end && !lost);
            let (due, there) = match ended.filter(|_| !there) {
                Some(end) => (due.max(end + due.saturating_sub(held)), true),
                None => (due, there),
            };
            let counts = matches!(says.says, Says::Yes | Says::Unset);
            if now > due.max(reloaded_ms) && there && counts && !is_shown(Problem::Stalled) {
                missing.push((
                    "missed stalled",
                    format!(
                        "{name}: held without progress for {} ms, shown as stalled for {} ms",
                        now - held,
                        view.durations.stalled_ms
                    ),
                ));
            }
        }
        for (check, what) in missing {
            self.blame(world, check, what);
        }
    }
}
