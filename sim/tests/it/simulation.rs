//! Runs watcher and state against virtual servers, workers and networks, and checks it with an
//! oracle that knows the truth: with fixed seeds, and with new ones.
//!
//! `SIM_SEED=… [SIM_HOURS=…] [SIM_KEEP=…]` runs a single seed, as printed by a failure. With
//! `SIM_STRICT=1`, new seeds must pass, too.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lockwatch_sim::{Coverage, Plan, Shape, minimise, run};
use lockwatch_watch::redis::RedisKind;

/// Virtual hours of each new seed.
const HOURS: u64 = 10;
/// Virtual hours of each fixed seed: enough that everything occurs which the coverage requires.
const FIXED_HOURS: u64 = 6;
/// Seeds of each run; they include every kind of redis, guards, turns and queues. What takes
/// longest comes first, so that no processor is idle at the end.
const FIXED: [u64; 9] = [65, 20, 6, 17, 3, 50, 1, 9, 16];
/// Seeds that once showed a mistake, of the program or of the oracle, with their hours.
const REMEMBERED: [(u64, u64); 11] = [
    (6_132, 4),
    (6_212, 2),
    (31_012, 2),
    (31_050, 2),
    (32_045, 2),
    (32_049, 2),
    (32_095, 2),
    (32_125, 2),
    (34_011, 2),
    (34_017, 2),
    (35_015, 1),
];
/// Number of additional seeds, drawn for each run.
const FRESH: u64 = 2;

/// Prints in every run; the print macros show their output only when a test fails.
fn print(text: &str) {
    let written = std::io::stderr().lock().write_all(text.as_bytes());
    assert!(written.is_ok(), "stderr is closed");
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Does `work` for each seed, on a thread for each processor: no other test runs beside this one.
pub(super) fn each<S: Copy + Sync, T: Send>(seeds: &[S], work: impl Fn(S) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || -> Vec<T> {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.map_while(|number| seeds.get(number)).map(|seed| work(*seed)).collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let begun: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        let ended = begun.into_iter().map(|thread| thread.join());
        ended.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Runs a plan. A failing one is minimised first, so that the printed command reproduces only the
/// relevant steps. Returns what occurred, and the task-hours.
fn check(plan: &Plan, hours: u64) -> (Coverage, f64) {
    let outcome = run(plan, false);
    assert!(
        outcome.steps_per_hour >= 20.0,
        "seed {}: only {:.1} faults and switches an hour",
        plan.seed,
        outcome.steps_per_hour
    );
    if let Some(violation) = outcome.violations.first() {
        print(&format!(
            "seed {} fails by {}; it is being made small\n",
            plan.seed, violation.check
        ));
        let (kept, small) = minimise(plan, violation);
        let steps: Vec<String> = kept.iter().map(|step| step.to_string()).collect();
        let shown: Vec<String> = kept
            .iter()
            .filter_map(|step| plan.steps.get(*step))
            .map(|step| format!("{step:?}"))
            .collect();
        panic!(
            "seed {} fails after {} ms, agent {}, {}: {}\nwith these steps alone:\n  {}\n\
             it says after {} ms: {}\nwhat really happened before that:\n  {}\nagain:  \
             SIM_SEED={} SIM_HOURS={hours} SIM_KEEP={} cargo test -p lockwatch-sim \
             simulation::\nrecord: lockwatch-lab simulate --seed {} --hours {hours} --keep {} --record FILE",
            plan.seed,
            violation.at_ms,
            violation.agent,
            violation.check,
            violation.what,
            shown.join("\n  "),
            small.at_ms,
            small.what,
            small.truth.join("\n  "),
            plan.seed,
            steps.join(","),
            plan.seed,
            steps.join(","),
        );
    }
    (outcome.coverage, outcome.task_hours)
}

#[test]
fn what_the_model_says_is_true_and_in_time() {
    if let Some(seed) = number("SIM_SEED") {
        let hours = number("SIM_HOURS").unwrap_or(HOURS);
        let plan = Plan::new(seed, hours, Shape::Any);
        let outcome = match std::env::var("SIM_KEEP") {
            Ok(kept) => run(
                &plan.keeping(
                    &kept.split(',').filter_map(|step| step.parse().ok()).collect::<Vec<_>>(),
                ),
                false,
            ),
            Err(_) => run(&plan, false),
        };
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        return;
    }
    let (mut coverage, mut hours) = (Coverage::default(), 0.0);
    // The first seeds cover every kind of redis and everything that the coverage requires.
    for (occurred, of_seed) in
        each(&FIXED, |seed| check(&Plan::new(seed, FIXED_HOURS, Shape::Any), FIXED_HOURS))
    {
        coverage.add(&occurred);
        hours += of_seed;
    }
    print(&format!("{}{hours:.0} task-hours\n", coverage.table()));
    assert!(coverage.missing().is_empty(), "never occurred: {:?}", coverage.missing());
    each(&REMEMBERED, |(seed, hours)| check(&Plan::new(seed, hours, Shape::Any), hours));
    let strict = std::env::var_os("SIM_STRICT").is_some();
    // The standard library's random state, drawn once per hasher.
    let draw = |_| RandomState::new().build_hasher().finish() % 1_000_000_000_000;
    let is_long = strict || std::env::var_os("LOCKWATCH_LONG").is_some();
    let fresh: Vec<u64> = (0..if is_long { FRESH } else { 0 }).map(draw).collect();
    fresh.iter().for_each(|seed| print(&format!("fresh seed {seed}\n")));
    each(&fresh, |seed| {
        let plan = Plan::new(seed, HOURS, Shape::Any);
        if strict {
            check(&plan, HOURS);
        } else if let Some(violation) = run(&plan, false).violations.first() {
            // About one in a hundred new seeds fails, mostly because the oracle is too strict.
            // Such a failure should be analysed, but it is not evidence against the change under
            // test.
            print(&format!(
                "seed {seed} fails after {} ms, agent {}, {}: {}\n\
                 again: SIM_SEED={seed} cargo test -p lockwatch-sim simulation::\n",
                violation.at_ms, violation.agent, violation.check, violation.what
            ));
        }
    });
}

#[test]
fn a_seed_decides_everything() {
    let plan = Plan::new(4, 1, Shape::Kind(RedisKind::Sentinel));
    let [one, other] = [run(&plan, true), run(&plan, true)];
    assert!(one.inputs == other.inputs, "two runs of one seed differ");
    assert!(one.inputs.iter().any(|inputs| inputs.len() > 1_000));
}
