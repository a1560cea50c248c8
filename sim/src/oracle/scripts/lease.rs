//! What the store granted to a guard, and how the guard may lose it.

use crate::truth::{Cause, What};
use crate::world::World;

/// The newest lease of a guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) server: usize,
    pub(super) token: u64,
    /// The token before it, of the same hold on another server: attempts may arrive late.
    pub(super) other_token: u64,
    /// The hold with that token was given back. Until then, each attempt has the same token.
    pub(super) is_given_back: bool,
    pub(super) granted_at: u64,
    /// When it is over by the server's clock, unless that steps: a true instant.
    pub(super) until: u64,
    /// How often the server's clock had stepped.
    pub(super) steps: u32,
}

impl Lease {
    pub(super) fn new(server: usize, until: u64, token: u64, world: &World) -> Lease {
        let steps = world.servers[server].clock.steps;
        Lease {
            server,
            token,
            other_token: token,
            is_given_back: false,
            granted_at: world.now,
            until,
            steps,
        }
    }

    /// Whether the lock may have been lost before the end of the lease, through no fault of its
    /// guard: the data or the clock changed, or somebody else changed the key.
    pub(super) fn is_lost(&self, task: usize, world: &World) -> bool {
        let loses = |what: What| what != What::OtherFlush;
        let mut changes = world.generations.iter().filter(|it| loses(it.what));
        let past = world.tasks[task].past[self.server].between(self.granted_at, world.now);
        let is_odd = |cause| matches!(cause, Cause::Lost | Cause::Deleted | Cause::Odd);
        world.homes[task] != self.server
            || world.servers[self.server].clock.steps != self.steps
            || changes.any(|it| it.at >= self.granted_at)
            || past.into_iter().any(|since| since.at >= self.granted_at && is_odd(since.cause))
    }
}
