//! Wake-ups: when all has been in order for long, a lock of which a change was announced is read
//! soon, and not only when its turn comes.
//!
//! Announcements and hints have budgets, so a change is exempt if there were many lately.

use super::state::Oracle;
use crate::agent::{Attempt, MONO_MS};
use crate::world::World;

/// Time in milliseconds until a lock is asked for whose change was announced. A read of it may be
/// under way, in which other clients are served for 60 ms.
const SOON_MS: u64 = 400;
/// Announcements count towards a budget for this many milliseconds: after that, each is full again.
const LATELY_MS: u64 = 2_000;
/// Maximum number of announcements within that time: the agent takes 16 at once. Answers to pings
/// count, too.
const ANNOUNCED_MAX: usize = 8;
/// Maximum number of them about one task: the agent follows 4 at once, one of which may be a hint
/// that everything may have changed.
const OF_ONE_MAX: usize = 3;

impl Oracle {
    /// A server announced to the agent that a key of a task has changed.
    pub(crate) fn announced(&mut self, server: usize, key: &[u8], world: &World) {
        let lock = world.lock_keys.get(key).copied();
        let Some(task) = lock.or_else(|| world.part_keys.get(key).copied()) else { return };
        let now = world.now;
        let lately = &mut self.announced.lately;
        lately.push_back((now, task));
        lately.retain(|(at, _)| at + LATELY_MS > now);
        let of_one = lately.iter().filter(|(_, other)| *other == task).count();
        let is_much = lately.len() > ANNOUNCED_MAX || of_one > OF_ONE_MAX;
        let is_owed = self.announced.owed.iter().any(|(other, _)| *other == task);
        if lock.is_some()
            && !is_much
            && !is_owed
            && server == world.homes[task]
            && self.tasks[task].is_configured
            // A queue that goes on changing is read once in a second.
            && self.tasks[task].queue.is_none()
            && self.is_calm(task, now, world)
        {
            self.announced.owed.push((task, now));
        }
    }

    /// Whether all has been in order for long at this instant, and is still.
    fn is_calm(&self, task: usize, at: u64, world: &World) -> bool {
        let visible = self.visible_since(task, world);
        visible.is_some_and(|visible| visible + self.recovery_ms() <= at)
            && self.rhythm_at.ms().saturating_sub(MONO_MS) + self.recovery_ms() <= at
    }

    /// The agent asked for locks.
    pub(super) fn asked(&mut self, attempt: &Attempt) {
        let sent = attempt.sent.ms().saturating_sub(MONO_MS);
        let is_answer = |task: &usize, at: u64| {
            attempt.tasks.contains(task) && (at..=at + SOON_MS).contains(&sent)
        };
        self.announced.owed.retain(|(task, at)| !is_answer(task, *at));
    }

    /// Checks that each lock was asked for in time. A request whose answer has not come is not
    /// known yet.
    pub(super) fn check_soon(&mut self, world: &World) {
        let over = |at: u64| at + SOON_MS + self.timeout_ms < world.now;
        let owed = std::mem::take(&mut self.announced.owed);
        let (over, open) = owed.into_iter().partition::<Vec<_>, _>(|(_, at)| over(*at));
        self.announced.owed = open;
        for (task, at) in over {
            if self.tasks[task].is_configured && self.is_calm(task, at, world) {
                let what = format!(
                    "{}: a change of the lock was announced after {at} ms, and it was not asked \
                     for within {SOON_MS} ms",
                    world.plan.spec.tasks[task].name
                );
                self.blame(world, "wake-up", what);
            }
        }
    }
}
