//! Announces changed keys to the agents and guards that listen.

use std::sync::Arc;

use lockwatch_watch::redis::driver::Push;

use crate::event::{Event, GuardJob};
use crate::server::Health;
use crate::truth::LockState;
use crate::world::state::World;

/// Longest time of one way over a good network, in milliseconds.
const TRIP_MS: u64 = 12;

impl World {
    /// Reports to the agents that listen to a server that `key` has changed, after at least `ms`.
    pub(super) fn announce(&mut self, server: usize, key: &Arc<[u8]>, ms: u64) {
        if matches!(self.servers[server].health, Health::Down | Health::Frozen) {
            return;
        }
        for (agent, listeners) in self.listeners.iter().enumerate() {
            let link = &self.links[agent][server];
            if let (Some((life, id)), None) = (listeners[server], link.cut) {
                let push = Push::Changed(key.to_vec());
                let event = Event::Announced { agent, life, link: id, push };
                self.queue.push(self.now + ms + link.each_way_ms + 1, event);
            }
        }
        self.announce_to_guards(server, key, ms);
    }

    /// A server removes expired keys some time later, and reports that.
    pub(in crate::world) fn announce_expiry(&mut self, task: usize) {
        let (server, now) = (self.homes[task], self.now);
        let was_held = self.tasks[task].past[server]
            .newest()
            .is_some_and(|since| since.state != LockState::Free);
        if was_held && self.servers[server].get(&self.tasks[task].keys.lock, now).is_none() {
            let key = Arc::clone(&self.tasks[task].keys.lock);
            self.announce(server, &key, now % 100);
        }
    }

    /// A server announces a changed key to the guards that listen to it, after at least `ms`.
    fn announce_to_guards(&mut self, server: usize, key: &Arc<[u8]>, ms: u64) {
        let lock = self.lock_keys.get(key).copied();
        let Some(task) = lock.or_else(|| self.part_keys.get(key).copied()) else { return };
        for host in 0..self.tasks[task].stations.len() {
            let process = self.lives[server];
            let station = &self.tasks[task].stations[host];
            let (life, is_cut) = (station.life, station.network.cut_until > self.now);
            let hears = station.guard.as_ref().and_then(|guard| guard.client.hears);
            if hears == Some((server, process)) && !is_cut {
                let ms = ms + self.trip_ms(task, host);
                self.guard_later(task, host, life, ms, GuardJob::Changed);
            }
        }
    }

    pub(in crate::world) fn trip_ms(&mut self, task: usize, host: usize) -> u64 {
        let now = self.now;
        let task = &mut self.tasks[task];
        let network = task.stations[host].network;
        let lag_ms = if network.lags_until > now { network.each_way_ms } else { 0 };
        lag_ms + task.chance.within(1, TRIP_MS)
    }
}
