//! Tasks of other kinds than locks in a plan, and what happens to them. All is drawn from streams
//! of its own, and they come after the locks, so that the other seeds stay as they are.

use std::sync::Arc;

use lockwatch_judge::spec::{
    ClaimsSpec, Codec, KeyPattern, KindSpec, QueueSpec, StoreIndex, TaskSpec, TurnSpec, Unit,
    WantedSource, WantedSpec,
};
use lockwatch_watch::redis::RedisKind;

use super::act::{Act, MEAN_GAP_MS, QueueAct, Step, TurnAct, draw_ms};
use super::planned::{Passing, Plan, QueuePlan, TaskPlan, TurnPlan};
use crate::rng::Rng;

/// One seed in so many has other kinds of tasks, those with this remainder.
const EACH: (u64, u64) = (5, 2);
/// Number of tasks of each kind.
const OF_EACH_KIND: usize = 2;

const TURN_ACTS: [(u64, TurnAct); 11] = [
    (20, TurnAct::Stop),
    (10, TurnAct::Long),
    (20, TurnAct::SlowPass),
    (12, TurnAct::Forget),
    (12, TurnAct::KeepBoth),
    (6, TurnAct::Skip),
    (8, TurnAct::SecondField),
    (4, TurnAct::ForeignName),
    (3, TurnAct::OtherUnit),
    (3, TurnAct::NoNumber),
    (5, TurnAct::AtOnce),
];

const QUEUE_ACTS: [(u64, QueueAct); 10] = [
    (15, QueueAct::Die),
    (20, QueueAct::Long),
    (8, QueueAct::Retry),
    (18, QueueAct::StopAll),
    (10, QueueAct::Burst),
    (8, QueueAct::PassOver),
    (6, QueueAct::CleanUp),
    (6, QueueAct::StaleLock),
    (5, QueueAct::Remove),
    (4, QueueAct::Rescore),
];

/// Adds tasks of other kinds to the plan of some seeds.
pub(super) fn add(plan: &mut Plan) {
    if plan.seed % EACH.0 != EACH.1 {
        return;
    }
    let mut rng = Rng::new(plan.seed, 61);
    let first = plan.tasks.len();
    let mut spec = (*plan.spec).clone();
    for _ in 0..OF_EACH_KIND {
        let (of_task, shape) = draw_turns(spec.tasks.len(), plan.kind(), &mut rng);
        spec.tasks.push(Arc::new(of_task));
        plan.tasks.push(shape);
    }
    let turns = first..plan.tasks.len();
    for _ in 0..OF_EACH_KIND {
        let (of_task, shape) = draw_queue(spec.tasks.len(), plan.kind(), &mut rng);
        spec.tasks.push(Arc::new(of_task));
        plan.tasks.push(shape);
    }
    plan.spec = Arc::new(spec);
    for tasks in [turns.clone(), turns.end..plan.tasks.len()] {
        plan.steps.extend(steps(plan, tasks, &mut rng));
    }
}

fn draw_turns(task: usize, kind: RedisKind, rng: &mut Rng) -> (TaskSpec, TaskPlan) {
    let name = format!("task-{task}");
    let prefix = if kind == RedisKind::Cluster { format!("{{{name}}}") } else { name.clone() };
    let count = rng.weighted(&[(10, 1), (45, 2), (30, 3), (15, 8)]).unwrap_or(2);
    let names: Vec<String> = (0..count).map(|at| format!("part-{at}")).collect();
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    // Faults of locks concern it, too: it has the same ending.
    let mut turn = TurnSpec::new(format!("{prefix}:lock").as_bytes(), &named);
    turn.unit = if rng.percent(60) { Unit::Milliseconds } else { Unit::Seconds };
    turn.max_late_ms = rng.weighted(&[(50, 30_000), (50, 10_000)]).unwrap_or(30_000);
    turn.handover_ms = rng.weighted(&[(70, 1_250), (30, 4_000)]).unwrap_or(1_250);
    let work_ms = rng
        .weighted(&[(30, (200, 900)), (40, (3_000, 5_000)), (30, (500, 8_000))])
        .unwrap_or((200, 900));
    if rng.percent(60) {
        turn.min_turn_ms = Some(work_ms.0);
    }
    let passing = [Passing::AtOnce, Passing::DelFirst, Passing::SetFirst][rng.index(3)];
    let turns = TurnPlan {
        names: names.into_iter().map(String::into_bytes).collect(),
        unit: turn.unit,
        passing,
        work_ms,
        pause_ms: rng.weighted(&[(50, 0), (50, 500)]).unwrap_or(0),
    };
    let mut spec = TaskSpec::of(&name, StoreIndex(0), KindSpec::Turn(turn));
    let users = draw_parts(&mut spec, &prefix, rng);
    (spec, TaskPlan { turns: Some(turns), ..shape(users) })
}

fn draw_queue(task: usize, kind: RedisKind, rng: &mut Rng) -> (TaskSpec, TaskPlan) {
    let name = format!("task-{task}");
    let prefix = if kind == RedisKind::Cluster { format!("{{{name}}}") } else { name.clone() };
    let pattern = format!("{prefix}:member:{{id}}:lock");
    let lock =
        KeyPattern::parse(pattern.as_bytes()).unwrap_or_else(|| unreachable!("it has an id"));
    let mut queue = QueueSpec::new(format!("{prefix}:lock").as_bytes(), lock, "string");
    queue.unit = if rng.percent(60) { Unit::Seconds } else { Unit::Milliseconds };
    queue.max_late_ms = rng.weighted(&[(50, 10_000), (50, 20_000)]).unwrap_or(10_000);
    let plan = QueuePlan {
        workers: rng.index(3) + 2,
        unit: queue.unit,
        max_late_ms: queue.max_late_ms,
        each_ms: rng.weighted(&[(50, 1_500), (50, 8_000)]).unwrap_or(1_500),
        work_ms: rng.weighted(&[(50, (50, 600)), (50, (1_500, 5_000))]).unwrap_or((50, 600)),
        lock_ms: rng.weighted(&[(60, 10_000), (40, 60_000)]).unwrap_or(10_000),
        renews: rng.percent(50),
        looks_whose: rng.percent(60),
    };
    let mut spec = TaskSpec::of(&name, StoreIndex(0), KindSpec::Queue(queue));
    if rng.percent(60) {
        let key = format!("{prefix}:claims").into_bytes();
        spec.claims = Some(ClaimsSpec { key, fresh_for_ms: 10_000 }.into());
    }
    let users = draw_parts(&mut spec, &prefix, rng);
    (spec, TaskPlan { queue: Some(plan), ..shape(users) })
}

/// The parts that are read with it. Returns the number of its users.
fn draw_parts(spec: &mut TaskSpec, prefix: &str, rng: &mut Rng) -> usize {
    let users = rng.index(2) + 1;
    let source = match rng.below(100) {
        0..60 => Some(WantedSource::Hash(format!("{prefix}:users").into_bytes())),
        60..80 => Some(WantedSource::Always),
        _ => None,
    };
    spec.wanted = source.map(|source| WantedSpec { source, codec: Codec::Raw });
    spec.paused_until = rng.percent(40).then(|| format!("{prefix}:paused").into_bytes());
    spec.grace_ms = rng.weighted(&[(50, 20_000), (50, 5_000)]).unwrap_or(20_000);
    spec.blind_after_ms = rng.weighted(&[(60, 60_000), (40, 20_000)]).unwrap_or(60_000);
    users
}

/// A task without workers that take a lock.
pub(super) fn shape(users: usize) -> TaskPlan {
    TaskPlan {
        workers: 0,
        users,
        lease_ms: 60_000,
        churns: false,
        fixed: false,
        apart: false,
        beats_ms: None,
        guards: None,
        turns: None,
        queue: None,
        runs: None,
    }
}

/// What happens to tasks of any kind.
fn common(task: usize, users: usize, servers: usize, ms: u64, rng: &mut Rng) -> Act {
    let user = rng.index(users);
    match rng.below(10) {
        0..2 => Act::Switch { task, user, on: rng.percent(60) },
        2..5 => Act::SwitchAll { task, on: rng.percent(60) },
        5..7 => Act::Deploy { task, ms: ms * 2 },
        7 => Act::EvictLock { task },
        8 => Act::WrongType { task, ms },
        _ => Act::MoveSlot { task, to: rng.index(servers), ms: rng.within(10, 4_000) },
    }
}

fn steps(plan: &Plan, tasks: std::ops::Range<usize>, rng: &mut Rng) -> Vec<Step> {
    let (mut at, mut steps) = (30_000, Vec::new());
    while at < plan.length_ms {
        let task = tasks.start + rng.index(tasks.len());
        let ms = draw_ms(rng);
        let act = match rng.percent(25) {
            true => common(task, plan.tasks[task].users, plan.servers, ms, rng),
            false => {
                let turn = rng.weighted(&TURN_ACTS).unwrap_or(TurnAct::Stop);
                let of_queue = rng.weighted(&QUEUE_ACTS).unwrap_or(QueueAct::Die);
                match plan.tasks[task].queue.is_some() {
                    true => Act::Queue { task, what: of_queue, ms },
                    false => Act::Turn { task, what: turn, ms },
                }
            }
        };
        if plan.kind() == RedisKind::Cluster || !matches!(act, Act::MoveSlot { .. }) {
            steps.push(Step { at, act });
        }
        at += rng.below(2 * MEAN_GAP_MS) + 1;
    }
    steps
}
