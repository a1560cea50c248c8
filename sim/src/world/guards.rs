//! Guards: each host runs the real machine of `lockwatch-guard`. Here are what surrounds it: its
//! process, its clock, and what its actions do.

mod client;
mod deeds;
mod faults;
mod keeper;
mod parts;

use lockwatch_guard::{Action, Guard, Input, Reply};
use lockwatch_judge::time::Mono;

use super::state::{Client, Did, Parts, Process, World, instance};
use crate::event::{Event, GuardJob, GuardTurn};

/// Time in milliseconds until systemd starts a guard again that has ended.
const RESTART_MS: u64 = 2_000;

impl World {
    /// Guards start one after the other.
    pub(super) fn start_guards(&mut self) {
        for task in 0..self.tasks.len() {
            for host in 0..self.tasks[task].stations.len() {
                let ms = self.tasks[task].chance.within(1, 3_000);
                self.guard_later(task, host, 0, ms, GuardJob::Start);
            }
        }
    }

    /// Handles what happens to a guard, its keeper or its script.
    pub(super) fn guard_turn(&mut self, turn: GuardTurn) {
        let GuardTurn { task, host, life, what } = turn;
        match what {
            GuardJob::Start => return self.start_guard(task, host, life),
            GuardJob::Arrives(request) => return self.request_arrives(task, host, life, request),
            GuardJob::Keeper { script } => return self.keeper_wakes(task, host, script),
            GuardJob::Ends { script } => return self.script_ends(task, host, script),
            _ => {}
        }
        let now = self.now;
        let station = &mut self.tasks[task].stations[host];
        let mono = station.mono(now);
        let Some(guard) = station.guard.as_mut().filter(|_| station.life == life) else { return };
        if guard.paused_until > now {
            // It continues where it was paused.
            let at = guard.paused_until;
            return self.queue.push(at, Event::Guard(turn));
        }
        match what {
            GuardJob::Wake => {
                if guard.wake_at.is_some_and(|at| at <= now) {
                    guard.wake_at = None;
                }
            }
            GuardJob::Answered { number, reply, is_refused } => {
                if guard.client.number != number || guard.client.in_flight.is_none() {
                    return;
                }
                guard.client.in_flight = None;
                if reply == Reply::Failed && !is_refused {
                    guard.client.server = None;
                }
                // Only a lock that it does not hold shows that waiting mends nothing.
                if is_refused && !guard.machine.holds() {
                    guard.machine.handle(mono, Input::Stop);
                }
                guard.machine.handle(mono, Input::Replied(reply));
                self.send_next(task, host);
            }
            GuardJob::Changed => {
                guard.machine.handle(mono, Input::Changed);
                self.did(task, host, life, Did::Heard);
                self.parts_soon(task, host);
            }
            GuardJob::Parts { number } => self.parts(task, host, number),
            GuardJob::Gone { code, at } => {
                let at = station.mono(at);
                if let Some(guard) = &mut station.guard {
                    guard.machine.handle(mono, Input::Gone { code, at });
                    guard.parts.runs = false;
                }
                self.parts_soon(task, host);
            }
            GuardJob::KeeperGone { script } => self.keeper_is_gone(task, host, script),
            GuardJob::Start
            | GuardJob::Arrives(_)
            | GuardJob::Keeper { .. }
            | GuardJob::Ends { .. } => {}
        }
        self.drive(task, host);
    }

    fn start_guard(&mut self, task: usize, host: usize, before: u32) {
        let Some(plan) = self.plan.tasks[task].guards else { return };
        let (now, seed) = (self.now, self.tasks[task].chance.next());
        let station = &mut self.tasks[task].stations[host];
        if station.life != before || station.guard.is_some() {
            return;
        }
        station.life += 1;
        let life = station.life;
        let instance = instance(task, host, life);
        station.guard = Some(Process {
            instance: instance.into_bytes().into(),
            began: now,
            paused_until: now,
            pause_ms: None,
            machine: Guard::new(plan.terms, station.mono(now), seed),
            wake_at: None,
            client: Client::default(),
            parts: Parts::default(),
        });
        self.parts_soon(task, host);
        self.drive(task, host);
    }

    /// The process of a guard ends, for whatever reason, and systemd starts another one after `ms`.
    fn end_guard(&mut self, task: usize, host: usize, ms: u64) {
        let station = &mut self.tasks[task].stations[host];
        let life = station.life;
        if station.guard.take().is_none() {
            return;
        }
        let scripts: Vec<u64> = station.keepers.iter().map(|keeper| keeper.script_number).collect();
        self.did(task, host, life, Did::Died);
        self.guard_later(task, host, life, ms, GuardJob::Start);
        // Keepers see that at once.
        for script in scripts {
            let ms = self.tasks[task].chance.within(1, 5);
            self.guard_later(task, host, life, ms, GuardJob::Keeper { script });
        }
    }

    /// Carries out what the machine wants, and sets its alarm.
    fn drive(&mut self, task: usize, host: usize) {
        let now = self.now;
        loop {
            let station = &mut self.tasks[task].stations[host];
            let mono = station.mono(now);
            let Some(guard) = &mut station.guard else { return };
            if guard.paused_until > now {
                return;
            }
            let Some(action) = guard.machine.poll(mono) else { break };
            self.carry_out(task, host, action);
        }
        let station = &mut self.tasks[task].stations[host];
        let life = station.life;
        let Some(guard) = &mut station.guard else { return };
        let Some(wake) = guard.machine.next_wake().filter(|wake| *wake < Mono::MAX) else {
            return;
        };
        let at = station.clock.when(i64::try_from(wake.ms()).unwrap_or(i64::MAX)).max(now + 1);
        if guard.wake_at.is_none_or(|planned| at < planned) {
            guard.wake_at = Some(at);
            self.guard_at(task, host, life, at, GuardJob::Wake);
        }
    }

    fn carry_out(&mut self, task: usize, host: usize, action: Action) {
        let life = self.tasks[task].stations[host].life;
        match action {
            Action::Take
            | Action::Renew
            | Action::Look
            | Action::Release
            | Action::Leave { .. } => {
                if let Some(guard) = &mut self.tasks[task].stations[host].guard {
                    guard.client.queue.push_back(action);
                }
                self.send_next(task, host);
            }
            Action::Start { token, dead_by } => self.start_script(task, host, token, dead_by),
            Action::Extend { dead_by } => {
                let station = &mut self.tasks[task].stations[host];
                for keeper in station.keepers.iter_mut().filter(|keeper| keeper.life == life) {
                    keeper.dead_by = dead_by;
                }
            }
            Action::Terminate(_) => self.ask_script_to_end(task, host),
            Action::Kill(_) => self.guard_kills(task, host),
            Action::Report(overrun) => {
                let token = overrun.token;
                self.did(task, host, life, Did::Reported { token });
                if let Some(guard) = &mut self.tasks[task].stations[host].guard {
                    guard.parts.overruns.push_back((token, overrun.to.since_ms(overrun.from)));
                }
                self.parts_soon(task, host);
            }
            Action::End(_) => {
                self.withdraw(task, host);
                self.end_guard(task, host, RESTART_MS);
            }
        }
    }
}
