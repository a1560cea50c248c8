//! Two that contend for a lock: one runs its script, the other one waits.

use std::time::Duration;

use super::alive::now;
use super::scene::{Death, Report, Runner, Scene, kill, to_ms};

/// Starts one more of those who contend.
pub(super) type Next = fn(&mut Scene) -> anyhow::Result<Runner>;

pub(super) struct Pair<'a> {
    pub(super) scene: &'a mut Scene,
    runs: Runner,
    waits: Runner,
    script: Report,
    next: Next,
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    /// The guard, its keeper and the script: only the end of the lease is left.
    All,
    /// The guard alone.
    Guard,
}

/// A take-over after a crash, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// From the kill to the start of the other script.
    pub(super) took: f64,
    /// From the end of the lease to that.
    pub(super) after_lease: f64,
    /// From the kill to the death of the script; `None`: it lived on when the other one started.
    pub(super) dead_after: Option<f64>,
}

impl<'a> Pair<'a> {
    pub(super) fn start(scene: &'a mut Scene, next: Next) -> anyhow::Result<Pair<'a>> {
        let runs = next(scene)?;
        let script = scene.start()?;
        let waits = next(scene)?;
        Ok(Pair { scene, runs, waits, script, next })
    }

    /// Waits until the other guard waits, and then up to `longest` more.
    pub(super) fn settle(&mut self, longest: Duration) -> anyhow::Result<()> {
        self.scene.listen(1)?;
        self.scene.pause(longest);
        Ok(())
    }

    /// Ends the one that runs. Returns the milliseconds from the end of its script to the start of
    /// the other one.
    pub(super) fn release(&mut self) -> anyhow::Result<f64> {
        // What was killed reports no end; then all of it counts, from now on.
        let mut end = now();
        self.runs.terminate()?;
        let start = loop {
            let report = self.scene.next()?;
            if report.is_start {
                break report;
            }
            if report.guard == self.runs.name {
                end = report.at;
            }
        };
        self.runs.wait()?;
        self.replaced(start)?;
        Ok(to_ms(start.at) - to_ms(end))
    }

    /// Kills the one that runs.
    pub(super) fn crash(&mut self, killed: Killed) -> anyhow::Result<Crash> {
        let death = Death::of(self.script.pid);
        let began = now();
        self.runs.kill()?;
        if killed == Killed::All {
            kill(self.script.keeper);
            kill(self.script.pid);
        }
        let dead = death.within(Duration::from_secs(1))?;
        // Nobody renews it any more.
        let lease_end = self.scene.lease_end()?;
        let start = self.scene.start()?;
        self.runs.wait()?;
        if dead.is_none() {
            kill(self.script.pid);
        }
        self.replaced(start)?;
        Ok(Crash {
            took: to_ms(start.at) - to_ms(began),
            after_lease: to_ms(start.at) - lease_end,
            dead_after: dead.map(|dead| to_ms(dead) - to_ms(began)),
        })
    }

    /// The other one runs, and a new one waits.
    fn replaced(&mut self, start: Report) -> anyhow::Result<()> {
        self.scene.listen(0)?;
        let new = (self.next)(self.scene)?;
        self.runs = std::mem::replace(&mut self.waits, new);
        anyhow::ensure!(self.runs.name == start.guard, "the wrong guard runs the script");
        self.script = start;
        Ok(())
    }
}
