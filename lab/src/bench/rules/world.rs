//! Tasks without a Redis: what a watcher would read of them each second, judged by the agent's own
//! model.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use lockwatch::clock::Clock;
use lockwatch::config::Config;
use lockwatch::published::Published;
use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Sample, Standing};
use lockwatch_judge::reading::{
    Deadline, Ends, Extras, Held, Holder, LockReading, Mode, Parts, Switch, SwitchesReading,
    TaskReading,
};
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};

use super::super::load::{LEASE_MS, RENEWED_EVERY, holder, key, name};

/// One of so many tasks has no holder.
const DOWN_EACH: usize = 100;
const SERVER: &str = "10.0.0.5:6379";
const SECOND_MS: u64 = 1000;
/// Until the replies of a sweep are there.
const TOOK_MS: u64 = 1;
/// Longer than `grace`: the tasks without a holder are down.
const PAST_S: u64 = 60;

/// Wanted tasks that are held and renewed, but for a few that are down.
pub(super) struct World {
    state: State,
    holders: Vec<Holder>,
    now: Mono,
    /// Both the server's and the agent's clock at the origin of `now`.
    origin_ms: i64,
    generation: Generation,
}

impl World {
    /// A world that has been watched for a minute.
    pub(super) fn new(tasks: usize) -> anyhow::Result<World> {
        let config = Config::parse(&config(tasks), Path::new("bench.yml"))
            .map_err(|mistakes| anyhow::anyhow!("{mistakes}"))?;
        let holders = (0..tasks).map(|at| Holder::of_thread(holder(at).as_bytes()));
        let mut world = World {
            state: State::new(),
            holders: holders.collect::<Option<_>>().context("no holders")?,
            now: Mono::at(0),
            origin_ms: Clock::start().wall().0 - i64::try_from(PAST_S * SECOND_MS)?,
            generation: Generation {
                process: b"5f6e1c0a".to_vec(),
                history: b"90ab12cd".to_vec(),
                ..Generation::default()
            },
        };
        let _events = world.state.step(world.now, Input::Config(Arc::new(config.watch_spec(0))));
        (0..PAST_S).for_each(|_| world.second());
        Ok(world)
    }

    /// How many tasks are down.
    pub(super) fn down(tasks: usize) -> usize {
        tasks.div_ceil(DOWN_EACH)
    }

    /// A second passes, and all tasks are read.
    pub(super) fn second(&mut self) {
        self.now = self.now.plus_ms(SECOND_MS);
        let first = self.server_time();
        let attestation = Attestation {
            generation: Some(self.generation.clone()),
            ..Attestation::master(first, first.plus_ms(1))
        };
        let readings = (0..).map(TaskIndex).zip(self.holders.iter().enumerate());
        let readings = readings.map(|(task, (at, holder))| (task, reading(at, holder, first)));
        let sample = Sample {
            epoch: 0,
            store: StoreIndex(0),
            node: Some(SERVER.into()),
            standing: Standing::Decides,
            sent: self.now,
            took_ms: TOOK_MS,
            outcome: Outcome::Read { attestation, readings: readings.collect() },
        };
        let _events = self.state.step(self.received(), Input::Sample(sample));
    }

    /// What the agent publishes now.
    pub(super) fn published(&mut self) -> Arc<Published> {
        let wall = AgentWall(self.server_time().ms());
        let snapshot = self.state.snapshot(self.received());
        Arc::new(Published {
            snapshot,
            wall,
            made: Instant::now(),
            patterns: Arc::default(),
            drill: None,
        })
    }

    /// When the newest replies came.
    fn received(&self) -> Mono {
        self.now.plus_ms(TOOK_MS)
    }

    fn server_time(&self) -> ServerTime {
        ServerTime::at(self.origin_ms).plus_ms(i64::try_from(self.now.ms()).unwrap_or(i64::MAX))
    }
}

/// The configuration of these tasks.
fn config(tasks: usize) -> String {
    let mut text = format!(
        "redis:\n  main: {{url: \"redis://{SERVER}\"}}\nmax_tasks: {tasks}\nlabels: [team]\ntasks:\n"
    );
    for at in 0..tasks {
        let _written = writeln!(
            text,
            "- {{name: {}, lock: {{key: '{}'}}, wanted: {{hash: 'bench:{at}:users'}}, \
             labels: {{team: team-{}}}}}",
            name(at),
            key(at),
            at % 10
        );
    }
    text
}

/// What is read of the task `at`: one user wants it, another one does not.
fn reading(at: usize, holder: &Holder, now: ServerTime) -> TaskReading {
    let lock = if at.is_multiple_of(DOWN_EACH) {
        LockReading::Free
    } else {
        let lease_ms = i64::try_from(LEASE_MS).unwrap_or(i64::MAX);
        LockReading::from(Held {
            mode: Mode::Exclusive,
            holders: vec![holder.clone()],
            ghosts: 0,
            deadline: Deadline::At(renewed(at, now).plus_ms(lease_ms)),
        })
    };
    let switches = SwitchesReading::Read {
        switches: vec![(b"anna".to_vec(), Switch::On), (b"bert".to_vec(), Switch::Off)],
        key_exists: true,
        counted: None,
        whole: true,
        ends: Ends::UNKNOWN,
    };
    let parts = Parts { switches: Some(switches), ..Parts::default() };
    TaskReading::of_lock(lock, Extras::default(), parts)
}

/// When the lock `at` was last renewed: each period, spread evenly, and each time some milliseconds
/// late.
fn renewed(at: usize, now: ServerTime) -> ServerTime {
    let period_ms = i64::try_from(RENEWED_EVERY.as_millis()).unwrap_or(i64::MAX);
    let at = i64::try_from(at).unwrap_or_default();
    let phase_ms = at * 37 % period_ms;
    let instant = |turn: i64| turn * period_ms + phase_ms + 5 + (at * 31 + turn * 17) % 55;
    let turn = (now.ms() - phase_ms).div_euclid(period_ms);
    let newest = instant(turn);
    ServerTime::at(if newest <= now.ms() { newest } else { instant(turn - 1) })
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::problems::{Problem, of_task};
    use lockwatch_judge::verdict::Verdict;

    use super::*;

    #[test]
    fn few_are_down_and_all_others_are_clear() {
        let mut world = World::new(200).unwrap();
        world.second();
        let published = world.published();
        let (mut down, mut renewals) = (0, 0);
        for task in &published.snapshot.tasks {
            let problems = of_task(task, published.snapshot.at, None);
            match task.verdict {
                Verdict::Down => {
                    assert!(problems.findings.iter().any(|(problem, finding)| *problem
                        == Problem::Down
                        && finding.is_positive()));
                    down += 1;
                }
                verdict => {
                    assert!((verdict, problems.clear) == (Verdict::Running, true), "{task:?}");
                    renewals += task.totals.renewals;
                }
            }
        }
        assert_eq!(down, World::down(200));
        assert!(renewals >= 5 * 198, "{renewals} renewals in a minute");
    }
}
