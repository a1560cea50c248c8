//! Records whose turn it is, and lets each look.

use std::sync::Arc;

use crate::event::{Event, TurnJob};
use crate::truth::LockState;
use crate::world::state::{Turns, World};

impl World {
    pub(in crate::world) fn turns(&mut self, task: usize) -> &mut Turns {
        self.tasks[task].turns.as_mut().unwrap_or_else(|| unreachable!("it takes turns"))
    }

    pub(in crate::world) fn turn_after(&mut self, task: usize, ms: u64, job: TurnJob) {
        self.queue.push(self.now + ms, Event::Turn { task, job });
    }

    pub(in crate::world) fn turn_state(&self, task: usize) -> LockState {
        let real = &self.tasks[task];
        let entry = self.servers[self.homes[task]].get(&real.keys.lock, self.now);
        LockState::of(entry, real.layout)
    }

    /// The hash of a server has changed.
    pub(in crate::world) fn note_turns(&mut self, server: usize, task: usize, state: &LockState) {
        let (now, spec) = (self.now, Arc::clone(&self.plan.spec.tasks[task]));
        let least_ms = spec.turn().and_then(|turn| turn.min_turn_ms).unwrap_or(0);
        if let Some(turns) = &mut self.tasks[task].turns {
            turns.note(server, state, least_ms, now);
        }
        if server == self.homes[task] {
            self.look_at_turns(task);
        }
    }

    /// Each looks whether it has the turn.
    pub(in crate::world) fn look_at_turns(&mut self, task: usize) {
        let now = self.now;
        let home = self.homes[task];
        let turns = match self.turn_state(task) {
            LockState::Turn(turns) => turns,
            _ if self.turns(task).kick_at.is_none_or(|at| at < now) => {
                // Sooner or later somebody notices that it is nobody's turn.
                let ms = self.tasks[task].rng.within(15_000, 90_000);
                self.turns(task).kick_at = Some(now + ms);
                return self.turn_after(task, ms, TurnJob::Kick);
            }
            _ => return,
        };
        for turn in turns {
            let Some(who) = self.turns(task).position(&turn.name) else { continue };
            let worker = &mut self.turns(task).workers[who];
            if worker.takes.as_ref() == Some(&turn) {
                continue;
            }
            worker.takes = Some(turn.clone());
            let ready = worker.stopped_until.max(now);
            let due = if turn.due <= 0 { now } else { self.servers[home].clock.when(turn.due) };
            let ms = ready.max(due) - now + self.tasks[task].rng.within(1, 40);
            self.turn_after(task, ms, TurnJob::Take { who, turn });
        }
    }
}
