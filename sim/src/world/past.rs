//! Records what changed in the servers' data, and lets those know who look at it.

mod announce;
mod queue;
mod switches;
mod turns;

use std::sync::Arc;

use super::state::World;
use crate::server::Health;
use crate::truth::{Cause, LockState};

impl World {
    /// Updates the data of a server that follows another one.
    pub(crate) fn catch_up(&mut self, server: usize) {
        let Some(master) = self.servers[server].follows else { return };
        if self.servers[server].link_cut
            || matches!(self.servers[server].health, Health::Down | Health::Frozen)
        {
            return;
        }
        let (now, lag_ms) = (self.now, self.servers[server].lag_ms);
        let [own, other] = self
            .servers
            .get_disjoint_mut([server, master])
            .unwrap_or_else(|_| unreachable!("nobody follows itself"));
        own.catch_up(other, now, lag_ms);
        if self.servers[server].changed.is_empty() {
            return;
        }
        self.cause = Cause::Worker;
        self.note_changes();
    }

    /// Records what changed in the servers' data.
    pub(crate) fn note_changes(&mut self) {
        for server in 0..self.servers.len() {
            if self.servers[server].changed.is_empty() {
                continue;
            }
            let changed = std::mem::take(&mut self.servers[server].changed);
            for (at, key) in changed {
                if let Some(task) = self.lock_keys.get(&key).copied() {
                    self.note_lock(server, task, &key, at);
                } else if let Some(task) = self.part_keys.get(&key).copied() {
                    self.note_wanting(server, task);
                } else {
                    self.note_member_lock(server, &key, at);
                    continue;
                }
                self.announce(server, &key, 0);
            }
        }
        self.cause = Cause::Worker;
    }

    fn note_lock(&mut self, server: usize, task: usize, key: &Arc<[u8]>, at: u64) {
        let state = LockState::of(self.servers[server].get(key, at), self.tasks[task].layout);
        if self.tasks[task].past[server].newest().is_some_and(|old| old.state == LockState::Other) {
            self.tasks[task].odd_at = at;
        }
        let free = state == LockState::Free;
        let ends_at = self.servers[server].ends_at(key);
        if self.tasks[task].queues.is_some() {
            let clock = &self.servers[server].clock;
            self.tasks[task].past[server].note(state, self.cause, clock, at);
            return self.note_queue(server, task);
        }
        if self.tasks[task].turns.is_some() {
            let clock = &self.servers[server].clock;
            self.tasks[task].past[server].note(state.clone(), self.cause, clock, at);
            return self.note_turns(server, task, &state);
        }
        self.tasks[task].past[server].note(state, self.cause, &self.servers[server].clock, at);
        if server == self.homes[task] {
            if free {
                self.contend(task, 2);
            } else if let Some(ends_at) = ends_at {
                self.contend_at(task, ends_at + 2);
            }
        }
    }
}
