//! Those that take turns: they wait for their field in a hash, work, and pass the turn on.

use std::sync::Arc;

use lockwatch_judge::spec::Unit;

use super::state::World;
use crate::event::TurnJob;
use crate::plan::{Passing, TurnAct};
use crate::server::Value;
use crate::truth::{LockState, Turn};

/// Milliseconds after which a worker tries again what a server refused.
const AGAIN_MS: u64 = 700;

impl World {
    fn has_turn(&self, task: usize, turn: &Turn) -> bool {
        matches!(self.turn_state(task), LockState::Turn(turns) if turns.contains(turn))
    }

    pub(super) fn turn_job(&mut self, task: usize, job: TurnJob) {
        let home = self.homes[task];
        if !self.servers[home].writable() {
            return self.turn_after(task, AGAIN_MS, job);
        }
        match job {
            TurnJob::Look => self.look_at_turns(task),
            TurnJob::Take { who, turn } | TurnJob::Pass { who, turn }
                if !self.has_turn(task, &turn) =>
            {
                let worker = &mut self.turns(task).workers[who];
                worker.takes.take_if(|takes| *takes == turn);
                self.look_at_turns(task);
            }
            TurnJob::Take { who, turn } => {
                let stopped_until = self.turns(task).workers[who].stopped_until;
                if stopped_until > self.now {
                    let ms = stopped_until - self.now;
                    return self.turn_after(task, ms, TurnJob::Take { who, turn });
                }
                let (least, most) = self.turns(task).plan.work_ms;
                let mut ms = self.tasks[task].rng.within(least, most);
                if let Some((_, long)) =
                    self.turns(task).next.take_if(|(what, _)| *what == TurnAct::Long)
                {
                    ms = ms.max(long);
                }
                self.turn_after(task, ms, TurnJob::Pass { who, turn });
            }
            TurnJob::Pass { who, turn } => {
                let stopped_until = self.turns(task).workers[who].stopped_until;
                if stopped_until > self.now {
                    let ms = stopped_until - self.now;
                    return self.turn_after(task, ms, TurnJob::Take { who, turn });
                }
                self.turns(task).workers[who].takes = None;
                self.pass(task, who, turn);
            }
            TurnJob::Set { who } => self.set_turn(task, who),
            TurnJob::Del { turn } => self.edit_turns(task, |fields, unit| {
                fields.retain(|field| Turn::of(field, unit).as_ref() != Some(&turn));
            }),
            TurnJob::Kick => {
                self.turns(task).kick_at = None;
                match self.turn_state(task) {
                    LockState::Free => self.give_turn(task, 0, b"0".to_vec()),
                    LockState::Other => self.servers[home].put(
                        &Arc::clone(&self.tasks[task].keys.lock),
                        None,
                        self.now,
                    ),
                    _ => {}
                }
            }
        }
    }

    /// The turn is over: the next one gets it.
    fn pass(&mut self, task: usize, who: usize, turn: Turn) {
        let how = self.turns(task).next.take();
        let count = self.turns(task).plan.names.len();
        let next = match how {
            Some((TurnAct::Skip, _)) => self.tasks[task].rng.index(count),
            _ => (who + 1) % count,
        };
        let quick_ms = self.tasks[task].rng.below(30);
        let passing = self.turns(task).plan.passing;
        match (how, passing) {
            (Some((TurnAct::Forget, _)), _) => self.turn_job(task, TurnJob::Del { turn }),
            (Some((TurnAct::KeepBoth, ms)), _) => {
                self.set_turn(task, next);
                self.turn_after(task, ms, TurnJob::Del { turn });
            }
            (Some((TurnAct::SlowPass, ms)), Passing::SetFirst) => {
                self.set_turn(task, next);
                self.turn_after(task, ms, TurnJob::Del { turn });
            }
            (Some((TurnAct::SlowPass, ms)), _) => {
                self.turn_job(task, TurnJob::Del { turn });
                self.turn_after(task, ms, TurnJob::Set { who: next });
            }
            (_, Passing::SetFirst) => {
                self.set_turn(task, next);
                self.turn_after(task, quick_ms, TurnJob::Del { turn });
            }
            (_, Passing::DelFirst) => {
                self.turn_job(task, TurnJob::Del { turn });
                self.turn_after(task, quick_ms, TurnJob::Set { who: next });
            }
            (_, Passing::AtOnce) => {
                let value = self.instant(task);
                let name = self.turns(task).plan.names[next].clone();
                self.edit_turns(task, |fields, unit| {
                    fields.retain(|field| Turn::of(field, unit).as_ref() != Some(&turn));
                    put(fields, name, value);
                });
            }
        }
    }

    fn set_turn(&mut self, task: usize, who: usize) {
        let value = self.instant(task);
        self.give_turn(task, who, value);
    }

    fn give_turn(&mut self, task: usize, who: usize, value: Vec<u8>) {
        let name = self.turns(task).plan.names[who].clone();
        self.edit_turns(task, |fields, _| put(fields, name, value));
    }

    /// The value of a turn that is given now.
    fn instant(&mut self, task: usize) -> Vec<u8> {
        let pause_ms = self.turns(task).plan.pause_ms;
        let at = self.servers[self.homes[task]].clock.at(self.now + pause_ms);
        match self.turns(task).plan.unit {
            Unit::Milliseconds => at.to_string(),
            Unit::Seconds => at.div_euclid(1_000).to_string(),
        }
        .into_bytes()
    }

    fn edit_turns(&mut self, task: usize, change: impl FnOnce(&mut Fields, Unit)) {
        let (home, now, unit) = (self.homes[task], self.now, self.turns(task).plan.unit);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let mut before = None;
        let there = self.servers[home].get(&key, now).is_some();
        self.servers[home].edit(&key, now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                change(fields, unit);
                before = Some(fields.len());
            }
        });
        if !there && before == Some(0) {
            self.servers[home].put(&key, None, now);
        }
        self.note_changes();
    }

    /// Something happens to those that take turns.
    pub(super) fn act_on_turns(&mut self, task: usize, what: TurnAct, ms: u64) {
        let home = self.homes[task];
        if !self.servers[home].writable() || self.tasks[task].turns.is_none() {
            return;
        }
        let LockState::Turn(there) = self.turn_state(task) else { return };
        let now = self.now;
        let count = self.turns(task).plan.names.len();
        let second = self.tasks[task].rng.index(count);
        match what {
            TurnAct::Stop => {
                let named = there.first().and_then(|turn| self.turns(task).position(&turn.name));
                if let Some(who) = named {
                    let worker = &mut self.turns(task).workers[who];
                    worker.stopped_until = worker.stopped_until.max(now + ms);
                    self.turn_after(task, ms + 1, TurnJob::Look);
                }
            }
            TurnAct::Long
            | TurnAct::SlowPass
            | TurnAct::Forget
            | TurnAct::KeepBoth
            | TurnAct::Skip => self.turns(task).next = Some((what, ms)),
            TurnAct::SecondField => self.set_turn(task, second),
            TurnAct::ForeignName => {
                let value = self.instant(task);
                self.strange(task, ms, b"stranger", value);
            }
            TurnAct::OtherUnit => {
                let at = self.servers[home].clock.at(now);
                let value = match self.turns(task).plan.unit {
                    Unit::Milliseconds => at / 1_000,
                    Unit::Seconds => at,
                };
                self.strange(task, ms, b"part-0", value.to_string().into_bytes());
            }
            TurnAct::NoNumber => self.strange(task, ms, b"part-0", b"soon".to_vec()),
            TurnAct::AtOnce => self.give_turn(task, second, b"0".to_vec()),
        }
    }

    /// Only this field is there for a while.
    fn strange(&mut self, task: usize, ms: u64, name: &[u8], value: Vec<u8>) {
        self.cause = crate::truth::Cause::Odd;
        self.edit_turns(task, |fields, _| {
            fields.clear();
            put(fields, name.to_vec(), value);
        });
        let odd = matches!(self.turn_state(task), LockState::Other);
        if let LockState::Turn(turns) = self.turn_state(task) {
            turns
                .into_iter()
                .filter(|turn| turn.name == b"stranger")
                .for_each(|turn| self.turn_after(task, ms, TurnJob::Del { turn }));
        } else if odd {
            self.turns(task).kick_at = Some(self.now + ms);
            self.turn_after(task, ms, TurnJob::Kick);
            self.turn_after(task, ms + 2, TurnJob::Look);
        }
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// `HSET`.
fn put(fields: &mut Fields, name: Vec<u8>, value: Vec<u8>) {
    fields.retain(|(field, _)| *field != name);
    fields.push((name, value));
}
