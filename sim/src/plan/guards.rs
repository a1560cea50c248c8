//! Guards in a plan: which tasks have them, their terms, and what happens to them. All is drawn
//! from streams of its own, so that the other tasks of a seed stay as they are.

use lockwatch_guard::{Restart, Terms};
use lockwatch_judge::spec::{ProgressSource, TaskSpec, WantedSource};

use super::act::{Act, MEAN_GAP_MS, Step};
use super::planned::{GuardPlan, Plan, TaskPlan};
use crate::rng::Rng;

/// One seed in so many has guards. The other seeds mean what they meant before there were guards.
const EACH: u64 = 5;

/// Gives guards to some tasks of a seed, instead of its workers or together with one of them.
pub(super) fn draw(seed: u64, specs: &mut [TaskSpec], tasks: &mut [TaskPlan]) {
    if !seed.is_multiple_of(EACH) {
        return;
    }
    let mut rng = Rng::new(seed, 60);
    for (spec, task) in specs.iter_mut().zip(tasks) {
        let is_never = |it: &WantedSource| matches!(it, WantedSource::Never);
        let fits = spec.lock().is_some_and(|lock| lock.library.as_str() == "redisson")
            && !task.churns
            && !task.fixed
            && !spec.wanted.as_ref().is_some_and(|wanted| is_never(&wanted.source));
        if !rng.percent(60) || !fits {
            continue;
        }
        task.workers = usize::from(rng.percent(40));
        let guards = usize::try_from(rng.within(2, 3)).unwrap_or(2);
        task.guards = Some(GuardPlan { guards, terms: draw_terms(task.lease_ms, &mut rng) });
        // A guard cannot lengthen a list, and its script does not know of Redis.
        spec.progress.take_if(|progress| matches!(progress.source, ProgressSource::Length(_)));
    }
}

fn draw_terms(lease_ms: u64, rng: &mut Rng) -> Terms {
    let give_up_after = rng.percent(30).then_some(3);
    let restart = if rng.percent(80) { Restart::Always } else { Restart::OnFailure };
    Terms {
        lease_ms,
        stop_after_ms: match lease_ms {
            ..5_000 => 800,
            5_000..10_000 => 2_000,
            _ => 10_000,
        },
        backoff_ms: (500, 5_000),
        give_up_after,
        restart,
        wait_ms: None,
        at_least_ms: if restart == Restart::OnFailure { lease_ms * 3 / 2 } else { 0 },
        shown_ms: 2_000,
    }
}

/// What happens to the guards.
pub(super) fn steps(plan: &Plan) -> Vec<Step> {
    let guarded: Vec<(usize, GuardPlan)> =
        plan.tasks.iter().enumerate().filter_map(|(at, task)| Some((at, task.guards?))).collect();
    let mut rng = Rng::new(plan.seed, 61);
    let (mut at, mut steps) = (20_000, Vec::new());
    while at < plan.length_ms && !guarded.is_empty() {
        let (task, guards) = guarded[rng.index(guarded.len())];
        let act = draw_act(task, guards.terms.lease_ms, &mut rng);
        steps.push(Step { at, act });
        // What it learned late must not outlive the lease that it was about.
        if let (Act::PauseGuard { ms, .. }, true) = (act, rng.percent(50)) {
            let at = at + ms + rng.below(guards.terms.period_ms());
            steps.push(Step { at, act: Act::CutGuard { task, ms: 2 * guards.terms.lease_ms } });
        }
        // Sometimes the next one comes while the effect of this one lasts.
        at += if rng.percent(20) { rng.below(4_000) } else { rng.below(2 * MEAN_GAP_MS) + 1 };
    }
    steps
}

fn draw_act(task: usize, lease_ms: u64, rng: &mut Rng) -> Act {
    // Around the instants at which the lease, or what is left of it, is over.
    let percent = rng.weighted(&[(30, 30), (30, 90), (40, 150), (20, 400)]).unwrap_or(90);
    let ms = lease_ms * percent / 100 + rng.below(1_000);
    match rng.below(20) {
        0..3 => Act::PauseGuard { task, ms },
        3..6 => Act::PauseKeeper { task, ms },
        6..10 => Act::PauseBoth { task, script: rng.percent(40), ms },
        10..13 => Act::KillGuard { task, ms: rng.within(100, 20_000) },
        13..15 => Act::KillKeeper { task },
        15 => Act::StopGuard { task },
        16..18 => Act::CutGuard { task, ms },
        _ => Act::LagGuard { task, each_way_ms: [100, 400, 1_500][rng.index(3)], ms },
    }
}
