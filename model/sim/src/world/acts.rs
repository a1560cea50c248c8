//! What each step of a plan does, and how it heals.

use std::sync::Arc;

use super::workers::Job;
use super::{Cut, World};
use crate::plan::{Act, Forbidden, OldMaster};
use crate::queue::Event;
use crate::server::{Entry, Health, Value};
use crate::truth::{Cause, What};

/// Something is over, or begins because something else has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heal {
    Switch { task: usize, user: usize },
    Look { task: usize },
    Odd { task: usize, fault: u64 },
    Start { server: usize, empty: bool, loading_ms: u64 },
    Loaded { server: usize },
    Thaw { server: usize },
    Ready { server: usize },
    Quick { server: usize },
    Accepts { server: usize },
    Allows { server: usize },
    Link { agent: usize, server: usize, what: usize, fault: u64 },
    Phantom { task: usize, left: u64 },
    GiveBack { task: usize, number: u64 },
    Promote { to: usize, old: OldMaster, ms: u64 },
    Kill { server: usize },
    Freeze { server: usize },
    Follow { server: usize },
    Names { sentinel: usize, server: usize },
    Sentinel { sentinel: usize, fault: u64 },
    Lag { server: usize, lag_ms: u64 },
    SecondGone { task: usize },
}

impl World {
    fn after(&mut self, ms: u64, heal: Heal) {
        self.queue.push(self.now + ms, Event::Heal(heal));
    }

    /// The worker that believes to hold the lock and whose process lives.
    fn holder(&self, task: usize) -> Option<usize> {
        self.tasks[task].workers.iter().position(|worker| worker.hold.is_some() && worker.alive)
    }

    /// A worker that waits.
    fn idle(&self, task: usize) -> Option<usize> {
        self.tasks[task]
            .workers
            .iter()
            .position(|worker| worker.runs(self.now) && worker.hold.is_none() && !worker.working)
    }

    pub(super) fn act(&mut self, act: Act) {
        self.fault += 1;
        match act {
            Act::Switch { task, user, on } => {
                self.tasks[task].wishes[user] = on;
                self.write_switch(task, user);
            }
            Act::SwitchAll { task, on } => {
                for user in 0..self.tasks[task].wishes.len() {
                    self.tasks[task].wishes[user] = on;
                    self.write_switch(task, user);
                }
            }
            Act::RemoveSwitch { task, user } => self.remove_switch(task, user),
            Act::GarbleSwitch { task, user, ms } => {
                self.garble_switch(task, user);
                self.after(ms, Heal::Switch { task, user });
            }
            Act::IgnoreOff { task, ms } => {
                let until = self.now + ms;
                if let Some(worker) = self.holder(task).or(self.idle(task)) {
                    self.tasks[task].workers[worker].ignores_off_until = until;
                    self.contend(task, 10);
                }
            }
            Act::Crash { .. }
            | Act::CrashAll { .. }
            | Act::PauseWorker { .. }
            | Act::DeadThread { .. }
            | Act::Release { .. }
            | Act::ReEnter { .. }
            | Act::PileUp { .. }
            | Act::Phantoms { .. }
            | Act::StopWatchdog { .. }
            | Act::DeleteLock { .. }
            | Act::SecondHolder { .. }
            | Act::StealBesideLiving { .. }
            | Act::Persist { .. }
            | Act::WrongType { .. }
            | Act::StrangeLayout { .. } => self.act_on_workers(act),
            Act::RestartServer { server, empty, down_ms, loading_ms } => {
                if self.servers[server].health == Health::Up {
                    self.stop_server(server);
                    self.after(down_ms + 1, Heal::Start { server, empty, loading_ms });
                }
            }
            Act::Flush { .. } => {
                let server = self.master;
                if self.servers[server].writable() {
                    self.settle(server);
                    self.cause = Cause::Lost;
                    self.note_generation(server, What::Flush);
                    let now = self.now;
                    self.servers[server].flush(now);
                    self.note_changes();
                    self.rewrite_later(20_000, 150_000);
                }
            }
            Act::FlushOther { .. } => {
                let server = self.master;
                if self.servers[server].writable() {
                    self.servers[server].history.flushes += 1;
                    self.note_generation(server, What::OtherFlush);
                }
            }
            Act::EvictLock { task } => {
                let (server, now) = (self.master, self.now);
                let key = Arc::clone(&self.tasks[task].keys.lock);
                if self.servers[server].writable() && self.servers[server].get(&key, now).is_some() {
                    self.cause = Cause::Lost;
                    self.note_generation(server, What::Eviction);
                    self.servers[server].evict(&key, now);
                    self.note_changes();
                }
            }
            Act::EvictSwitches { task } => {
                let (server, now) = (self.master, self.now);
                let keys = self.tasks[task].keys.switches.clone();
                if let (Some(key), true) = (keys.first(), self.servers[server].writable()) {
                    self.note_generation(server, What::Eviction);
                    self.servers[server].evict(key, now);
                    self.note_changes();
                    self.look_soon(task);
                    for user in 0..self.tasks[task].wishes.len() {
                        let ms = self.tasks[task].rng.within(20_000, 150_000);
                        self.after(ms, Heal::Switch { task, user });
                    }
                }
            }
            Act::Freeze { server, ms } => {
                if self.servers[server].health == Health::Up {
                    self.servers[server].health = Health::Frozen;
                    self.after(ms, Heal::Thaw { server });
                }
            }
            Act::Busy { server, ms } => {
                if self.servers[server].health == Health::Up {
                    self.servers[server].health = Health::Busy;
                    self.after(ms, Heal::Ready { server });
                }
            }
            Act::Slow { server, each_ms, ms } => {
                self.servers[server].slow_ms = each_ms;
                self.after(ms, Heal::Quick { server });
            }
            Act::Refuse { server, why, ms } => {
                self.servers[server].refuses = Some(why);
                self.drop_connections(server);
                self.after(ms, Heal::Accepts { server });
            }
            Act::Forbid { server, what, ms } => {
                let ending: &[u8] = match what {
                    Forbidden::Locks => b":lock",
                    Forbidden::Switches => b":users",
                    Forbidden::Progress => b":progress",
                    Forbidden::Claims => b":claims",
                };
                self.servers[server].forbids = Some(ending.to_vec());
                self.after(ms, Heal::Allows { server });
            }
            Act::StepClock { server, by_ms } => {
                self.settle(server);
                let now = self.now;
                self.servers[server].clock.step(now, by_ms);
                self.settle(server);
                self.settled_at = now;
                for task in 0..self.tasks.len() {
                    self.contend(task, 5);
                }
            }
            Act::Cut { agent, server, silently, ms } => {
                self.links[agent][server].cut = Some(if silently { Cut::Silently } else { Cut::Loudly });
                if !silently {
                    self.reset_link(agent, server);
                }
                self.heal_link(agent, server, 0, ms);
            }
            Act::Delay { agent, server, each_way_ms, ms } => {
                self.links[agent][server].each_way_ms = each_way_ms;
                self.heal_link(agent, server, 1, ms);
            }
            Act::DropReplies { agent, server, ms } => {
                self.links[agent][server].drops = true;
                self.heal_link(agent, server, 2, ms);
            }
            Act::Tear { agent, server, ms } => {
                self.links[agent][server].tears = true;
                self.heal_link(agent, server, 3, ms);
            }
            Act::PauseAgent { agent, ms } => {
                self.paused_until[agent] = self.paused_until[agent].max(self.now + ms);
            }
            Act::RestartAgent { agent } => self.restarts.push(agent),
            Act::StepAgentWall { agent, by_ms } => self.wall_offset[agent] += by_ms,
            Act::Failover { .. }
            | Act::Partition { .. }
            | Act::CutSentinels { .. }
            | Act::LyingSentinel { .. }
            | Act::Lag { .. } => {
                self.act_on_servers(act);
            }
        }
    }

    fn act_on_workers(&mut self, act: Act) {
        match act {
            Act::Crash { task, ms } => {
                if let Some(worker) = self.holder(task) {
                    self.crash(task, worker, ms);
                }
            }
            Act::CrashAll { task, ms } => {
                for worker in 0..self.tasks[task].workers.len() {
                    self.crash(task, worker, ms + worker as u64 * 200);
                }
            }
            Act::PauseWorker { task, ms } => {
                if let Some(worker) = self.holder(task) {
                    self.tasks[task].workers[worker].paused_until = self.now + ms;
                }
            }
            Act::DeadThread { task, ms } => {
                if let Some(worker) = self.holder(task) {
                    let number = self.tasks[task].workers[worker].holds;
                    self.tasks[task].workers[worker].working = false;
                    self.later(task, worker, ms, Job::Mend(number));
                }
            }
            Act::Release { task } => {
                if let Some(worker) = self.holder(task) {
                    let number = self.tasks[task].workers[worker].holds;
                    self.later(task, worker, 1, Job::Leave(number));
                }
            }
            Act::ReEnter { task, lease, ms } => self.re_enter(task, lease, ms),
            Act::PileUp { task, timers } => {
                if let Some(worker) = self.holder(task) {
                    let hold = self.tasks[task].workers[worker].hold;
                    for _ in 0..timers {
                        let ms = self.tasks[task].rng.within(1, 1_000 + hold.map_or(0, |hold| hold.lease_ms / 3));
                        self.later(task, worker, ms, Job::Renew(hold.map_or(0, |hold| hold.number)));
                    }
                }
            }
            Act::Phantoms { task, count } => self.after(1, Heal::Phantom { task, left: count }),
            Act::StopWatchdog { task } => {
                if let Some(worker) = self.holder(task)
                    && let Some(hold) = &mut self.tasks[task].workers[worker].hold
                {
                    hold.renews = false;
                    let (number, left_ms) = (hold.number, hold.lease_ms);
                    self.later(task, worker, left_ms * 2, Job::Leave(number));
                }
            }
            Act::DeleteLock { task } => self.delete_lock(task),
            Act::StealBesideLiving { task } => {
                // Somebody deletes the lock by hand while its holder works on.
                if let Some(worker) = self.holder(task)
                    && let Some(hold) = &mut self.tasks[task].workers[worker].hold
                {
                    hold.renews = false;
                    let number = hold.number;
                    self.later(task, worker, 45_000, Job::Leave(number));
                    self.delete_lock(task);
                }
            }
            Act::SecondHolder { task, ms } => self.second_holder(task, ms),
            Act::Persist { task } => {
                let (server, now) = (self.master, self.now);
                let key = Arc::clone(&self.tasks[task].keys.lock);
                if let (Some(entry), true) =
                    (self.servers[server].get(&key, now).cloned(), self.servers[server].writable())
                {
                    self.cause = Cause::Odd;
                    self.servers[server].put(&key, Some(Entry { deadline: None, ..entry }), now);
                }
            }
            Act::WrongType { task, ms } => self.make_odd(task, ms, Value::List(3)),
            Act::StrangeLayout { task, ms } => {
                let odd = vec![(b"owner".to_vec(), b"somebody".to_vec())];
                self.make_odd(task, ms, Value::Hash(odd));
            }
            _ => {}
        }
    }

    fn crash(&mut self, task: usize, worker: usize, ms: u64) {
        let who = &mut self.tasks[task].workers[worker];
        if !who.alive {
            return;
        }
        (who.alive, who.working, who.hold, who.paused_until) = (false, false, None, 0);
        self.later(task, worker, ms, Job::Start);
    }

    fn delete_lock(&mut self, task: usize) {
        let (server, now) = (self.master, self.now);
        if self.servers[server].writable() {
            let key = Arc::clone(&self.tasks[task].keys.lock);
            self.cause = Cause::Deleted;
            self.servers[server].put(&key, None, now);
            self.note_changes();
        }
    }

    fn re_enter(&mut self, task: usize, lease: bool, ms: u64) {
        let (Some(worker), true, server) = (self.holder(task), self.tasks[task].redisson, self.master) else { return };
        if !self.servers[server].writable()
            || !self.owns(task, worker, server)
            || self.tasks[task].workers[worker].sticks_to.is_some()
        {
            return;
        }
        let Some(hold) = self.tasks[task].workers[worker].hold.filter(|hold| hold.renews && hold.entries < 3) else {
            return;
        };
        let lease_ms = if lease { hold.lease_ms * 2 } else { hold.lease_ms };
        self.write_lock(task, worker, server, lease_ms, hold.entries + 1);
        if let Some(hold) = &mut self.tasks[task].workers[worker].hold {
            hold.entries += 1;
        }
        self.later(task, worker, ms, Job::Exit(hold.number));
    }

    fn second_holder(&mut self, task: usize, ms: u64) {
        let (server, now) = (self.master, self.now);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let held = self.servers[server].get(&key, now).is_some();
        if !self.tasks[task].redisson || !held || !self.servers[server].writable() || self.tasks[task].odd.is_some() {
            return;
        }
        self.cause = Cause::Odd;
        self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                fields.push((b"deadbeef-0000-4000-8000-000000000000:9".to_vec(), b"1".to_vec()));
            }
        });
        self.after(ms, Heal::SecondGone { task });
    }

    fn make_odd(&mut self, task: usize, ms: u64, value: Value) {
        let (server, now) = (self.master, self.now);
        if !self.servers[server].writable() || self.tasks[task].odd.is_some() {
            return;
        }
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let value = match (value, self.tasks[task].redisson) {
            // For a lock that is a string, a hash is the wrong type.
            (Value::Hash(fields), _) => Value::Hash(fields),
            (_, true) => Value::Text(b"x".to_vec()),
            (value, false) => value,
        };
        self.tasks[task].odd = Some(self.fault);
        self.cause = Cause::Odd;
        self.servers[server].put(&key, Some(Entry { value, deadline: None }), now);
        self.note_changes();
        self.after(ms, Heal::Odd { task, fault: self.fault });
    }

    fn heal_link(&mut self, agent: usize, server: usize, what: usize, ms: u64) {
        let fault = self.fault;
        self.links[agent][server].faults[what] = fault;
        self.after(ms, Heal::Link { agent, server, what, fault });
    }

    fn act_on_servers(&mut self, act: Act) {
        let master = self.master;
        match act {
            Act::Failover { lose_ms, old, ms } => {
                let fit = |server: &usize| {
                    self.servers[*server].follows == Some(master) && self.servers[*server].health == Health::Up
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
                let detect = if old == OldMaster::Alive { 5 } else { 1_500 + self.rng.below(2_000) };
                self.after(lose_ms + detect, Heal::Promote { to, old, ms });
            }
            Act::Partition { ms } => {
                // The master and the workers that hold are on one side, everybody else on the other.
                let fit = |server: &usize| {
                    self.servers[*server].follows == Some(master) && self.servers[*server].health == Health::Up
                };
                let Some(to) = (0..self.servers.len()).find(fit) else { return };
                for task in 0..self.tasks.len() {
                    if let Some(worker) = self.holder(task)
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
                    self.sentinels[last].names = (master + 1) % self.servers.len();
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

    /// The process is gone; its connections break.
    fn stop_server(&mut self, server: usize) {
        self.settle(server);
        self.servers[server].health = Health::Down;
        self.waiting[server].clear();
        self.drop_connections(server);
        self.list_replicas();
    }

    /// Every connection to a server ends; nobody new is kept out by this.
    fn drop_connections(&mut self, server: usize) {
        self.lives[server] += 1;
        for agent in 0..self.links.len() {
            self.reset_link(agent, server);
        }
    }

    /// The agent sees its connection break, unless nothing reaches it.
    fn reset_link(&mut self, agent: usize, server: usize) {
        if self.links[agent][server].cut != Some(Cut::Silently) {
            self.queue.push(self.now, Event::Break { agent, life: u32::MAX, server, connection: u64::MAX });
        }
    }

    pub(super) fn heal(&mut self, heal: Heal) {
        let now = self.now;
        match heal {
            Heal::Switch { task, user } => self.write_switch(task, user),
            Heal::Look { task } => self.poll(task),
            Heal::Odd { task, fault } => {
                if self.tasks[task].odd == Some(fault) {
                    self.tasks[task].odd = None;
                    let server = self.master;
                    let key = Arc::clone(&self.tasks[task].keys.lock);
                    let still = self.servers[server].get(&key, now).is_some_and(|entry| entry.deadline.is_none());
                    if still {
                        self.cause = Cause::Odd;
                        self.servers[server].put(&key, None, now);
                        self.note_changes();
                    }
                }
            }
            Heal::Start { server, empty, loading_ms } => self.start_server(server, empty, loading_ms),
            Heal::Loaded { server } => {
                if self.servers[server].health == Health::Loading {
                    self.servers[server].health = Health::Up;
                    self.resync(server);
                }
            }
            Heal::Thaw { server } => {
                if self.servers[server].health == Health::Frozen {
                    self.servers[server].health = Health::Up;
                    for request in std::mem::take(&mut self.waiting[server]) {
                        self.queue.push(now, Event::Request(request));
                    }
                }
            }
            Heal::Ready { server } => {
                if self.servers[server].health == Health::Busy {
                    self.servers[server].health = Health::Up;
                }
            }
            Heal::Quick { server } => self.servers[server].slow_ms = 0,
            Heal::Accepts { server } => self.servers[server].refuses = None,
            Heal::Allows { server } => self.servers[server].forbids = None,
            Heal::Link { agent, server, what, fault } => {
                let link = &mut self.links[agent][server];
                if link.faults[what] == fault {
                    match what {
                        0 => link.cut = None,
                        1 => link.each_way_ms = 0,
                        2 => link.drops = false,
                        _ => link.tears = false,
                    }
                }
            }
            Heal::Phantom { task, left } => self.phantom(task, left),
            Heal::GiveBack { task, number } => {
                let key = Arc::clone(&self.tasks[task].keys.lock);
                let server = self.master;
                let phantom = phantom_name(number);
                let own = match self.servers[server].get(&key, now).map(|entry| &entry.value) {
                    Some(Value::Hash(fields)) => fields.iter().any(|(field, _)| field.starts_with(&phantom)),
                    Some(Value::Text(token)) => *token == phantom,
                    _ => false,
                };
                if own && self.servers[server].writable() {
                    self.servers[server].put(&key, None, now);
                    self.note_changes();
                }
            }
            Heal::SecondGone { task } => {
                let key = Arc::clone(&self.tasks[task].keys.lock);
                let server = self.master;
                if self.tasks[task].odd.is_none()
                    && self.servers[server].writable()
                    && self.servers[server].get(&key, now).is_some()
                {
                    self.cause = Cause::Odd;
                    self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
                        if let Value::Hash(fields) = value {
                            fields.retain(|(field, _)| !field.starts_with(b"deadbeef"));
                        }
                    });
                }
            }
            Heal::Promote { to, old, ms } => self.promote(to, old, ms),
            Heal::Kill { server } => {
                if self.servers[server].health == Health::Up {
                    self.stop_server(server);
                }
            }
            Heal::Freeze { server } => {
                if self.servers[server].health == Health::Up {
                    self.servers[server].health = Health::Frozen;
                }
            }
            Heal::Follow { server } => self.follow(server),
            Heal::Names { sentinel, server } => self.sentinels[sentinel].names = server,
            Heal::Sentinel { sentinel, fault } => {
                self.settled_at = now;
                if self.sentinels[sentinel].fault == fault {
                    self.sentinels[sentinel].reachable = true;
                    self.sentinels[sentinel].names = self.master;
                }
            }
            Heal::Lag { server, lag_ms } => self.servers[server].lag_ms = lag_ms,
        }
    }

    /// A client that has the lock for a second and never knows of it.
    fn phantom(&mut self, task: usize, left: u64) {
        let (server, now) = (self.master, self.now);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let number = self.id();
        if self.servers[server].writable() && self.servers[server].get(&key, now).is_none() {
            let name = phantom_name(number);
            let value = match self.tasks[task].redisson {
                true => Value::Hash(vec![([name.as_slice(), b":3"].concat(), b"1".to_vec())]),
                false => Value::Text(name),
            };
            let deadline = self.servers[server].clock.at(now) + 30_000;
            self.servers[server].put(&key, Some(Entry { value, deadline: Some(deadline) }), now);
            self.note_changes();
            let ms = self.tasks[task].rng.within(1_000, 1_100);
            self.after(ms, Heal::GiveBack { task, number });
        }
        if left > 1 {
            let ms = self.tasks[task].rng.within(1_200, 4_000);
            self.after(ms, Heal::Phantom { task, left: left - 1 });
        }
    }

    fn start_server(&mut self, server: usize, empty: bool, loading_ms: u64) {
        let run_id = self.rng.next();
        let now = self.now;
        self.settle(server);
        self.cause = if empty { Cause::Lost } else { Cause::Worker };
        self.servers[server].restart(run_id, empty, now);
        self.note_generation(server, What::Restart { empty });
        self.note_changes();
        self.lives[server] += 1;
        if loading_ms > 0 {
            self.servers[server].health = Health::Loading;
            self.after(loading_ms, Heal::Loaded { server });
        } else {
            self.servers[server].health = Health::Up;
            self.resync(server);
        }
        if empty && server == self.master {
            self.rewrite_later(20_000, 150_000);
        }
    }

    /// Those who follow a server copy it; it copies whom it follows.
    fn resync(&mut self, server: usize) {
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

    fn follow_now(&mut self, server: usize) {
        let Some(master) = self.servers[server].follows else { return };
        self.servers[server].link_cut = false;
        if self.servers[master].health == Health::Down || self.servers[server].health != Health::Up {
            return;
        }
        let now = self.now;
        self.settle(server);
        let [own, other] =
            self.servers.get_disjoint_mut([server, master]).unwrap_or_else(|_| unreachable!("nobody follows itself"));
        if own.history.replication_id != other.history.replication_id {
            own.full_sync(other, now);
        }
        self.cause = Cause::Odd;
        self.note_changes();
        self.list_replicas();
    }

    fn promote(&mut self, to: usize, old: OldMaster, ms: u64) {
        let before = self.master;
        if self.servers[to].health != Health::Up || self.servers[to].follows.is_none() {
            return;
        }
        if self.servers[before].health != Health::Down && !self.servers[to].link_cut && old == OldMaster::Alive {
            // An orderly one waits until everything has arrived.
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
        self.master = to;
        self.note_ruler(to);
        for sentinel in 0..self.sentinels.len() {
            let ms = 1 + self.rng.below(300);
            self.after(ms, Heal::Names { sentinel, server: to });
        }
        for server in 0..self.servers.len() {
            if server != to && server != before {
                self.servers[server].follows = Some(to);
                self.after(700, Heal::Follow { server });
            }
        }
        match old {
            OldMaster::Killed => self.after(ms, Heal::Start { server: before, empty: false, loading_ms: 0 }),
            OldMaster::Frozen => self.after(ms, Heal::Thaw { server: before }),
            OldMaster::Alive => {}
        }
        self.after(ms + 800 + self.fault % 9_000, Heal::Follow { server: before });
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

    /// It learns whom it has to follow.
    fn follow(&mut self, server: usize) {
        if server == self.master {
            return;
        }
        for worker in self.tasks.iter_mut().flat_map(|task| &mut task.workers) {
            if worker.sticks_to == Some(server) {
                worker.sticks_to = None;
            }
        }
        self.servers[server].follows = Some(self.master);
        self.follow_now(server);
        self.settled_at = self.now;
    }
}

fn phantom_name(number: u64) -> Vec<u8> {
    format!("ba5eba11-0000-4000-8000-{number:012x}").into_bytes()
}
