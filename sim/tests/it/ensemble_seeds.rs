//! Runs watcher and state against virtual ensembles of ZooKeeper, and checks them with an oracle
//! that knows the truth.
//!
//! `SIM_ENSEMBLE=SEED [SIM_MINUTES=…]` runs a single seed, as printed by a failure.

use lockwatch_sim::{EnsembleCoverage, EnsemblePlan, run_ensemble};

use crate::simulation::each;

/// Virtual minutes of each seed.
const MINUTES: u64 = 60;
/// Seeds of each run. Everything occurs in them that the coverage requires.
const SEEDS: [u64; 8] = [1, 2, 3, 4, 6, 8, 10, 22];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn check(seed: u64, minutes: u64) -> EnsembleCoverage {
    let plan = EnsemblePlan::new(seed, minutes);
    let outcome = run_ensemble(&plan);
    if let Some((at, what)) = outcome.violation {
        panic!(
            "seed {seed} fails after {at} ms: {what}\nwhat really happened before that:\n  {}\n\
             again: SIM_ENSEMBLE={seed} SIM_MINUTES={minutes} cargo test -p lockwatch-sim \
             ensemble_seeds::",
            outcome.truth.join("\n  ")
        );
    }
    outcome.coverage
}

#[test]
fn what_is_said_of_an_ensemble_is_true_and_in_time() {
    let minutes = number("SIM_MINUTES").unwrap_or(MINUTES);
    if let Some(seed) = number("SIM_ENSEMBLE") {
        println!("{}", check(seed, minutes).table());
        return;
    }
    let mut coverage = EnsembleCoverage::default();
    each(&SEEDS, |seed| check(seed, minutes)).iter().for_each(|seen| coverage.add(seen));
    println!("{}", coverage.table());
    assert!(coverage.missing().is_empty(), "never occurred: {:?}", coverage.missing());
}
