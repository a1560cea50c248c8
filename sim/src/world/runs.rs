//! What starts the runs of a periodic task.

use super::state::{TrueRun, World};
use crate::event::Event;
use crate::plan::RunsAct;

impl World {
    /// It is time for a run: the first worker that can takes the lock, if that is free.
    pub(super) fn start_run(&mut self, task: usize) {
        let now = self.now;
        let Some((every_ms, jitter_ms, stopped_until)) = self.tasks[task]
            .runs
            .as_ref()
            .map(|runs| (runs.plan.every_ms, runs.plan.jitter_ms, runs.stopped_until))
        else {
            return;
        };
        let jitter_ms = self.tasks[task].rng.within(0, jitter_ms);
        // The beats of the clock that starts them stay regular.
        let beat = now / every_ms * every_ms;
        self.queue.push(beat + every_ms + jitter_ms, Event::Run { task });
        if stopped_until > now {
            return;
        }
        for worker in 0..self.tasks[task].workers.len() {
            let who = &self.tasks[task].workers[worker];
            if !who.runs(now) || who.hold.is_some() || who.working {
                continue;
            }
            let Some(server) = self.server_of(task, worker) else { continue };
            if self.acquire(task, worker, server) {
                let who = self.tasks[task].workers[worker].instance();
                if let Some(runs) = &mut self.tasks[task].runs {
                    runs.note(TrueRun { server, worker, who, began: now, done: None });
                }
                return;
            }
        }
    }

    pub(super) fn act_on_runs(&mut self, task: usize, what: RunsAct, ms: u64) {
        let now = self.now;
        let Some(runs) = &mut self.tasks[task].runs else { return };
        match what {
            RunsAct::Stop => runs.stopped_until = now + ms,
            RunsAct::Long => runs.longer_ms = ms,
        }
    }

    /// Whether this holder kept the lock for a rest, whose end it had set.
    pub(crate) fn has_kept(&self, task: usize, who: &[u8]) -> bool {
        let runs = self.tasks[task].runs.as_ref();
        runs.is_some_and(|runs| {
            runs.plan.least_ms > 0
                && runs.newest.iter().any(|run| run.who == who && run.done.is_some())
        })
    }
}
