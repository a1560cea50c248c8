//! Locks that are held again and again, each time too shortly, and what else happens meanwhile:
//! where the length of a gap is hardest to count. Drawn from a stream of its own.

use lockwatch_watch::redis::RedisKind;

use super::act::{Act, OldMaster, Step};
use super::planned::Plan;
use crate::rng::Rng;

/// One seed in so many has them, those with this remainder.
const EACH: (u64, u64) = (4, 3);

/// The loops, and what happens within each.
pub(super) fn steps(plan: &Plan, kind: RedisKind) -> Vec<Step> {
    let is_fit = |task: &usize| {
        let plans = &plan.tasks[*task];
        plan.spec.tasks[*task].lock().is_some() && plans.guards.is_none() && !plans.churns
    };
    let fit: Vec<usize> = (0..plan.tasks.len()).filter(is_fit).collect();
    let mut rng = Rng::new(plan.seed, 90);
    let (mut at, mut steps) = (45_000, Vec::new());
    while at < plan.length_ms && plan.seed % EACH.0 == EACH.1 && !fit.is_empty() {
        let task = fit[rng.index(fit.len())];
        let spec = &plan.spec.tasks[task];
        let settle_ms = spec.settle_ms;
        let (held_ms, free_ms) = match rng.below(5) {
            0 => (120, 880),
            1 => (120, 180),
            2 => (settle_ms - rng.within(100, 600), rng.within(300, 2_000)),
            3 => (settle_ms + rng.within(100, 600), rng.within(300, 2_000)),
            _ => (rng.within(50, 2 * settle_ms), rng.within(5, 3_000)),
        };
        let ms = spec.grace_ms + rng.below(2 * spec.grace_ms + 30_000);
        let left = ms / (held_ms + free_ms) + 1;
        let runs_out = rng.percent(60);
        steps.push(Step { at, act: Act::CrashAll { task, ms } });
        steps.push(Step { at, act: Act::Loop { task, held_ms, free_ms, runs_out, left } });
        steps.extend(draw_twist(plan, kind, (task, at, ms), &mut rng));
        at += ms + rng.within(30_000, 300_000);
    }
    steps
}

/// What else happens to a task within `ms` from `from` on.
fn draw_twist(
    plan: &Plan,
    kind: RedisKind,
    (task, from, ms): (usize, u64, u64),
    rng: &mut Rng,
) -> Vec<Step> {
    let at = from + rng.below(ms);
    let (agent, server) = (rng.index(plan.agents), rng.index(plan.servers));
    let percent = if rng.percent(50) { 90 } else { 110 };
    let blind_ms = plan.spec.tasks[task].blind_after_ms * percent / 100;
    let lose_ms = if rng.percent(50) { 0 } else { rng.within(500, 4_000) };
    let act = match rng.below(8) {
        0 | 1 => Act::Deploy { task, ms: rng.within(1_000, ms) },
        2 => Act::Cut { agent, server, silently: false, ms: blind_ms },
        3 => Act::Freeze { server, ms: blind_ms.min(60_000) },
        4 => Act::PauseAgent { agent, ms: blind_ms },
        5 if kind != RedisKind::Standalone => {
            Act::Failover { of: server, lose_ms, old: OldMaster::Alive, ms: 5_000 }
        }
        5 | 6 => {
            let again = Step { at: at + rng.below(20_000), act: Act::SwitchAll { task, on: true } };
            return vec![Step { at, act: Act::SwitchAll { task, on: false } }, again];
        }
        _ => return Vec::new(),
    };
    vec![Step { at, act }]
}
