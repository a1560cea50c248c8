//! The effect of each step of a plan, and how it heals.

use std::sync::Arc;

use super::state::{Cut, World};
use crate::event::{Event, Heal};
use crate::plan::{Act, Forbidden};
use crate::server::Health;
use crate::truth::{Cause, What};

impl World {
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
            | Act::Loop { .. }
            | Act::StopWatchdog { .. }
            | Act::DeleteLock { .. }
            | Act::SecondHolder { .. }
            | Act::StealBesideLiving { .. }
            | Act::Persist { .. }
            | Act::WrongType { .. }
            | Act::Huge { .. }
            | Act::Deploy { .. }
            | Act::StrangeLayout { .. } => self.act_on_workers(act),
            Act::RestartServer { server, keeps, down_ms, loading_ms } => {
                if self.servers[server].health == Health::Up {
                    self.stop_server(server);
                    self.after(down_ms + 1, Heal::Start { server, keeps, loading_ms });
                }
            }
            Act::Flush { server } => {
                let server = if self.is_cluster() { server } else { self.master };
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
            Act::FlushOther { server } => {
                let server = if self.is_cluster() { server } else { self.master };
                if self.servers[server].writable() {
                    self.servers[server].history.flushes += 1;
                    self.note_generation(server, What::OtherFlush);
                }
            }
            Act::EvictLock { task } => {
                let (server, now) = (self.homes[task], self.now);
                let key = Arc::clone(&self.tasks[task].keys.lock);
                if self.servers[server].writable() && self.servers[server].get(&key, now).is_some()
                {
                    self.cause = Cause::Lost;
                    self.note_generation(server, What::Eviction);
                    self.servers[server].evict(&key, now);
                    self.note_changes();
                }
            }
            Act::EvictSwitches { task } => {
                let (server, now) = (self.part_homes[task], self.now);
                let key = self.tasks[task].keys.switches.first().cloned();
                let kept = key.filter(|key| {
                    self.servers[server].writable() && self.servers[server].get(key, now).is_some()
                });
                if let Some(key) = kept {
                    self.note_generation(server, What::Eviction);
                    self.servers[server].evict(&key, now);
                    self.note_changes();
                    self.look_soon(task);
                    for user in 0..self.tasks[task].wishes.len() {
                        let ms = self.tasks[task].rng.within(20_000, 150_000);
                        self.after(ms, Heal::Switch { task, user });
                    }
                }
            }
            Act::Hang { server, agent, ms } => {
                // A server that hangs while the configuration is read again and again.
                self.act(Act::Freeze { server, ms });
                (1..=ms / 1_500).for_each(|turn| self.after(turn * 1_500, Heal::Reload { agent }));
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
                self.servers[server].expire(now);
                self.note_changes();
                self.servers[server].clock.step(now, by_ms);
                self.settle(server);
                self.settled_at = now;
                for task in 0..self.tasks.len() {
                    self.contend(task, 5);
                }
            }
            Act::Cut { agent, server, silently, ms } => {
                self.links[agent][server].cut =
                    Some(if silently { Cut::Silently } else { Cut::Loudly });
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
            Act::PauseAgent { agent, ms } => match self.rng.percent(50) {
                true => self.pauses[agent] = Some(ms),
                false => self.paused_until[agent] = self.paused_until[agent].max(self.now + ms),
            },
            Act::RestartAgent { agent } => self.restarts.push(agent),
            // A stopped process would get the order later; here, it does not get it at all.
            Act::Reload { agent } if self.paused_until[agent] > self.now => {}
            Act::Reload { agent } => self.reloads.push((agent, true)),
            Act::StepAgentWall { agent, by_ms } => self.wall_offset[agent] += by_ms,
            Act::MoveSlot { task, to, ms } => self.move_slot(task, to, ms),
            Act::PauseGuard { .. }
            | Act::PauseKeeper { .. }
            | Act::PauseBoth { .. }
            | Act::KillGuard { .. }
            | Act::KillKeeper { .. }
            | Act::StopGuard { .. }
            | Act::CutGuard { .. }
            | Act::LagGuard { .. } => self.act_on_guards(act),
            Act::Turn { task, what, ms } => self.act_on_turns(task, what, ms),
            Act::Queue { task, what, ms } => self.act_on_queue(task, what, ms),
            Act::Runs { task, what, ms } => self.act_on_runs(task, what, ms),
            Act::Failover { .. }
            | Act::Partition { .. }
            | Act::CutSentinels { .. }
            | Act::LyingSentinel { .. }
            | Act::Lag { .. } => {
                self.act_on_servers(act);
            }
        }
    }

    fn heal_link(&mut self, agent: usize, server: usize, what: usize, ms: u64) {
        let fault = self.fault;
        self.links[agent][server].faults[what] = fault;
        self.after(ms, Heal::Link { agent, server, what, fault });
    }

    pub(super) fn heal(&mut self, heal: Heal) {
        let now = self.now;
        match heal {
            Heal::Switch { task, user } => self.write_switch(task, user),
            Heal::Look { task } => self.poll(task),
            Heal::Odd { task, fault } => self.odd_gone(task, fault),
            Heal::Start { server, keeps, loading_ms } => {
                self.start_server(server, keeps, loading_ms)
            }
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
            Heal::Act(act) => self.act(act),
            Heal::GiveBack { task, number } => self.give_back(task, number),
            Heal::SecondGone { task } => self.second_gone(task),
            Heal::Promote { to, old, ms } => self.promote(to, old, ms),
            Heal::Kill { server } => {
                if self.servers[server].health == Health::Up {
                    self.stop_server(server);
                }
            }
            Heal::Reload { agent } if self.paused_until[agent] > self.now => {}
            Heal::Reload { agent } => self.reloads.push((agent, false)),
            Heal::Freeze { server } => {
                if self.servers[server].health == Health::Up {
                    self.servers[server].health = Health::Frozen;
                }
            }
            Heal::Follow { server } => self.follow(server),
            Heal::Names { sentinel, server } => {
                // A report of an earlier epoch changes nothing.
                if server == self.master {
                    self.sentinels[sentinel].names = server;
                }
            }
            Heal::Sentinel { sentinel, fault } => {
                self.settled_at = now;
                if self.sentinels[sentinel].fault == fault {
                    self.sentinels[sentinel].reachable = true;
                    self.sentinels[sentinel].names = self.master;
                }
            }
            Heal::Layout { server } => self.hear_layout(server),
            Heal::Alone { server } => {
                self.servers[server].alone = self.servers[server].follows.is_none()
            }
            Heal::Together { server } => self.servers[server].alone = false,
            Heal::Lag { server, lag_ms } => self.servers[server].lag_ms = lag_ms,
        }
    }
}
