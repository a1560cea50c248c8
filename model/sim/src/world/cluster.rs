//! A cluster: which server has the keys of a task, what each server tells of that, and how they move.

use std::sync::Arc;

use lockwatch_model::spec::RedisKind;
use lockwatch_model::topology::cluster::{SLOTS, slot};

use super::World;
use super::acts::Heal;
use crate::server::Entry;
use crate::truth::Cause;

impl World {
    pub(crate) fn is_cluster(&self) -> bool {
        self.plan.kind() == RedisKind::Cluster
    }

    /// The server of a slot that no task uses, and of each at first.
    pub(crate) fn first_home(&self, slot: u16) -> usize {
        usize::from(slot) * self.servers.len() / usize::from(SLOTS)
    }

    /// Every task's keys are where their slot is.
    pub(super) fn lay_out(&mut self) {
        if self.is_cluster() {
            self.homes = self.tasks.iter().map(|task| self.first_home(slot(&task.keys.lock))).collect();
            self.layouts = vec![self.homes.clone(); self.servers.len()];
            (0..self.tasks.len()).for_each(|task| self.serve_at_home(task));
        }
    }

    /// The other servers send whoever asks for this task's keys away.
    fn serve_at_home(&mut self, task: usize) {
        let lock = &self.tasks[task].keys.lock;
        let tag = lock.iter().position(|byte| *byte == b'}').map_or(&lock[..], |end| &lock[..=end]).to_vec();
        for (server, told) in self.servers.iter_mut().enumerate() {
            told.away.retain(|other| *other != tag);
            if server != self.homes[task] {
                told.away.push(tag.clone());
            }
        }
    }

    /// The keys of a task go to another server, with what is left of their time; the third one hears of it `ms` later.
    pub(super) fn move_slot(&mut self, task: usize, to: usize, ms: u64) {
        let (from, now) = (self.homes[task], self.now);
        if from == to || !self.servers[from].writable() || !self.servers[to].writable() {
            return;
        }
        self.settle(from);
        self.settle(to);
        let keys = &self.tasks[task].keys;
        let all = keys.switches.iter().chain(&keys.progress).chain(&keys.claims).chain([&keys.lock]);
        let all: Vec<Arc<[u8]>> = all.cloned().collect();
        let clocks = [from, to].map(|server| self.servers[server].clock.at(now));
        for key in all {
            let Some(entry) = self.servers[from].get(&key, now).cloned() else { continue };
            let deadline = entry.deadline.map(|deadline| clocks[1] + (deadline - clocks[0]));
            self.servers[to].put(&key, Some(Entry { deadline, ..entry }), now);
            self.servers[from].put(&key, None, now);
        }
        self.homes[task] = to;
        self.moved_at[task] = now;
        self.cause = Cause::Odd;
        self.note_changes();
        for server in [from, to] {
            self.note_wanting(server, task);
        }
        self.serve_at_home(task);
        for server in 0..self.servers.len() {
            match [from, to].contains(&server) {
                true => self.layouts[server][task] = to,
                false => self.after(ms, Heal::Layout { server, task }),
            }
        }
        self.contend(task, 5);
    }

    /// A server has heard where a task's keys are.
    pub(super) fn hear_layout(&mut self, server: usize, task: usize) {
        self.layouts[server][task] = self.homes[task];
    }
}
