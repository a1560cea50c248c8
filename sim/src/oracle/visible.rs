//! Since when an agent can see the server that decides.

use lockwatch_watch::redis::{LONGEST_PAUSE_MS, RedisKind, TOO_LARGE_AGAIN_MS};

use super::state::Oracle;
use crate::server::Health;
use crate::world::{Sentinel, World};

/// What was larger than an agent reads is asked for again only after a while: then.
pub(super) fn small_since(task: usize, world: &World) -> u64 {
    let real = &world.tasks[task];
    if real.was_huge { real.odd_at + TOO_LARGE_AGAIN_MS } else { 0 }
}

impl Oracle {
    /// How long the path to a server must have been good before everything counts as visible, in
    /// milliseconds. A dial that began before may run into its timeout, the next one may wait for
    /// the longest pause, and two ticks may follow.
    pub(super) fn recovery_ms(&self) -> u64 {
        self.timeout_ms + LONGEST_PAUSE_MS + 2 * self.interval_ms + 1_100
    }

    /// Since when this agent can see the deciding server; `None`: it cannot.
    pub(super) fn visible_since(&self, task: usize, world: &World) -> Option<u64> {
        let server = world.homes[task];
        let (since, _) = world.rulers.last().copied().unwrap_or_default();
        // After a failover there are two masters for a limited time, and Sentinels must be read, so
        // only a long calm counts.
        let quiet = if world.servers.len() > world.plan.masters { 20_000 } else { 0 };
        let small = small_since(task, world);
        if self.kind == RedisKind::Cluster {
            let mut servers = 0..world.servers.len();
            let master = |other: usize| world.servers[other].follows.unwrap_or(other);
            if servers.clone().any(|other| master(other) != world.master_of(other)) {
                return None;
            }
            // A failed request causes an immediate read of the layout; otherwise the layout is read
            // in its normal turn.
            let laid_out = world.moved_at[task] + 6 * self.interval_ms + self.timeout_ms;
            let clean = servers.try_fold(0, |clean: u64, other| {
                Some(clean.max(world.clean_since(self.agent, other)?))
            })?;
            return Some(
                clean
                    .max(small)
                    .max(laid_out)
                    .max(since + quiet)
                    .max(world.settled_at)
                    .max(self.tasks[task].began),
            );
        }
        // A server that does not answer is no rival, and most of the Sentinels are enough.
        let mut others = (0..world.servers.len()).filter(|other| *other != server);
        let alone = others.all(|other| {
            let other = &world.servers[other];
            other.follows == Some(server) || matches!(other.health, Health::Down | Health::Frozen)
        });
        let names = |sentinel: &&Sentinel| sentinel.reachable && sentinel.names == server;
        let named = world.sentinels.iter().filter(names).count();
        if !alone || named * 2 <= world.sentinels.len() && !world.sentinels.is_empty() {
            return None;
        }
        let clean = world.clean_since(self.agent, server)?;
        Some(clean.max(small).max(since + quiet).max(world.settled_at).max(self.tasks[task].began))
    }
}
