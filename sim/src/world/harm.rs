//! Faults of workers and their locks.

use std::sync::Arc;

use super::state::World;
use crate::event::{Heal, Job};
use crate::plan::Act;
use crate::server::{Entry, Value};
use crate::truth::Cause;

impl World {
    pub(super) fn act_on_workers(&mut self, act: Act) {
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
                        let ms = self.tasks[task]
                            .rng
                            .within(1, 1_000 + hold.map_or(0, |hold| hold.lease_ms / 3));
                        self.later(
                            task,
                            worker,
                            ms,
                            Job::Renew(hold.map_or(0, |hold| hold.number)),
                        );
                    }
                }
            }
            Act::Phantoms { task, count } => self.after(1, Heal::Phantom { task, left: count }),
            Act::Loop { task, held_ms, free_ms, runs_out, left } => {
                let taken = self.hold_shortly(task, if runs_out { held_ms } else { 30_000 });
                if let (Some(number), false) = (taken, runs_out) {
                    self.after(held_ms, Heal::GiveBack { task, number });
                }
                if let Some(left) = left.checked_sub(1) {
                    let next = Act::Loop { task, held_ms, free_ms, runs_out, left };
                    self.after(held_ms + free_ms, Heal::Act(next));
                }
            }
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
                // A user deletes the lock by hand while its holder continues to work.
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
                let (server, now) = (self.homes[task], self.now);
                let key = Arc::clone(&self.tasks[task].keys.lock);
                if let (Some(entry), true) =
                    (self.servers[server].get(&key, now).cloned(), self.servers[server].writable())
                {
                    self.cause = Cause::Odd;
                    self.servers[server].put(&key, Some(Entry { deadline: None, ..entry }), now);
                }
            }
            Act::WrongType { task, ms } => self.make_odd(task, ms, Value::List(3)),
            Act::Huge { task, ms } => self.make_odd(task, ms, Value::Huge),
            Act::Deploy { task, ms } => self.deploy(task, ms),
            Act::StrangeLayout { task, ms } => {
                let odd = vec![(b"owner".to_vec(), b"somebody".to_vec())];
                self.make_odd(task, ms, Value::Hash(odd));
            }
            _ => {}
        }
    }

    pub(super) fn crash(&mut self, task: usize, worker: usize, ms: u64) {
        let who = &mut self.tasks[task].workers[worker];
        if !who.alive {
            return;
        }
        (who.alive, who.working, who.hold, who.paused_until) = (false, false, None, 0);
        self.later(task, worker, ms, Job::Start);
    }

    pub(super) fn delete_lock(&mut self, task: usize) {
        let (server, now) = (self.homes[task], self.now);
        if self.servers[server].writable() {
            let key = Arc::clone(&self.tasks[task].keys.lock);
            self.cause = Cause::Deleted;
            self.servers[server].put(&key, None, now);
            self.note_changes();
        }
    }

    pub(super) fn re_enter(&mut self, task: usize, lease: bool, ms: u64) {
        let (Some(worker), true, server) =
            (self.holder(task), self.tasks[task].redisson, self.homes[task])
        else {
            return;
        };
        if !self.servers[server].writable()
            || !self.owns(task, worker, server)
            || self.tasks[task].workers[worker].sticks_to.is_some()
        {
            return;
        }
        let Some(hold) =
            self.tasks[task].workers[worker].hold.filter(|hold| hold.renews && hold.entries < 3)
        else {
            return;
        };
        let lease_ms = if lease { hold.lease_ms * 2 } else { hold.lease_ms };
        self.write_lock(task, worker, server, lease_ms, hold.entries + 1);
        if let Some(hold) = &mut self.tasks[task].workers[worker].hold {
            hold.entries += 1;
        }
        self.later(task, worker, ms, Job::Exit(hold.number));
    }

    pub(super) fn second_holder(&mut self, task: usize, ms: u64) {
        let (server, now) = (self.homes[task], self.now);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let held = self.servers[server].get(&key, now).is_some();
        if !self.tasks[task].redisson
            || !held
            || !self.servers[server].writable()
            || self.tasks[task].odd.is_some()
        {
            return;
        }
        self.cause = Cause::Odd;
        self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                let second = b"deadbeef-0000-4000-8000-000000000000:9".as_slice();
                // A hash has each field once.
                fields.retain(|(field, _)| field != second);
                fields.push((second.to_vec(), b"1".to_vec()));
            }
        });
        self.after(ms, Heal::SecondGone { task });
    }

    pub(super) fn make_odd(&mut self, task: usize, ms: u64, value: Value) {
        let (server, now) = (self.homes[task], self.now);
        if !self.servers[server].writable() || self.tasks[task].odd.is_some() {
            return;
        }
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let value = match (value, self.tasks[task].redisson) {
            // For a lock that is a string, a hash is the wrong type.
            (Value::Hash(fields), _) => Value::Hash(fields),
            (Value::Huge, true) => Value::Huge,
            (Value::Huge, false) => Value::List(3),
            (_, true) => Value::Text(b"x".to_vec()),
            (value, false) => value,
        };
        self.tasks[task].was_huge |= value == Value::Huge;
        self.tasks[task].odd = Some(self.fault);
        self.cause = Cause::Odd;
        self.servers[server].put(&key, Some(Entry { value, deadline: None }), now);
        self.note_changes();
        self.after(ms, Heal::Odd { task, fault: self.fault });
    }

    /// A deploy script asks alerts to wait.
    fn deploy(&mut self, task: usize, ms: u64) {
        let (server, now) = (self.part_homes[task], self.now);
        let Some(key) = self.tasks[task].keys.pause.clone() else { return };
        if self.servers[server].writable() {
            let until = self.servers[server].clock.at(now + ms) / 1_000;
            let value = Value::Text(until.to_string().into_bytes());
            self.servers[server].put(&key, Some(Entry { value, deadline: None }), now);
            self.note_changes();
        }
    }

    /// A client holds the lock for a second without its application ever learning that.
    pub(super) fn phantom(&mut self, task: usize, left: u64) {
        if let Some(number) = self.hold_shortly(task, 30_000) {
            let ms = self.tasks[task].rng.within(1_000, 1_100);
            self.after(ms, Heal::GiveBack { task, number });
        }
        if left > 1 {
            let ms = self.tasks[task].rng.within(1_200, 4_000);
            self.after(ms, Heal::Phantom { task, left: left - 1 });
        }
    }

    /// A new client takes the lock, if it is free. Returns its number.
    fn hold_shortly(&mut self, task: usize, lease_ms: u64) -> Option<u64> {
        let (server, now) = (self.homes[task], self.now);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let number = self.id();
        let is_free = self.servers[server].get(&key, now).is_none();
        (is_free && self.servers[server].writable()).then(|| {
            let name = phantom_name(number);
            let value = match self.tasks[task].redisson {
                true => Value::Hash(vec![([name.as_slice(), b":3"].concat(), b"1".to_vec())]),
                false => Value::Text(name),
            };
            let deadline =
                self.servers[server].clock.at(now) + i64::try_from(lease_ms).unwrap_or(0);
            self.servers[server].put(&key, Some(Entry { value, deadline: Some(deadline) }), now);
            self.note_changes();
            number
        })
    }

    /// The worker that believes to hold the lock and whose process is alive.
    pub(super) fn holder(&self, task: usize) -> Option<usize> {
        self.tasks[task].workers.iter().position(|worker| worker.hold.is_some() && worker.alive)
    }

    /// A waiting worker.
    pub(super) fn idle(&self, task: usize) -> Option<usize> {
        self.tasks[task]
            .workers
            .iter()
            .position(|worker| worker.runs(self.now) && worker.hold.is_none() && !worker.working)
    }

    /// Removes malformed data from the lock.
    pub(super) fn odd_gone(&mut self, task: usize, fault: u64) {
        let now = self.now;
        if self.tasks[task].odd == Some(fault) {
            self.tasks[task].odd = None;
            let server = self.homes[task];
            let key = Arc::clone(&self.tasks[task].keys.lock);
            let still =
                self.servers[server].get(&key, now).is_some_and(|entry| entry.deadline.is_none());
            if still {
                self.cause = Cause::Odd;
                self.servers[server].put(&key, None, now);
                self.note_changes();
            }
        }
    }

    /// A phantom releases its lock.
    pub(super) fn give_back(&mut self, task: usize, number: u64) {
        let now = self.now;
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let server = self.homes[task];
        let phantom = phantom_name(number);
        let own = match self.servers[server].get(&key, now).map(|entry| &entry.value) {
            Some(Value::Hash(fields)) => {
                fields.iter().any(|(field, _)| field.starts_with(&phantom))
            }
            Some(Value::Text(token)) => *token == phantom,
            _ => false,
        };
        if own && self.servers[server].writable() {
            self.servers[server].put(&key, None, now);
            self.note_changes();
        }
    }

    /// The second holder leaves.
    pub(super) fn second_gone(&mut self, task: usize) {
        let now = self.now;
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let server = self.homes[task];
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
}

fn phantom_name(number: u64) -> Vec<u8> {
    format!("ba5eba11-0000-4000-8000-{number:012x}").into_bytes()
}
