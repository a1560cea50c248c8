//! Events of servers: they stop and start, follow one another, and take over.

use std::sync::Arc;

use super::state::{Cut, World};
use crate::event::{Event, Heal};
use crate::plan::{Act, Keeps, OldMaster};
use crate::server::{Health, Server};
use crate::truth::{Cause, What};

impl World {
    /// Updates the lists of replicas that the masters report.
    pub(crate) fn list_replicas(&mut self) {
        for server in 0..self.servers.len() {
            let follows = |other: &&Server| {
                other.follows == Some(server) && !other.link_cut && other.health != Health::Down
            };
            let replicas = self
                .servers
                .iter()
                .filter(follows)
                .map(|other| Arc::clone(&other.address))
                .collect();
            self.servers[server].replicas = replicas;
        }
    }

    /// The agent's connection breaks, unless the network hides that.
    pub(super) fn reset_link(&mut self, agent: usize, server: usize) {
        if self.links[agent][server].cut != Some(Cut::Silently) {
            self.queue.push(self.now, Event::Break { agent, server });
        }
    }

    pub(super) fn act_on_servers(&mut self, act: Act) {
        match act {
            Act::Failover { of, lose_ms, old, ms } => {
                let master = self.master_of(of);
                let fit = |server: &usize| {
                    self.servers[*server].follows == Some(master)
                        && self.servers[*server].health == Health::Up
                };
                let Some(to) = (0..self.servers.len()).find(fit) else { return };
                if self.servers[master].health != Health::Up {
                    return;
                }
                if lose_ms > 0 {
                    for server in 0..self.servers.len() {
                        if self.servers[server].follows == Some(master) {
                            self.catch_up(server);
                            self.servers[server].link_cut = true;
                        }
                    }
                }
                match old {
                    OldMaster::Killed => self.after(lose_ms, Heal::Kill { server: master }),
                    OldMaster::Frozen => self.after(lose_ms, Heal::Freeze { server: master }),
                    OldMaster::Alive => {}
                }
                let detect =
                    if old == OldMaster::Alive { 5 } else { 1_500 + self.rng.below(2_000) };
                // In a cluster, every reachable server learns of it soon.
                let ms = if self.is_cluster() && old == OldMaster::Alive { 0 } else { ms };
                self.after(lose_ms + detect, Heal::Promote { to, old, ms });
            }
            Act::Partition { of, ms } => {
                let master = self.master_of(of);
                // The master and the workers that hold locks are on one side, all others on the
                // other.
                let fit = |server: &usize| {
                    self.servers[*server].follows == Some(master)
                        && self.servers[*server].health == Health::Up
                };
                let Some(to) = (0..self.servers.len()).find(fit) else { return };
                for task in 0..self.tasks.len() {
                    if self.homes[task] == master
                        && let Some(worker) = self.holder(task)
                        && self.tasks[task].rng.percent(70)
                    {
                        self.tasks[task].workers[worker].sticks_to = Some(master);
                    }
                }
                for server in 0..self.servers.len() {
                    if self.servers[server].follows == Some(master) {
                        self.catch_up(server);
                        self.servers[server].link_cut = true;
                    }
                }
                self.after(1_500, Heal::Promote { to, old: OldMaster::Alive, ms });
                if self.is_cluster() {
                    // An isolated master notices about when the others elect a new one, but an
                    // operator may have promoted a server by hand.
                    let by_hand = self.rng.percent(40);
                    let notices_ms = if by_hand {
                        self.rng.within(3_000, 30_000)
                    } else {
                        1_200 + self.rng.below(1_500)
                    };
                    self.after(notices_ms, Heal::Alone { server: master });
                    self.after(ms + 4_000, Heal::Together { server: master });
                }
            }
            Act::CutSentinels { count, ms } => {
                for sentinel in 0..count.min(self.sentinels.len()) {
                    self.sentinels[sentinel].reachable = false;
                    self.sentinels[sentinel].fault = self.fault;
                    self.after(ms, Heal::Sentinel { sentinel, fault: self.fault });
                }
            }
            Act::LyingSentinel { ms } => {
                if let Some(last) = self.sentinels.len().checked_sub(1) {
                    self.sentinels[last].names = (self.master + 1) % self.servers.len();
                    self.sentinels[last].fault = self.fault;
                    self.after(ms, Heal::Sentinel { sentinel: last, fault: self.fault });
                }
            }
            Act::Lag { server, lag_ms, ms } => {
                let usual = self.servers[server].lag_ms.min(30);
                self.servers[server].lag_ms = lag_ms;
                self.after(ms, Heal::Lag { server, lag_ms: usual });
            }
            _ => {}
        }
    }

    /// The process ends, and its connections break.
    pub(super) fn stop_server(&mut self, server: usize) {
        self.settle(server);
        self.servers[server].stop(self.now);
        self.waiting[server].clear();
        self.drop_connections(server);
        self.list_replicas();
    }

    /// Every connection to a server ends; new ones are possible.
    pub(super) fn drop_connections(&mut self, server: usize) {
        self.lives[server] += 1;
        self.listeners.iter_mut().for_each(|listeners| listeners[server] = None);
        for agent in 0..self.links.len() {
            self.reset_link(agent, server);
        }
    }

    pub(super) fn start_server(&mut self, server: usize, keeps: Keeps, loading_ms: u64) {
        let run_id = self.rng.next();
        let now = self.now;
        self.settle(server);
        let before: Vec<_> =
            self.tasks.iter().map(|task| task.wanting[server].switches.clone()).collect();
        self.cause = if keeps == Keeps::All { Cause::Worker } else { Cause::Lost };
        self.servers[server].restart(run_id, keeps, now);
        self.note_generation(server, What::Restart(keeps));
        self.note_changes();
        for (task, before) in before.into_iter().enumerate() {
            self.note_lost_switches(server, task, before.as_deref());
        }
        self.lives[server] += 1;
        if loading_ms > 0 {
            self.servers[server].health = Health::Loading;
            self.after(loading_ms, Heal::Loaded { server });
        } else {
            self.servers[server].health = Health::Up;
            self.resync(server);
        }
        if keeps == Keeps::Nothing && server == self.master_of(server) {
            self.rewrite_later(20_000, 150_000);
        }
        if self.is_cluster() && self.servers[server].follows.is_none() {
            // Another master may have been elected meanwhile, so it waits to learn of that.
            self.servers[server].alone = true;
            self.after(2_000, Heal::Together { server });
        }
    }

    /// The replicas of a server copy it; it copies the server that it follows.
    pub(super) fn resync(&mut self, server: usize) {
        if self.servers[server].follows.is_some() {
            self.follow_now(server);
        }
        for other in 0..self.servers.len() {
            if self.servers[other].follows == Some(server) {
                self.follow_now(other);
            }
        }
        for task in 0..self.tasks.len() {
            self.contend(task, 50);
        }
        self.list_replicas();
    }

    pub(super) fn follow_now(&mut self, server: usize) {
        let Some(master) = self.servers[server].follows else { return };
        self.servers[server].link_cut = false;
        if self.servers[master].health == Health::Down || self.servers[server].health != Health::Up
        {
            return;
        }
        let now = self.now;
        self.settle(server);
        let [own, other] = self
            .servers
            .get_disjoint_mut([server, master])
            .unwrap_or_else(|_| unreachable!("nobody follows itself"));
        if own.history.replication_id != other.history.replication_id {
            own.full_sync(other, now);
        }
        self.cause = Cause::Odd;
        self.note_changes();
        self.list_replicas();
    }

    pub(super) fn promote(&mut self, to: usize, old: OldMaster, ms: u64) {
        if self.servers[to].health != Health::Up {
            return;
        }
        let Some(before) = self.servers[to].follows else { return };
        if self.servers[before].health != Health::Down
            && !self.servers[to].link_cut
            && old == OldMaster::Alive
        {
            // An orderly failover waits until everything has arrived.
            let lag_ms = std::mem::replace(&mut self.servers[to].lag_ms, 0);
            self.catch_up(to);
            self.servers[to].lag_ms = lag_ms;
        } else {
            self.catch_up(to);
        }
        let id = self.rng.next();
        self.settle(to);
        self.servers[to].promote(id);
        self.servers[to].link_cut = false;
        self.note_generation(to, What::Promotion);
        if self.is_cluster() {
            self.take_over_shard(before, to);
        } else {
            self.master = to;
            self.homes.fill(to);
            self.part_homes.fill(to);
        }
        self.note_ruler(to);
        self.some_guards_reconnect();
        for sentinel in 0..self.sentinels.len() {
            let ms = 1 + self.rng.below(300);
            self.after(ms, Heal::Names { sentinel, server: to });
        }
        for server in 0..self.servers.len() {
            if server != to
                && server != before
                && (!self.is_cluster() || self.servers[server].follows == Some(before))
            {
                self.servers[server].follows = Some(to);
                self.after(700, Heal::Follow { server });
            }
        }
        match old {
            OldMaster::Killed => {
                self.after(ms, Heal::Start { server: before, keeps: Keeps::All, loading_ms: 0 })
            }
            OldMaster::Frozen => self.after(ms, Heal::Thaw { server: before }),
            OldMaster::Alive => {}
        }
        let hears_ms =
            if self.is_cluster() { 20 + self.fault % 1_500 } else { 800 + self.fault % 9_000 };
        self.after(ms + hears_ms, Heal::Follow { server: before });
        for task in 0..self.tasks.len() {
            self.contend(task, 100);
        }
        self.list_replicas();
        for server in 0..self.servers.len() {
            for task in 0..self.tasks.len() {
                self.note_wanting(server, task);
            }
        }
        self.rewrite_later(60_000, 150_000);
    }

    /// It learns which server to follow.
    pub(super) fn follow(&mut self, server: usize) {
        let master = self.master_of(server);
        if server == master {
            return;
        }
        for worker in self.tasks.iter_mut().flat_map(|task| &mut task.workers) {
            if worker.sticks_to == Some(server) {
                worker.sticks_to = None;
            }
        }
        self.servers[server].follows = Some(master);
        self.servers[server].alone = false;
        if self.is_cluster() {
            self.hear_layout(server);
        }
        self.follow_now(server);
        self.settled_at = self.now;
    }
}
