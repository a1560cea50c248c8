//! A simulated cluster: the server of each task's keys, what each server reports about that, and
//! how keys move.

use std::sync::Arc;

use lockwatch_watch::redis::topology::cluster::{SLOTS, slot};

use super::state::{Layout, Task, World};
use crate::event::Heal;
use crate::server::Entry;
use crate::truth::Cause;

impl World {
    /// The initial shard of a slot; permanent if no task uses the slot.
    pub(crate) fn first_shard(&self, slot: u16) -> usize {
        usize::from(slot) * self.shards.len() / usize::from(SLOTS)
    }

    /// Puts the keys of each task where their slots are.
    pub(super) fn lay_out(&mut self) {
        if self.is_cluster() {
            self.homes =
                self.tasks.iter().map(|task| self.first_shard(slot(&task.keys.lock))).collect();
            let first = |(task, home): (&Task, &usize)| {
                task.keys.parts().next().map_or(*home, |key| self.first_shard(slot(key)))
            };
            self.part_homes = self.tasks.iter().zip(&self.homes).map(first).collect();
            self.layouts = vec![self.layout(); self.servers.len()];
            (0..self.servers.len()).for_each(|server| self.hear_layout(server));
        }
    }

    fn layout(&self) -> Layout {
        Layout {
            shards: self.shards.clone(),
            homes: self.homes.clone(),
            part_homes: self.part_homes.clone(),
        }
    }

    /// Moves keys of a task, with their remaining time, to another master; the other servers learn
    /// that `ms` later. If the keys are in two slots, one of the slots moves.
    pub(super) fn move_slot(&mut self, task: usize, to: usize, ms: u64) {
        let apart = self.plan.tasks[task].apart;
        let lock = !apart || self.rng.percent(50);
        let parts = !apart || !lock;
        let from = if lock { self.homes[task] } else { self.part_homes[task] };
        let (to, now) = (self.master_of(to), self.now);
        if from == to || !self.servers[from].writable() || !self.servers[to].writable() {
            return;
        }
        self.settle(from);
        self.settle(to);
        let keys = &self.tasks[task].keys;
        let mut all: Vec<Arc<[u8]>> = Vec::new();
        if parts {
            all.extend(keys.parts().cloned());
        }
        if lock {
            all.push(keys.lock.clone());
            all.push(keys.token.clone());
            let members = self.member_keys.iter().filter(|(_, (of, _))| *of == task);
            all.extend(members.map(|(key, _)| Arc::clone(key)));
        }
        let clocks = [from, to].map(|server| self.servers[server].clock.at(now));
        for key in all {
            let Some(entry) = self.servers[from].get(&key, now).cloned() else { continue };
            let deadline = entry.deadline.map(|deadline| clocks[1] + (deadline - clocks[0]));
            self.servers[to].put(&key, Some(Entry { deadline, ..entry }), now);
            self.servers[from].put(&key, None, now);
        }
        if lock {
            self.homes[task] = to;
        }
        if parts {
            self.part_homes[task] = to;
        }
        self.moved_at[task] = now;
        self.cause = Cause::Odd;
        self.note_changes();
        for server in [from, to] {
            self.note_wanting(server, task);
        }
        for server in 0..self.servers.len() {
            match [from, to].contains(&server) {
                true => self.hear_layout(server),
                false => self.after(ms, Heal::Layout { server }),
            }
        }
        self.contend(task, 5);
    }

    /// A replica becomes the master of its shard; the other servers learn that one after the other.
    pub(super) fn take_over_shard(&mut self, before: usize, to: usize) {
        self.shards.iter_mut().filter(|master| **master == before).for_each(|master| *master = to);
        for task in 0..self.tasks.len() {
            for at in [&mut self.homes[task], &mut self.part_homes[task]] {
                if *at == before {
                    (*at, self.moved_at[task]) = (to, self.now);
                }
            }
        }
        self.hear_layout(to);
        for server in (0..self.servers.len()).filter(|server| ![before, to].contains(server)) {
            let ms = 1 + self.rng.below(1_500);
            self.after(ms, Heal::Layout { server });
        }
    }

    /// A server learns the layout, unless it does not yet know that it is no longer a master.
    pub(super) fn hear_layout(&mut self, server: usize) {
        let deposed = self.servers[server].follows.is_none() && self.master_of(server) != server;
        if !deposed {
            self.layouts[server] = self.layout();
            self.serve_own(server);
        }
    }

    /// Makes the server redirect requests for keys that are elsewhere.
    fn serve_own(&mut self, server: usize) {
        let serves = self.servers[server].follows.unwrap_or(server);
        let Layout { homes, part_homes, .. } = &self.layouts[server];
        let locks = self.tasks.iter().zip(homes).map(|(task, home)| (&task.keys.lock, home));
        let others = self
            .tasks
            .iter()
            .zip(part_homes)
            .filter_map(|(task, at)| Some((task.keys.parts().next()?, at)));
        let elsewhere = locks.chain(others).filter(|(_, at)| **at != serves);
        self.servers[server].away = elsewhere.map(|(key, _)| tag(key).to_vec()).collect();
    }
}

/// The common prefix of all keys in its slot.
fn tag(key: &[u8]) -> &[u8] {
    key.iter().position(|byte| *byte == b'}').map_or(key, |end| &key[..=end])
}
