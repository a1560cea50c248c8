//! What is known of the scripts of one task, and of the guards that run them.

use std::collections::BTreeMap;

use super::lease::Lease;
use crate::truth::LockState;
use crate::world::World;

/// Time in milliseconds until a guard or keeper that continues after a pause has killed, or one
/// that sees the other one gone.
pub(super) const WAKE_MS: u64 = 100;

/// What is known of one task.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) runs: Vec<Run>,
    /// The newest lease of each guard process, by host and process.
    pub(super) leases: BTreeMap<(usize, u32), Lease>,
    /// The newest token that each server gave out, when, and to which guard process.
    pub(super) tokens: BTreeMap<usize, (u64, u64, (usize, u32))>,
    /// Who took the lock last; `None`: a worker that is no guard.
    pub(super) took: Option<Option<usize>>,
    pub(super) reports: Vec<Owed>,
    pub(super) idle: Idle,
}

/// A script that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) host: usize,
    pub(super) life: u32,
    pub(super) script: u64,
    /// When its guard, or its keeper, was killed.
    pub(super) guard_died: Option<u64>,
    pub(super) keeper_died: Option<u64>,
    /// When the guard was notified of a change after its lock was lost.
    pub(super) heard_at: Option<u64>,
    /// Since when the guard can know that its lock is lost.
    pub(super) known_since: Option<u64>,
}

/// An overrun that a guard must report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) run: Run,
    pub(super) since: u64,
}

/// Since when what a guard needs has been in order, as of the newest look.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// For each host: since when it reaches both servers of the task.
    pub(super) reach_since: Vec<Option<u64>>,
    /// Since when no script runs, the task is wanted, and the lock is free.
    pub(super) free_since: Option<u64>,
    /// Since when a guard that could run its script holds the lock and does not.
    pub(super) holds_since: Option<u64>,
    /// Since when nobody wants it, by a server that can be written.
    pub(super) unwanted_since: Option<u64>,
}

/// What is wrong: the name of the check, and the description.
pub(super) type Wrong = (&'static str, String);

impl Facts {
    /// Whether the hold with this token was given back.
    pub(super) fn was_given_back(&self, host: usize, life: u32, token: u64) -> bool {
        let lease = self.leases.get(&(host, life));
        lease.is_some_and(|lease| lease.is_given_back && lease.token == token)
    }

    /// Whether another client, or nobody, has the lock that a script runs under, and its guard
    /// finds that when it looks.
    pub(super) fn is_gone(&self, run: &Run, task: usize, world: &World) -> bool {
        let Some(lease) = self.leases.get(&(run.host, run.life)) else { return false };
        let (home, real) = (world.homes[task], &world.tasks[task]);
        let station = &real.stations[run.host];
        let Some(guard) = station.guard.as_ref().filter(|_| station.life == run.life) else {
            return false;
        };
        let is_here = world.guard_server(task, run.host) == Some(home)
            || lease.server == home
            || !world.servers[lease.server].writable();
        let held = real.past[home].newest().is_some_and(|since| {
            since.state.held_by(&guard.instance) || since.state == LockState::Other
        });
        is_here && !held && lease.is_lost(task, world)
    }
}

impl Run {
    pub(super) fn is_of(&self, host: usize, life: u32) -> bool {
        (self.host, self.life) == (host, life)
    }

    /// Since when guard or keeper can kill it; `None`: neither can.
    pub(super) fn able_since(&self, task: usize, world: &World) -> Option<u64> {
        let station = &world.tasks[task].stations[self.host];
        let keeper = station.keepers.iter().find(|keeper| keeper.script_number == self.script)?;
        station.able_since(keeper, world.now)
    }

    /// Since when its guard runs without a pause; `None`: it is paused, or gone.
    pub(super) fn guard_since(&self, task: usize, world: &World) -> Option<u64> {
        let station = &world.tasks[task].stations[self.host];
        let guard = station.guard.as_ref().filter(|_| station.life == self.life)?;
        (guard.paused_until <= world.now).then_some(guard.paused_until.max(guard.began))
    }
}

impl Owed {
    pub(super) fn is_of(&self, host: usize, life: u32) -> bool {
        self.run.is_of(host, life)
    }
}

impl Idle {
    /// Whether a host's network has been good for long enough that no request waits for its
    /// timeout.
    pub(super) fn was_calm(&self, host: usize, task: usize, world: &World) -> bool {
        let since = self.reach_since.get(host).copied().flatten();
        since.is_some_and(|since| since + 2 * world.guard_timeout_ms(task) < world.now)
            && world.guard_reaches(task, host, world.homes[task])
            && world.guard_server(task, host) == Some(world.homes[task])
    }
}
