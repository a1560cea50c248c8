//! The planned events of a task: when candidates contend, when the holder releases or crashes, when
//! users flip the switch, when the work stalls. A pure function of the seed, so that all processes
//! of a run follow the same plan without communication.

use std::time::Duration;

use super::clock::{Micros, SECOND};
use super::header::{TaskEntry, Times};

/// Length of each task's first hold, so that the agents know everything before the first event.
const FIRST: Micros = 12 * SECOND;
/// How long the holder takes to notice that the switch is off.
pub(super) const NOTICES: Micros = 300_000;
/// How long the holder that released does not contend.
const STANDS_BACK: Micros = 1_500_000;

/// A step in the life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) from: Micros,
    pub(super) to: Micros,
    pub(super) kind: StepKind,
}

/// The conditions during a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// Wanted, and all candidates contend.
    Run,
    /// Like `Run`, but the holder releases at the start and does not contend for [`STANDS_BACK`].
    Handover,
    /// Wanted; the holder releases at the beginning and nobody contends.
    Gap,
    /// Wanted; the holder dies at the beginning and nobody contends: the lease runs out first.
    Crash,
    /// Wanted and free; a candidate takes the lock and soon releases it.
    Blink,
    /// Switched off; the holder soon releases, and no candidate contends.
    Off,
    /// Switched off, but the holder stays.
    Unwanted,
    /// Held and wanted, but the work makes no progress.
    Stall,
    /// Held, with a second holder in the same lock.
    Intruder,
}

impl StepKind {
    /// Whether the switch is on.
    pub(super) fn wanted(self) -> bool {
        !matches!(self, StepKind::Off | StepKind::Unwanted)
    }

    /// Whether candidates try to take the lock.
    pub(super) fn contends(self) -> bool {
        matches!(
            self,
            StepKind::Run
                | StepKind::Handover
                | StepKind::Blink
                | StepKind::Stall
                | StepKind::Intruder
        )
    }

    /// What the holder does when such a step begins, and after which delay.
    pub(super) fn ends_hold(self) -> Option<(Ending, Micros)> {
        match self {
            StepKind::Handover | StepKind::Gap => Some((Ending::Release, 0)),
            StepKind::Off => Some((Ending::Release, NOTICES)),
            StepKind::Crash => Some((Ending::Crash, 0)),
            StepKind::Run
            | StepKind::Blink
            | StepKind::Unwanted
            | StepKind::Stall
            | StepKind::Intruder => None,
        }
    }

    /// Until when the holder that released at the start of the step does not contend.
    pub(super) fn stands_back_until(self, from: Micros) -> Micros {
        if self == StepKind::Handover { from + STANDS_BACK } else { from }
    }
}

/// How the plan ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Release,
    /// The holder dies without a release.
    Crash,
}

/// An endless sequence of steps without gaps. Instants are relative to the start of the run.
#[derive(Clone, Debug)]
pub(super) struct Script {
    random: fastrand::Rng,
    times: Times,
    stalls: bool,
    intruders: bool,
    queue: std::collections::VecDeque<(StepKind, Micros)>,
    at: Micros,
}

impl Script {
    /// The script of task `index`.
    pub(super) fn new(seed: u64, index: usize, task: &TaskEntry, times: Times) -> Script {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (index as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mut random = fastrand::Rng::with_seed(mixed);
        let first = FIRST + random.u64(0..FIRST);
        Script {
            random,
            times,
            stalls: task.progress,
            intruders: task.library == super::header::Library::Redisson,
            queue: [(StepKind::Run, first)].into(),
            at: 0,
        }
    }

    /// Plans an episode and the calm period after it.
    fn plan(&mut self) {
        let ms = |ms: u64| ms * 1_000;
        let (grace, lease) = (self.times.grace, self.times.lease);
        let share = |of: u64, tenths: u64| ms(of * tenths / 10);
        let gap = share(grace, self.choose(&[2, 8, 11, 15, 30]));
        match self.random.u32(0..100) {
            0..=24 => self.queue.push_back((StepKind::Gap, gap)),
            25..=39 => self.queue.push_back((StepKind::Crash, ms(lease) + gap)),
            // The other candidates take over when the lease ends.
            40..=49 => self.queue.push_back((StepKind::Crash, ms(lease / 2))),
            50..=59 => self.queue.push_back((StepKind::Handover, 2 * SECOND)),
            60..=67 => {
                let off = share(grace, self.choose(&[5, 10, 20]));
                self.queue.push_back((StepKind::Off, off));
                // Switched on again, and taken at once or late.
                let late = share(grace, self.choose(&[0, 0, 5, 15]));
                if late > 0 {
                    self.queue.push_back((StepKind::Gap, late));
                }
            }
            68..=77 => {
                let held = share(self.times.wind_down, self.choose(&[5, 20, 30]));
                self.queue.push_back((StepKind::Unwanted, held));
                self.queue.push_back((StepKind::Off, 3 * SECOND));
            }
            78..=85 => {
                // A crash loop: holds that are too short to end the gap.
                for _ in 0..self.random.u32(1..4) {
                    let free = share(grace, self.choose(&[4, 6]));
                    self.queue.push_back((StepKind::Gap, free));
                    self.queue.push_back((StepKind::Blink, ms(600)));
                }
                self.queue.push_back((StepKind::Gap, share(grace, 4)));
            }
            86..=94 if self.stalls => {
                let still = share(self.times.stale_after, self.choose(&[5, 18, 25]));
                self.queue.push_back((StepKind::Stall, still));
            }
            95..=99 if self.intruders => self.queue.push_back((StepKind::Intruder, ms(4_000))),
            _ => {}
        }
        let calm = SECOND * self.random.u64(6..25);
        self.queue.push_back((StepKind::Run, calm));
    }

    fn choose(&mut self, from: &[u64]) -> u64 {
        let at = self.random.usize(0..from.len().max(1));
        from.get(at).copied().unwrap_or_default()
    }
}

impl Iterator for Script {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        while self.queue.is_empty() {
            self.plan();
        }
        let (kind, length) = self.queue.pop_front()?;
        let from = self.at;
        self.at += length;
        Some(Step { from, to: self.at, kind })
    }
}

/// A script and the current position in it.
#[derive(Clone, Debug)]
pub(super) struct Play {
    script: Script,
    began: Micros,
    step: Step,
}

impl Play {
    /// A script that began at the instant `began`.
    pub(super) fn new(script: Script, began: Micros) -> Play {
        Play { script, began, step: Step { from: began, to: began, kind: StepKind::Run } }
    }

    /// The step at the instant `now`, which must not go back.
    pub(super) fn at(&mut self, now: Micros) -> Step {
        while self.step.to <= now {
            let Some(next) = self.script.next() else { break };
            self.step =
                Step { from: self.began + next.from, to: self.began + next.to, kind: next.kind };
        }
        self.step
    }
}

/// The time between two instants; zero if the second is earlier.
pub(super) fn between(from: Micros, to: Micros) -> Duration {
    Duration::from_micros(to.saturating_sub(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::header::Library;

    fn task() -> TaskEntry {
        TaskEntry {
            name: "t".to_owned(),
            redis: 0,
            library: Library::Redisson,
            progress: true,
            redisson: false,
        }
    }

    #[test]
    fn a_seed_has_one_script_without_holes() {
        let script = || Script::new(7, 3, &task(), Times::COMPRESSED).take(500).collect::<Vec<_>>();
        let steps = script();
        assert_eq!(steps, script());
        assert!(
            steps.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].from < pair[0].to)
        );
        assert_ne!(
            steps,
            Script::new(8, 3, &task(), Times::COMPRESSED).take(500).collect::<Vec<_>>()
        );
    }

    #[test]
    fn all_kinds_of_steps_come() {
        let steps: Vec<Step> = (0..20)
            .flat_map(|seed| Script::new(seed, 0, &task(), Times::COMPRESSED).take(100))
            .collect();
        for kind in [
            StepKind::Run,
            StepKind::Handover,
            StepKind::Gap,
            StepKind::Crash,
            StepKind::Blink,
            StepKind::Off,
            StepKind::Unwanted,
            StepKind::Stall,
            StepKind::Intruder,
        ] {
            assert!(steps.iter().any(|step| step.kind == kind), "{kind:?}");
        }
    }

    #[test]
    fn a_play_is_where_the_clock_is() {
        let mut play = Play::new(Script::new(1, 0, &task(), Times::COMPRESSED), 1_000);
        assert_eq!(play.at(1_000).from, 1_000);
        let step = play.at(100 * SECOND);
        assert!(step.from <= 100 * SECOND && 100 * SECOND < step.to);
    }
}
