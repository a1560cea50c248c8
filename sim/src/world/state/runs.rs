//! The runs of a periodic task, as they really were.

use std::collections::VecDeque;

use crate::plan::RunsPlan;
use crate::rng::Rng;

/// Number of runs that are remembered.
const KEPT: usize = 20;

/// Those who start the runs of a periodic task, and its newest runs.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) plan: RunsPlan,
    /// Nothing starts a run until then.
    pub(in crate::world) stopped_until: u64,
    /// So much longer the next run takes, in milliseconds.
    pub(in crate::world) longer_ms: u64,
    /// The newest runs, oldest first.
    pub(crate) newest: VecDeque<TrueRun>,
}

/// A run as it really was.
#[derive(Clone, Debug)]
pub(crate) struct TrueRun {
    pub(crate) server: usize,
    pub(crate) worker: usize,
    pub(crate) who: Vec<u8>,
    pub(crate) began: u64,
    /// When its worker said that its work was done.
    pub(crate) done: Option<u64>,
}

impl Runs {
    pub(in crate::world) fn new(plan: &RunsPlan) -> Runs {
        let plan = plan.clone();
        Runs { plan, stopped_until: 0, longer_ms: 0, newest: VecDeque::new() }
    }

    /// How long the next run takes, in milliseconds.
    pub(in crate::world) fn draw_work(&mut self, rng: &mut Rng) -> u64 {
        let (least, most) = self.plan.work_ms;
        rng.within(least, most) + std::mem::take(&mut self.longer_ms)
    }

    /// The work of the newest run is done. Returns until when its worker keeps the lock, if it
    /// does.
    pub(in crate::world) fn done(&mut self, worker: usize, now: u64) -> Option<u64> {
        let run = self.newest.back_mut().filter(|run| run.worker == worker)?;
        run.done = Some(now);
        let until = run.began + self.plan.least_ms;
        (until > now).then_some(until)
    }

    pub(in crate::world) fn note(&mut self, run: TrueRun) {
        if self.newest.len() >= KEPT {
            self.newest.pop_front();
        }
        self.newest.push_back(run);
    }
}
