//! Faults at random, on a single server and on a set with Sentinels, while workers and users follow
//! plans of their own. What was true is known from those who write the keys, and what agents could
//! see from what was injected. The same seed has the same faults and plans.

mod actor;
mod fault;
mod inject;
mod span;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ledger::{End, Need};
use super::plan::{BLIND_AFTER, GRACE, SETTLE, STALE_AFTER, TaskPlan, WIND_DOWN};
use super::scene::{Scene, labels, of_store};
use crate::stack::majority;
use actor::Truth;
use fault::{AGENT, ALONE, Act, CABLE, Fault, Kind, MACHINE, SET, Sight};
use span::{Count, Measure, Span, Timeline, Within, both, expected, gaps};

/// The single server, and the set.
const REDISES: [&str; 2] = ["solo", "trio"];
/// Number of tasks on each.
const TASKS: usize = 24;
/// Time without faults, at the beginning and after each fault, so that agents that wait before they
/// dial again are seen to recover.
const CALM: Duration = Duration::from_secs(12);
/// Pause before a fault in seconds, on average: long enough to see between two of them that what is
/// true is reported.
const MEAN_PAUSE: f64 = 15.0;
/// How long the longest fault and its recovery may take; none begins later than this before the end.
const LONGEST: Duration = Duration::from_secs(50);
/// How late a lost lock may be reported: its holder must first say that it lives on.
const LOSS_SENT_WITHIN: Duration = Duration::from_secs(60);
/// How long a fault lasts, in shares of `blind_after`.
const LASTS: [f64; 4] = [0.3, 0.9, 1.3, 2.6];
const MASTER_EVERY: Duration = Duration::from_millis(200);
/// Share of the faults whose effect must be seen.
const VERIFIED_MIN: f64 = 0.8;

/// Which faults come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Menu {
    All,
    /// Of networks, and reloads: no process ends.
    Mild,
}

/// The tasks of a scenario with random faults.
pub(super) fn tasks() -> Vec<TaskPlan> {
    let of = |redis: &'static str| {
        (0..TASKS).map(move |at| {
            let plan = TaskPlan::new(format!("random-{redis}-{at}"));
            let plan = if redis == "trio" { plan.on_sentinels(redis) } else { plan.on(redis) };
            // All with a stall have something that can stall.
            if at % 2 == 0 { plan.with_progress() } else { plan }
        })
    };
    REDISES.into_iter().flat_map(of).collect()
}

/// Plays for this time, and writes down what must and may come.
pub(super) async fn play(scene: &Scene, lasts: Duration, menu: Menu) -> anyhow::Result<()> {
    let (began, seed) = (Instant::now(), scene.stage.timing.seed);
    let (end, mut actors) = (began + lasts, JoinSet::new());
    let plans: Vec<TaskPlan> = tasks();
    for (index, plan) in plans.iter().enumerate() {
        let (plan, master) = (plan.clone(), master_of(scene, plan.redis).await?);
        actors.spawn_local(async move {
            (index, plan.clone(), actor::play(plan, master, (seed, index), end).await)
        });
    }
    sleep(CALM).await;
    let mut lanes = JoinSet::new();
    for lane in REDISES.map(Some).into_iter().chain([None]) {
        lanes.spawn_local(inject_all(scene.clone(), lane, menu, seed, end));
    }
    let mut faults = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        faults.extend(lane.context("a lane panicked")??);
    }
    let mut truths = Vec::new();
    while let Some(played) = actors.join_next().await {
        truths.push(played.context("an actor panicked")?);
    }
    let judged = Judged { scene, whole: (began, end), faults: &faults };
    judged.report(seed);
    judged.write(&truths)
}

/// The address of the server that decides, as a client finds it.
async fn master_of(
    scene: &Scene,
    redis: &'static str,
) -> anyhow::Result<watch::Receiver<SocketAddr>> {
    let Ok(set) = scene.set(redis) else {
        return Ok(watch::channel(scene.redis(redis).await?.address()).1);
    };
    let (servers, sentinels) = set.addresses();
    let (known, master) = watch::channel(*servers.first().context("no server")?);
    let sentinels = sentinels.to_vec();
    tokio::spawn(async move {
        while !known.is_closed() {
            if let Some(named) = majority(&sentinels).await {
                known.send_if_modified(|master| std::mem::replace(master, named) != named);
            }
            sleep(MASTER_EVERY).await;
        }
    });
    Ok(master)
}

/// Injects faults into one Redis, or into the agents, until `end`.
async fn inject_all(
    scene: Scene,
    redis: Option<&'static str>,
    menu: Menu,
    seed: u64,
    end: Instant,
) -> anyhow::Result<Vec<Fault>> {
    let [own, cables] = kinds(&scene, redis, menu);
    let mut random = fastrand::Rng::with_seed(seed ^ redis.map_or(99, |name| name.len() as u64));
    let (mut bag, mut faults): (Vec<Kind>, Vec<Fault>) = (Vec::new(), Vec::new());
    let mean_pause = if redis.is_some() { MEAN_PAUSE } else { 2.0 * MEAN_PAUSE };
    loop {
        let pause = Duration::from_secs_f64(mean_pause * (0.5 + random.f64()));
        if Instant::now() + pause + LONGEST > end {
            return Ok(faults);
        }
        sleep(pause).await;
        // Each kind once in random order, servers and cables in turn, then all again.
        if bag.is_empty() {
            let mut turns = [own.clone(), cables.clone()].map(|mut some| {
                random.shuffle(&mut some);
                some.into_iter()
            });
            while turns.iter().any(|some| some.len() > 0) {
                bag.extend(turns.iter_mut().filter_map(Iterator::next));
            }
            bag.reverse();
        }
        let Some(kind) = bag.pop() else { return Ok(faults) };
        let lasts = BLIND_AFTER.mul_f64(random.choice(LASTS).unwrap_or(1.0));
        let agent = random.usize(..scene.stage.agents.len());
        let from = Instant::now();
        let effect = match redis {
            Some(redis) => inject::into_redis(&scene, redis, agent, kind.act, lasts).await,
            None => inject::into_agent(&mut *scene.agent(agent).await?, kind.act, lasts).await,
        };
        if let Some(redis) = redis {
            inject::heal(&scene, redis).await.with_context(|| format!("after {}", kind.name))?;
        }
        let is_of_one = redis.is_none() || matches!(kind.act, Act::Cable(_));
        let fault = Fault {
            kind,
            redis,
            agent: is_of_one.then_some(agent),
            whole: (from, Instant::now()),
            effect: effect.map_err(|why| format!("{why:#}")),
        };
        eprintln!("{} {}: {}", redis.unwrap_or("agents"), kind.name, shown(&fault));
        faults.push(fault);
        sleep(CALM).await;
    }
}

fn shown(fault: &Fault) -> String {
    match &fault.effect {
        Ok((from, to)) => format!("{:.1} s", (*to - *from).as_secs_f64()),
        Err(why) => format!("no effect: {why}"),
    }
}

/// The kinds of a lane: of servers or agents, and of cables.
fn kinds(scene: &Scene, redis: Option<&str>, menu: Menu) -> [Vec<Kind>; 2] {
    let Some(redis) = redis else {
        let is_mild = |kind: &Kind| kind.act == Act::ReloadAgent;
        let agents = AGENT.into_iter().filter(|kind| menu == Menu::All || is_mild(kind));
        return [agents.collect(), Vec::new()];
    };
    let own = match (menu, scene.set(redis)) {
        (Menu::Mild, _) => Vec::new(),
        (Menu::All, Ok(set)) if set.machines.is_some() => [SET.as_slice(), &MACHINE].concat(),
        (Menu::All, Ok(_)) => SET.to_vec(),
        (Menu::All, Err(_)) => ALONE.to_vec(),
    };
    [own, CABLE.to_vec()]
}

const fn measure(alert: &'static str, threshold: Duration) -> Measure {
    let zero = Duration::ZERO;
    Measure { alert, threshold, settle: zero, stays: zero, visible: None }
}

const DOWN: Measure = Measure { settle: SETTLE, ..measure("LockwatchTaskDown", GRACE) };
const STALLED: Measure = measure("LockwatchTaskStalled", STALE_AFTER);
const LOST: Measure = measure("LockwatchSwitchesLost", Duration::ZERO);
/// Its rule keeps it for two minutes.
const UNWANTED: Measure =
    Measure { stays: Duration::from_secs(120), ..measure("LockwatchTaskUnwanted", WIND_DOWN) };
/// A glimpse of it suffices, and is shown for ten minutes.
const SPLIT: Measure = Measure {
    stays: Duration::from_secs(600),
    visible: Some(Duration::from_secs(3)),
    ..measure("LockwatchTaskSplit", Duration::ZERO)
};
const UNREACHABLE: Measure = measure("LockwatchStoreUnreachable", BLIND_AFTER);
const BLIND: Measure = measure("LockwatchTaskBlind", BLIND_AFTER);
/// Warnings that faults like these bring along; whether they are right is judged by other scenarios.
const WARNINGS_OF_TASKS: [&str; 9] = [
    "LockwatchTaskFlapping",
    "LockwatchTaskContended",
    "LockwatchLeaseExpired",
    "LockwatchRenewalOverdue",
    "LockwatchLockPersistent",
    "LockwatchNoCandidate",
    "LockwatchProgressMissing",
    "LockwatchSwitchKeyMissing",
    "LockwatchAgentsDisagree",
];
const WARNINGS_OF_STORES: [&str; 5] = [
    "LockwatchRivalMaster",
    "LockwatchSentinelMissing",
    "LockwatchReplicaBehind",
    "LockwatchClockStep",
    "LockwatchAgentsDisagree",
];

/// A run, to be judged.
struct Judged<'a> {
    scene: &'a Scene,
    whole: Span,
    faults: &'a [Fault],
}

impl Judged<'_> {
    fn report(&self, seed: u64) {
        let meant = self.faults.len();
        let verified = self.faults.iter().filter(|fault| fault.effect.is_ok()).count();
        let names: Vec<&str> = self.faults.iter().map(|fault| fault.kind.name).collect();
        self.scene.promise(
            verified as f64 >= VERIFIED_MIN * meant as f64,
            format!("seed {seed}: {meant} faults, {verified} with an effect: {}", names.join(", ")),
        );
        for fault in self.faults.iter().filter(|fault| fault.effect.is_err()) {
            self.scene.note(format!("{}: {}", fault.kind.name, shown(fault)));
        }
    }

    fn write(&self, truths: &[(usize, TaskPlan, Truth)]) -> anyhow::Result<()> {
        let mut counts = [Count::default(); 7];
        let [down, stalled, lost, unwanted, split, unreachable, blind] = &mut counts;
        for redis in REDISES {
            let of_store = |alert: &str| labels(alert, [of_store(redis)]);
            self.expect(UNREACHABLE, redis, &self.blind(redis, Sight::Unreachable), unreachable)
                .into_iter()
                .for_each(|(need, end)| {
                    self.scene.write(of_store(UNREACHABLE.alert), need, end);
                });
            WARNINGS_OF_STORES.iter().for_each(|alert| self.scene.may_of_redis(alert, redis));
        }
        for agent in 0..self.scene.stage.agents.len() {
            self.scene.may_of_agent("LockwatchAgentDown", agent)?;
        }
        let of_all = labels("LockwatchAgentRestarting", self.scene.stage.labels_of_agents());
        self.scene.write(of_all, Need::May(None), End::Any);
        for (_, plan, truth) in truths {
            let (task, redis) = (self.scene.task_named(&plan.name)?, plan.redis);
            let moved = self.after(redis, |fault| fault.kind.act.moves_the_master());
            let known = |timeline: &Timeline| timeline.without(&moved, self.whole);
            let certain_loss = self.after(redis, |fault| fault.kind.loses);
            let judged = [
                (DOWN, known(&truth.down), &mut *down),
                (STALLED, known(&truth.stalled), &mut *stalled),
                (LOST, known(&truth.lost).begun_in(&certain_loss), &mut *lost),
                (UNWANTED, known(&truth.unwanted), &mut *unwanted),
                (SPLIT, known(&truth.split), &mut *split),
                (BLIND, self.blind(redis, Sight::Blind), &mut *blind),
            ];
            for (measure, timeline, count) in judged {
                for (need, end) in self.expect(measure, redis, &timeline, count) {
                    task.write(measure.alert, need, end);
                }
            }
            WARNINGS_OF_TASKS.iter().for_each(|alert| task.may(alert));
            // What the new master, or the loaded data, lack.
            for (from, to) in self.after(redis, |fault| fault.kind.act.may_lose()) {
                let sent = Some((from, to + LOSS_SENT_WITHIN));
                task.write("LockwatchLockLost", Need::May(sent), End::Any);
            }
        }
        let names =
            ["down", "stalled", "switches lost", "unwanted", "split", "unreachable", "blind"];
        for (name, Count { must, must_not, grey }) in names.iter().zip(counts) {
            self.scene.note(format!(
                "{name}: {must} had to be reported, {must_not} must not be, {grey} might be"
            ));
        }
        Ok(())
    }

    fn expect(
        &self,
        measure: Measure,
        redis: &str,
        timeline: &Timeline,
        count: &mut Count,
    ) -> Vec<(Need, End)> {
        let timing = &self.scene.stage.timing;
        let of_alert = labels(measure.alert, []);
        let (Ok(sent), Ok(resolved)) =
            (timing.sent_within(&of_alert), timing.resolved_within(&of_alert))
        else {
            return Vec::new();
        };
        let is_of_agents = [UNREACHABLE.alert, BLIND.alert].contains(&measure.alert);
        let clear = if is_of_agents { vec![vec![self.whole]] } else { self.clear(redis) };
        expected(measure, timeline, &clear, self.whole, Within { sent, resolved }, count)
    }

    /// The faults of a Redis, each with some time after it.
    fn after(&self, redis: &str, which: impl Fn(&Fault) -> bool) -> Vec<Span> {
        let of = self.faults.iter().filter(|fault| fault.redis == Some(redis) && which(fault));
        of.map(|fault| fault.and_after(CALM)).collect()
    }

    /// By agent: when it surely reads everything of this Redis.
    fn clear(&self, redis: &str) -> Vec<Vec<Span>> {
        let agents = 0..self.scene.stage.agents.len();
        agents.map(|agent| gaps(&self.dim(agent, redis), self.whole)).collect()
    }

    /// When an agent perhaps does not.
    fn dim(&self, agent: usize, redis: &str) -> Vec<Span> {
        let struck = self.faults.iter().filter(|fault| fault.strikes(agent, redis));
        let struck = struck.filter(|fault| fault.kind.sight != Sight::Clear);
        struck.map(|fault| fault.and_after(CALM)).collect()
    }

    /// When no agent reads this Redis, surely in this way, or perhaps.
    fn blind(&self, redis: &str, surely: Sight) -> Timeline {
        let mut sure = vec![self.whole];
        let mut maybe = vec![self.whole];
        for agent in 0..self.scene.stage.agents.len() {
            let struck = self.faults.iter().filter(|fault| fault.strikes(agent, redis));
            let in_this_way = struck.filter(|fault| fault.kind.sight == surely);
            let seen: Vec<Span> =
                in_this_way.filter_map(|fault| fault.effect.as_ref().ok().copied()).collect();
            sure = both(&sure, &seen);
            maybe = both(&maybe, &self.dim(agent, redis));
        }
        Timeline::of(&sure, &maybe, self.whole)
    }
}
