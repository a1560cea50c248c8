//! The plan of a seed: a simulated world, and a list of faults and switches with their instants.
//! Removing a step leaves all others unchanged, which makes it possible to minimise a failing seed.

mod act;
mod beats;
mod guards;
mod kinds;
mod loops;
mod planned;
mod runs;

use std::sync::Arc;

use lockwatch_judge::spec::{
    ClaimsSpec, Codec, ProgressSource, ProgressSpec, StoreIndex, StoreSpec, TaskSpec, WantedSource,
    WantedSpec, WatchSpec,
};
use lockwatch_watch::redis::schedule::Sizes;
use lockwatch_watch::redis::{RedisKind, libraries};

use crate::rng::Rng;
pub use act::{Act, QueueAct, RunsAct, Step, TurnAct};
pub(crate) use act::{Forbidden, Keeps, OldMaster};
use act::{MEAN_GAP_MS, draw_ms};
pub use planned::Plan;
pub(crate) use planned::{Passing, QueuePlan, RunsPlan, TaskPlan, TurnPlan};

/// Number of steps between two calm periods, in which all faults heal.
const STEPS_TO_CALM: u64 = 14;
/// Length of a calm period in milliseconds.
const CALM_MS: u64 = 240_000;
/// Mean time in milliseconds between two reloads of the configuration, for agents that reload.
const MEAN_RELOAD_GAP_MS: u64 = 400_000;

/// Which kinds of worlds may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Any.
    Any,
    /// One of this kind.
    Kind(RedisKind),
}

impl Plan {
    /// The plan of `seed`, for `hours` hours.
    pub fn new(seed: u64, hours: u64, shape: Shape) -> Plan {
        let mut rng = Rng::new(seed, 1);
        let kind = match shape {
            Shape::Kind(kind) => kind,
            Shape::Any => rng
                .weighted(&[
                    (45, RedisKind::Standalone),
                    (25, RedisKind::Sentinel),
                    (15, RedisKind::Replicated),
                    (15, RedisKind::Cluster),
                ])
                .unwrap_or(RedisKind::Standalone),
        };
        let count = match kind {
            RedisKind::Standalone => 1,
            RedisKind::Sentinel | RedisKind::Replicated | RedisKind::Cluster => {
                usize::from(rng.percent(50)) + 2
            }
        };
        let (servers, masters) = match kind {
            RedisKind::Cluster => (count + draw_replicas(seed, count), count),
            RedisKind::Standalone | RedisKind::Sentinel | RedisKind::Replicated => (count, 1),
        };
        let sentinels = if kind == RedisKind::Sentinel { 3 } else { 0 };
        let addresses = if sentinels > 0 {
            (0..sentinels).map(sentinel_address).collect()
        } else {
            (0..servers).map(address).collect()
        };
        let interval_ms = rng.weighted(&[(70, 1_000), (15, 500), (15, 2_000)]).unwrap_or(1_000);
        let redis = StoreSpec {
            name: "main".into(),
            kind: kind.name().into(),
            authority: kind.authority(),
            addresses,
            db: 0,
            interval_ms,
            timeout_ms: rng.weighted(&[(70, 3_000), (30, 1_000)]).unwrap_or(3_000),
        };
        let count = rng.within(4, 8);
        let drawn: Vec<(TaskSpec, TaskPlan)> = (0..count)
            .map(|task| {
                let apart = kind == RedisKind::Cluster && Rng::new(seed, 6 + task).percent(30);
                draw_task(task, kind, apart, &mut rng)
            })
            .collect();
        let (mut specs, mut tasks): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
        guards::draw(seed, &mut specs, &mut tasks);
        let mut plan = Plan {
            seed,
            length_ms: hours * 3_600_000,
            spec: Arc::new(WatchSpec {
                stores: vec![redis],
                tasks: specs.into_iter().map(Arc::new).collect(),
                epoch: 1,
            }),
            tasks,
            agents: if rng.percent(30) { 2 } else { 1 },
            servers,
            masters,
            sentinels,
            has_pexpiretime: rng.percent(75),
            append_only: rng.percent(20),
            wakes: Rng::new(seed, 5).percent(25),
            sizes: draw_sizes(seed, interval_ms),
            steps: Vec::new(),
        };
        plan.steps = draw_steps(&plan, kind);
        plan.steps.extend(draw_reloads(&plan));
        plan.steps.extend(guards::steps(&plan));
        plan.steps.extend(loops::steps(&plan, kind));
        beats::draw(&mut plan);
        kinds::add(&mut plan);
        runs::add(&mut plan);
        plan.steps.sort_by_key(|step| step.at);
        plan
    }
}

/// The address of a server.
pub(crate) fn address(server: usize) -> Arc<str> {
    format!("10.0.0.{}:6379", server + 1).into()
}

/// The server with this address.
pub(crate) fn server_at(at: &str) -> Option<usize> {
    let server = at.split(':').next()?.rsplit('.').next()?.parse::<usize>().ok()?.checked_sub(1)?;
    (*address(server) == *at).then_some(server)
}

/// The address of a Sentinel.
pub(crate) fn sentinel_address(sentinel: usize) -> Arc<str> {
    format!("10.0.1.{}:26379", sentinel + 1).into()
}

fn draw_task(task: u64, kind: RedisKind, apart: bool, rng: &mut Rng) -> (TaskSpec, TaskPlan) {
    let name = format!("task-{task}");
    // In a cluster, all keys of a task share a slot, or all except the lock do.
    let prefix = if kind == RedisKind::Cluster { format!("{{{name}}}") } else { name.clone() };
    let beside = if apart { format!("{{{name}-beside}}") } else { prefix.clone() };
    let library = if rng.percent(75) { "redisson" } else { "string" };
    let churns = rng.percent(12);
    let fixed = !churns && rng.percent(10);
    let lease_ms = if churns {
        2_000
    } else {
        rng.weighted(&[(60, 30_000), (25, 6_000), (15, 3_000)]).unwrap_or(30_000)
    };
    let mut lock = libraries::lock(format!("{prefix}:lock").as_bytes(), library);
    if rng.percent(25) && !fixed {
        lock.lease_ms = Some(lease_ms);
    }
    let mut spec = TaskSpec::new(&name, StoreIndex(0), lock);
    let users = usize::try_from(rng.within(1, 3)).unwrap_or(1);
    let key = |what: &str| format!("{beside}:{what}").into_bytes();
    let source = match rng.below(100) {
        0..50 => Some(WantedSource::Hash(key("users"))),
        50..62 => Some(WantedSource::Set(key("users"))),
        62..72 => Some(WantedSource::Counter(key("users"))),
        72..84 => {
            Some(WantedSource::Keys((0..users).map(|user| key(&format!("user-{user}"))).collect()))
        }
        84..90 => Some(WantedSource::Always),
        90..93 => Some(WantedSource::Never),
        _ => None,
    };
    spec.wanted = source.map(|source| WantedSpec {
        source,
        codec: if rng.percent(85) { Codec::Raw } else { Codec::Json },
    });
    if rng.percent(60) {
        spec.progress = Some(
            ProgressSpec {
                source: match rng.below(3) {
                    0 => ProgressSource::HashField {
                        key: key("progress"),
                        field: b"last_run".to_vec(),
                    },
                    1 => ProgressSource::Key(key("progress")),
                    _ => ProgressSource::Length(key("progress")),
                },
                moves: None,
                stale_after_ms: rng.weighted(&[(50, 60_000), (50, 20_000)]).unwrap_or(60_000),
            }
            .into(),
        );
    }
    if rng.percent(50) {
        spec.claims = Some(ClaimsSpec { key: key("claims"), fresh_for_ms: 10_000 }.into());
    }
    if rng.percent(25) {
        spec.paused_until = Some(key("paused"));
    }
    spec.grace_ms = rng.weighted(&[(50, 20_000), (30, 5_000), (20, 60_000)]).unwrap_or(20_000);
    spec.wind_down_ms = rng.weighted(&[(60, 30_000), (40, 10_000)]).unwrap_or(30_000);
    spec.blind_after_ms = rng.weighted(&[(60, 60_000), (40, 20_000)]).unwrap_or(60_000);
    let workers = usize::try_from(rng.within(2, 3)).unwrap_or(2);
    let has_keys =
        |wanted: &WantedSpec| !matches!(wanted.source, WantedSource::Always | WantedSource::Never);
    let has_parts = spec.wanted.as_ref().is_some_and(has_keys)
        || spec.progress.is_some()
        || spec.claims.is_some();
    let apart = apart && has_parts;
    (
        spec,
        TaskPlan {
            workers,
            users,
            lease_ms,
            churns,
            fixed,
            apart,
            beats_ms: None,
            guards: None,
            turns: None,
            queue: None,
            runs: None,
        },
    )
}

fn draw_steps(plan: &Plan, kind: RedisKind) -> Vec<Step> {
    let mut rng = Rng::new(plan.seed, 2);
    let (mut at, mut steps) = (30_000, Vec::new());
    let mut to_calm = STEPS_TO_CALM;
    while at < plan.length_ms {
        let act = draw_act(plan, kind, &mut rng);
        steps.extend(act.map(|act| Step { at, act }));
        // Usually one at a time, sometimes several at once.
        at += if rng.percent(15) { rng.below(3_000) } else { rng.below(2 * MEAN_GAP_MS) + 1 };
        to_calm -= 1;
        if to_calm == 0 {
            (at, to_calm) = (at + CALM_MS, STEPS_TO_CALM);
        }
    }
    steps
}

/// Reloads occur in a quarter of the worlds, sometimes twice within one reading.
fn draw_reloads(plan: &Plan) -> Vec<Step> {
    let mut rng = Rng::new(plan.seed, 51);
    let (mut at, mut steps) = (0, Vec::new());
    if !rng.percent(25) {
        return steps;
    }
    while at < plan.length_ms {
        at += if rng.percent(15) { rng.below(3_000) } else { rng.below(2 * MEAN_RELOAD_GAP_MS) };
        steps.push(Step { at, act: Act::Reload { agent: rng.index(plan.agents) } });
    }
    steps
}

fn draw_act(plan: &Plan, kind: RedisKind, rng: &mut Rng) -> Option<Act> {
    let task = rng.index(plan.tasks.len());
    let user = rng.index(plan.tasks.get(task).map_or(1, |task| task.users));
    let server = rng.index(plan.servers);
    let agent = rng.index(plan.agents);
    let ms = draw_ms(rng);
    let several = kind != RedisKind::Standalone;
    let group = rng.weighted(&[
        (18, 0),
        (37, 1),
        (15, 2),
        (18, 3),
        (5, 4),
        (if several { 18 } else { 0 }, 5),
    ])?;
    Some(match group {
        0 => match rng.below(10) {
            0..5 => Act::Switch { task, user, on: rng.percent(60) },
            5..8 => Act::SwitchAll { task, on: rng.percent(55) },
            8 => Act::RemoveSwitch { task, user },
            _ => Act::GarbleSwitch { task, user, ms },
        },
        1 => match rng.below(26) {
            0..3 => Act::Crash { task, ms },
            3..7 => Act::CrashAll { task, ms },
            7..10 => Act::PauseWorker { task, ms },
            10..13 => Act::DeadThread { task, ms: ms * 2 },
            13 => Act::Release { task },
            14 => Act::ReEnter { task, lease: false, ms: rng.within(100, 15_000) },
            15 => Act::ReEnter { task, lease: true, ms: rng.within(100, 15_000) },
            16 => Act::PileUp { task, timers: rng.within(1, 4) },
            17..19 => Act::Phantoms { task, count: rng.within(1, 12) },
            19 => Act::StopWatchdog { task },
            20 => Act::DeleteLock { task },
            21 => Act::SecondHolder { task, ms: ms.min(20_000) },
            22 => Act::StealBesideLiving { task },
            23 => Act::Persist { task },
            24 => match rng.below(4) {
                0..2 => Act::WrongType { task, ms },
                2 => Act::Huge { task, ms },
                _ => Act::Deploy { task, ms: ms * 2 },
            },
            _ => {
                if rng.percent(50) {
                    Act::StrangeLayout { task, ms }
                } else {
                    Act::IgnoreOff { task, ms: ms * 2 }
                }
            }
        },
        2 => match rng.below(20) {
            0..3 => {
                Act::RestartServer { server, keeps: Keeps::Nothing, down_ms: ms / 4, loading_ms: 0 }
            }
            3..6 => Act::RestartServer {
                server,
                keeps: draw_kept(ms),
                down_ms: ms / 4,
                loading_ms: ms / 6,
            },
            6..8 => Act::Flush { server },
            8 => Act::FlushOther { server },
            9 => Act::EvictLock { task },
            10 => Act::EvictSwitches { task },
            11 => Act::Freeze { server, ms: ms.min(60_000) },
            12 if rng.percent(70) => Act::Freeze { server, ms: ms.min(60_000) },
            12 => Act::Hang { server, agent, ms: ms.min(60_000) },
            13 => Act::Slow { server, each_ms: rng.within(5, 60), ms },
            14 => Act::Busy { server, ms: ms.min(30_000) },
            15 => Act::Refuse {
                server,
                why: if rng.percent(50) { "maxclients" } else { "noauth" },
                ms,
            },
            16..18 => {
                let what =
                    [Forbidden::Locks, Forbidden::Switches, Forbidden::Progress, Forbidden::Claims];
                Act::Forbid { server, what: what[rng.index(what.len())], ms }
            }
            _ => Act::StepClock { server, by_ms: draw_step(rng) },
        },
        3 => match rng.below(10) {
            0..2 => Act::Cut { agent, server, silently: false, ms },
            2..4 => Act::Cut { agent, server, silently: true, ms },
            4..7 => Act::Delay {
                agent,
                server,
                each_way_ms: [150, 600, 1_200, 2_000, 4_000][rng.index(5)],
                ms,
            },
            7..9 => Act::DropReplies { agent, server, ms },
            _ => Act::Tear { agent, server, ms },
        },
        4 => match rng.below(5) {
            0..3 => Act::PauseAgent { agent, ms },
            3 => Act::RestartAgent { agent },
            _ => Act::StepAgentWall { agent, by_ms: draw_step(rng) },
        },
        _ if kind == RedisKind::Cluster && (plan.servers == plan.masters || rng.percent(40)) => {
            Act::MoveSlot { task, to: server, ms: rng.within(10, 4_000) }
        }
        _ => match rng.below(10) {
            0..6 => Act::Failover {
                of: server,
                lose_ms: if rng.percent(60) { 0 } else { rng.within(500, 15_000) },
                old: [OldMaster::Killed, OldMaster::Frozen, OldMaster::Alive][rng.index(3)],
                ms: ms.min(40_000),
            },
            6 => Act::Partition { of: server, ms: ms.min(40_000) },
            7 => Act::CutSentinels { count: rng.index(3) + 1, ms },
            8 => Act::LyingSentinel { ms },
            _ => Act::Lag { server, lag_ms: rng.within(10, 8_000), ms },
        },
    })
}

/// Up to three slots are read together if most of their tasks need only a glance.
fn draw_sizes(seed: u64, interval_ms: u64) -> Sizes {
    let sizes = Sizes {
        whole_every: Some(if Rng::new(seed, 50).percent(60) { 4 } else { 1 }),
        ..Sizes::default()
    };
    match Rng::new(seed, 52).percent(50) {
        true => Sizes {
            slot_tasks: 1,
            joined_tasks: 3,
            joined_whole: 1,
            joined_ms: interval_ms / 4,
            ..sizes
        },
        false => sizes,
    }
}

/// The number of a cluster's masters that have a replica.
fn draw_replicas(seed: u64, masters: usize) -> usize {
    Rng::new(seed, 4).weighted(&[(30, 0), (50, masters), (20, 1)]).unwrap_or(0)
}

/// An append-only file lacks up to a second of data, a snapshot more.
fn draw_kept(ms: u64) -> Keeps {
    match ms % 4 {
        0 => Keeps::AllBut { last_ms: ms % 1_000 },
        1 => Keeps::AllBut { last_ms: 1_000 + ms * 7 % 40_000 },
        _ => Keeps::All,
    }
}

/// A step that is small enough to be drift, or certainly large enough to count as a step.
fn draw_step(rng: &mut Rng) -> i64 {
    let by = [150, 12_000, 120_000, 3_600_000][rng.index(4)];
    if rng.percent(50) { by } else { -by }
}
