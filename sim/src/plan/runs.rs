//! Periodic tasks in a plan, and what happens to them. All is drawn from a stream of its own, and
//! they come last, so that the other seeds stay as they are.

use std::sync::Arc;

use lockwatch_judge::spec::{RunsSpec, StoreIndex, TaskSpec};
use lockwatch_watch::redis::{RedisKind, libraries};

use super::act::{Act, MEAN_GAP_MS, RunsAct, Step, draw_ms};
use super::kinds::shape;
use super::planned::{Plan, RunsPlan, TaskPlan};
use crate::rng::Rng;

/// One seed in so many has periodic tasks, those with this remainder.
const EACH: (u64, u64) = (5, 3);
const TASKS: usize = 3;

/// Adds periodic tasks to the plan of some seeds.
pub(super) fn add(plan: &mut Plan) {
    if plan.seed % EACH.0 != EACH.1 {
        return;
    }
    let mut rng = Rng::new(plan.seed, 63);
    let first = plan.tasks.len();
    let mut spec = (*plan.spec).clone();
    for _ in 0..TASKS {
        let (of_task, shape) = draw(spec.tasks.len(), plan.kind(), &mut rng);
        spec.tasks.push(Arc::new(of_task));
        plan.tasks.push(shape);
    }
    plan.spec = Arc::new(spec);
    plan.steps.extend(steps(plan, first, &mut rng));
}

fn draw(task: usize, kind: RedisKind, rng: &mut Rng) -> (TaskSpec, TaskPlan) {
    let name = format!("task-{task}");
    let prefix = if kind == RedisKind::Cluster { format!("{{{name}}}") } else { name.clone() };
    let every_ms = rng.weighted(&[(60, 60_000), (40, 150_000)]).unwrap_or(60_000);
    let late_after_ms = rng.weighted(&[(50, 12_000), (50, 25_000)]).unwrap_or(12_000);
    // Those that do not renew have a lease that is longer than most of their runs.
    let renews = rng.percent(40);
    let lease_ms = if renews { 6_000 } else { every_ms / 2 };
    let plan = RunsPlan {
        every_ms,
        jitter_ms: late_after_ms / 4,
        work_ms: if rng.percent(50) { (13_000, 20_000) } else { (13_000, every_ms / 2 - 3_000) },
        least_ms: if renews { 0 } else { [0, 22_000][rng.index(2)] },
    };
    let library = if rng.percent(50) { "redisson" } else { "string" };
    let mut lock = libraries::lock(format!("{prefix}:lock").as_bytes(), library);
    let max_ms = rng.percent(70).then_some(every_ms / 2 + 5_000);
    lock.runs = Some(RunsSpec { every_ms, late_after_ms, max_ms }.into());
    let mut spec = TaskSpec::new(&name, StoreIndex(0), lock);
    spec.paused_until = rng.percent(40).then(|| format!("{prefix}:paused").into_bytes());
    spec.blind_after_ms = rng.weighted(&[(60, 60_000), (40, 20_000)]).unwrap_or(60_000);
    (spec, TaskPlan { workers: 2, lease_ms, fixed: !renews, runs: Some(plan), ..shape(1) })
}

fn steps(plan: &Plan, first: usize, rng: &mut Rng) -> Vec<Step> {
    let (mut at, mut steps) = (30_000, Vec::new());
    while at < plan.length_ms {
        let task = first + rng.index(plan.tasks.len() - first);
        let (ms, agent) = (draw_ms(rng), rng.index(plan.agents));
        let every_ms = plan.tasks[task].runs.as_ref().map_or(0, |runs| runs.every_ms);
        let act = match rng.below(20) {
            0..4 => Act::Runs { task, what: RunsAct::Stop, ms: every_ms + ms },
            4 => Act::Runs { task, what: RunsAct::Stop, ms: 3 * every_ms + ms },
            5..8 => Act::Runs { task, what: RunsAct::Long, ms },
            8 => Act::Runs { task, what: RunsAct::Long, ms: 2 * every_ms },
            9..11 => Act::Crash { task, ms },
            11..13 => Act::Deploy { task, ms: ms * 2 },
            13 => Act::EvictLock { task },
            14 => Act::DeleteLock { task },
            15 => Act::WrongType { task, ms },
            // Nothing is read for a while.
            16..18 => Act::PauseAgent { agent, ms: rng.within(3_000, 30_000) },
            _ => Act::RestartAgent { agent },
        };
        steps.push(Step { at, act });
        at += rng.below(2 * MEAN_GAP_MS) + 1;
    }
    steps
}
