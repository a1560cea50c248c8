//! A worker and a user of one task, who follow a plan that the seed decides, and look five times a
//! second what is true. Nobody else writes the task's keys, so two looks that agree prove the time
//! between them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use redis::aio::MultiplexedConnection;
use redis::pipe;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::span::{Span, Timeline};
use crate::pager::plan::TaskPlan;
use crate::stack::connect;

const LOOK_EVERY: Duration = Duration::from_millis(200);
const ANSWERS_WITHIN: Duration = Duration::from_millis(700);
const WORKS_EVERY: Duration = Duration::from_secs(1);
/// How long a user takes to notice that a switch was lost.
const NOTICES: Duration = Duration::from_secs(40);
/// How long switching off may take at the end.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
const USER: &str = "anna";

/// What happens during a step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Wanted, held, and the work moves.
    Run,
    /// Wanted; the holder releases at the beginning and nobody takes the lock.
    Gap,
    /// Wanted; the holder dies at the beginning, so that its lease runs out.
    Crash,
    /// Switched off and released.
    Off,
    /// Switched off, but the holder stays.
    Unwanted,
    /// Wanted and held, but the work does not move.
    Stall,
    /// Wanted and held, with a second holder in the same lock.
    Intruder,
}

/// The steps of a task.
#[derive(Debug)]
struct Script {
    random: fastrand::Rng,
    /// The kind of the next episode; the first ones are all different.
    next: usize,
    steps: VecDeque<(Step, Duration)>,
    lease: Duration,
}

/// Number of kinds of episodes.
const EPISODES: usize = 12;

impl Script {
    fn new(seed: u64, index: usize, lease: Duration) -> Script {
        let mixed = seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = fastrand::Rng::with_seed(mixed);
        let first = Duration::from_millis(random.u64(8_000..35_000));
        Script { random, next: index, steps: [(Step::Run, first)].into(), lease }
    }

    /// Plans an episode and the calm after it.
    fn plan(&mut self) {
        let seconds = Duration::from_secs_f64;
        let (brief, long) = (seconds(3.0), seconds(60.0));
        let episode: Vec<(Step, Duration)> = match self.next % EPISODES {
            0 => vec![(Step::Gap, brief)],
            1 | 2 => vec![(Step::Gap, long)],
            3 => vec![(Step::Crash, self.lease + long)],
            // Another one takes the lock as soon as the lease ends.
            4 => vec![(Step::Crash, self.lease / 2)],
            5 => vec![(Step::Gap, seconds(0.5))],
            6 => vec![(Step::Off, seconds(20.0))],
            7 => vec![(Step::Unwanted, brief), (Step::Off, brief)],
            8 => vec![(Step::Unwanted, long), (Step::Off, brief)],
            // A crash loop.
            9 => [(Step::Gap, seconds(2.0)), (Step::Run, seconds(1.0))].repeat(3),
            10 => vec![(Step::Stall, long)],
            _ => vec![(Step::Intruder, seconds(4.0))],
        };
        self.steps.extend(episode);
        self.steps.push_back((Step::Run, seconds(self.random.f64() * 30.0 + 60.0)));
        self.next = self.random.usize(..EPISODES);
    }
}

impl Iterator for Script {
    type Item = (Step, Duration);

    fn next(&mut self) -> Option<(Step, Duration)> {
        if self.steps.is_empty() {
            self.plan();
        }
        self.steps.pop_front()
    }
}

/// What was true of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Wanted, and nobody holds the lock.
    pub(super) down: Timeline,
    /// Held though it is switched off.
    pub(super) unwanted: Timeline,
    /// Wanted and held, but the work does not move.
    pub(super) stalled: Timeline,
    /// Two holders.
    pub(super) split: Timeline,
    /// A switch that was on is gone.
    pub(super) lost: Timeline,
}

/// What a look found.
struct Look {
    when: Span,
    holders: Vec<String>,
    switch: Option<String>,
    progress: Option<i64>,
}

struct Actor {
    plan: TaskPlan,
    master: watch::Receiver<SocketAddr>,
    connection: Option<(SocketAddr, MultiplexedConnection)>,
    /// The next or present holder.
    token: String,
    tokens: usize,
    renewed: Instant,
    worked: Instant,
    progress: Option<i64>,
    /// The user's last word, and since when it is gone.
    written: Option<bool>,
    lost_since: Option<Instant>,
    truth: Truth,
}

/// Plays the task until `until`; returns what was true. Afterwards it is neither wanted nor held.
pub(super) async fn play(
    plan: TaskPlan,
    master: watch::Receiver<SocketAddr>,
    (seed, index): (u64, usize),
    until: Instant,
) -> Truth {
    let mut script = Script::new(seed, index, plan.lease);
    let now = Instant::now();
    let mut actor = Actor {
        plan,
        master,
        connection: None,
        token: String::new(),
        tokens: 0,
        renewed: now,
        worked: now,
        progress: None,
        written: None,
        lost_since: None,
        truth: Truth::default(),
    };
    actor.change_token();
    let (mut step, mut ends) = (Step::Run, now);
    while Instant::now() < until {
        while ends <= Instant::now() {
            let Some((next, lasts)) = script.next() else { break };
            if next == Step::Crash {
                actor.change_token();
            }
            (step, ends) = (next, ends + lasts);
        }
        if actor.tick(step).await.is_err() {
            actor.connection = None;
        }
        sleep(LOOK_EVERY).await;
    }
    let truth = std::mem::take(&mut actor.truth);
    let give_up = Instant::now() + ENDS_WITHIN;
    while Instant::now() < give_up && actor.tick(Step::Off).await.is_err() {
        actor.connection = None;
        sleep(LOOK_EVERY).await;
    }
    truth
}

impl Actor {
    /// Somebody else takes the lock from now on.
    fn change_token(&mut self) {
        self.tokens += 1;
        self.token = format!("{}-{}:1", self.plan.name, self.tokens);
    }

    async fn tick(&mut self, step: Step) -> anyhow::Result<()> {
        let master = *self.master.borrow();
        let mut connection = match self.connection.take() {
            Some((address, connection)) if address == master => connection,
            _ => connect(master, ANSWERS_WITHIN).await?,
        };
        let look = timeout(ANSWERS_WITHIN, self.look(&mut connection)).await??;
        self.note(step, &look);
        self.act(step, &look, &mut connection).await?;
        // A connection that still owes an answer is never used again.
        self.connection = Some((master, connection));
        Ok(())
    }

    async fn look(&self, connection: &mut MultiplexedConnection) -> anyhow::Result<Look> {
        let sent = Instant::now();
        let progress = self.plan.progress().unwrap_or_default();
        let found: (redis::Value, Vec<String>, Option<String>, Option<i64>) = pipe()
            .cmd("ROLE")
            .hkeys(self.plan.lock())
            .hget(self.plan.switches(), USER)
            .hget(progress, "at")
            .query_async(connection)
            .await?;
        let (role, holders, switch, progress) = found;
        ensure!(format!("{role:?}").contains("master"), "it is no master");
        Ok(Look { when: (sent, Instant::now()), holders, switch, progress })
    }

    fn note(&mut self, step: Step, look: &Look) {
        let truth = &mut self.truth;
        let is_held = !look.holders.is_empty();
        truth.split.note(look.when, look.holders.len() > 1);
        let wanted = match (look.switch.as_deref(), self.written) {
            (None, Some(true)) => {
                truth.lost.note(look.when, true);
                return;
            }
            (switch, _) => switch == Some("on"),
        };
        truth.lost.note(look.when, false);
        truth.down.note(look.when, wanted && !is_held);
        truth.unwanted.note(look.when, !wanted && is_held);
        let has_moved = look.progress != self.progress;
        self.progress = look.progress;
        if has_moved || !wanted || !is_held || self.plan.progress().is_none() {
            truth.stalled.note(look.when, false);
        } else if step == Step::Stall {
            truth.stalled.note(look.when, true);
        }
    }

    async fn act(
        &mut self,
        step: Step,
        look: &Look,
        connection: &mut MultiplexedConnection,
    ) -> anyhow::Result<()> {
        let (lock, lease) = (self.plan.lock(), i64::try_from(self.plan.lease.as_millis())?);
        let mut commands = pipe();
        commands.atomic();
        let wants = !matches!(step, Step::Off | Step::Unwanted);
        let is_lost = self.written.is_some() && look.switch.is_none();
        let since = *self.lost_since.get_or_insert(look.when.0);
        if !is_lost {
            self.lost_since = None;
        }
        if self.written != Some(wants) || is_lost && since.elapsed() > NOTICES {
            self.written = Some(wants);
            commands.hset(self.plan.switches(), USER, if wants { "on" } else { "off" });
        }
        let holds = look.holders.contains(&self.token);
        let intruder = format!("{}-intruder:1", self.plan.name);
        match step {
            Step::Gap | Step::Off if !look.holders.is_empty() => {
                commands.del(&lock);
                self.change_token();
            }
            Step::Run | Step::Stall | Step::Intruder if look.holders.is_empty() => {
                commands.hset(&lock, &self.token, 1).pexpire(&lock, lease);
                self.renewed = Instant::now();
            }
            Step::Intruder if look.holders.len() == 1 => {
                commands.hset(&lock, &intruder, 1);
            }
            Step::Run | Step::Stall | Step::Unwanted if look.holders.contains(&intruder) => {
                commands.hdel(&lock, &intruder);
            }
            Step::Run | Step::Stall | Step::Unwanted | Step::Intruder
                if holds && self.renewed.elapsed() > self.plan.lease / 3 =>
            {
                commands.pexpire(&lock, lease);
                self.renewed = Instant::now();
            }
            _ => {}
        }
        if let Some(progress) = self.plan.progress()
            && (holds && step != Step::Stall && self.worked.elapsed() > WORKS_EVERY)
        {
            commands.hincr(progress, "at", 1);
            self.worked = Instant::now();
        }
        if !commands.is_empty() {
            timeout(ANSWERS_WITHIN, commands.exec_async(connection)).await??;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_script_and_the_first_episodes_are_all_different() {
        let lease = Duration::from_secs(12);
        let steps = |seed, index| Script::new(seed, index, lease).take(50).collect::<Vec<_>>();
        assert_eq!(steps(7, 3), steps(7, 3));
        assert_ne!(steps(7, 3), steps(8, 3));
        let first = (0..EPISODES).filter_map(|index| Some(steps(7, index).get(1)?.to_owned()));
        let all: std::collections::BTreeSet<String> =
            first.map(|step| format!("{step:?}")).collect();
        // A long gap comes twice as often.
        assert_eq!(all.len(), EPISODES - 1, "{all:?}");
    }
}
