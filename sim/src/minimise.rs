//! Reduces a failing plan to as few steps as possible.

use crate::oracle::Violation;
use crate::plan::Plan;
use crate::run::run;

/// Maximum number of runs spent on minimising.
const RUNS: usize = 250;

/// The positions of the steps that are enough to make the same check fail, and the resulting
/// violation.
pub fn minimise(plan: &Plan, violation: &Violation) -> (Vec<usize>, Violation) {
    let fails = |kept: &[usize], until: u64| {
        let plan = Plan { length_ms: until, ..plan.keeping(kept) };
        run(&plan, false).violations.into_iter().find(|other| other.check == violation.check)
    };
    let mut left = RUNS;
    let mut found = violation.clone();
    let mut kept: Vec<usize> = (0..plan.steps.len())
        .filter(|position| plan.steps[*position].at <= violation.at_ms)
        .collect();
    // Usually the newest steps are enough, and a run with few steps is cheap.
    for newest in [1, 3, 8, 20] {
        let rest: Vec<usize> = kept.iter().rev().take(newest).rev().copied().collect();
        if rest.len() < kept.len()
            && let Some(violation) = fails(&rest, found.at_ms + 120_000)
        {
            (kept, found) = (rest, violation);
            break;
        }
    }
    let mut chunk = kept.len().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < kept.len() && left > 0 {
            let rest: Vec<usize> = kept
                .iter()
                .enumerate()
                .filter(|(at, _)| !(from..from + chunk).contains(at))
                .map(|(_, step)| *step)
                .collect();
            left -= 1;
            // Without the other steps the failure may come slightly later.
            match fails(&rest, found.at_ms + 120_000) {
                Some(violation) => (kept, found) = (rest, violation),
                None => from += chunk,
            }
        }
        if chunk == 1 || left == 0 {
            return (kept, found);
        }
        chunk = chunk.div_ceil(2);
    }
}
