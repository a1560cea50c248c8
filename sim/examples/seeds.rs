//! Runs seeds until one of them shows a violation, and says which: `seeds FROM COUNT HOURS [KIND]
//! [wake-ups] [guards] [STEP]`, of worlds of a kind, or with a step such as `Deploy`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lockwatch_sim::{Plan, Shape, run};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |position: usize, default: u64| {
        words.get(position).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let (from, count, hours) = (number(0, 1), number(1, 10), number(2, 10));
    let fits = |plan: &Plan| {
        words.iter().skip(3).all(|word| match word.as_str() {
            "wake-ups" => plan.has_wake_ups(),
            "guards" => plan.has_guards(),
            step if step.starts_with(char::is_uppercase) => {
                plan.steps.iter().any(|each| format!("{:?}", each.act).starts_with(step))
            }
            kind => plan.kind().name() == kind,
        })
    };
    let plan = |seed: u64| Plan::new(seed, hours, Shape::Any);
    let seeds: Vec<u64> =
        (from..).filter(|seed| fits(&plan(*seed))).zip(0..count).map(|(seed, _)| seed).collect();
    let (next, ends, failed) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let all = std::env::var_os("SEEDS_ALL").is_some();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed))
                    && !ends.load(Ordering::Relaxed)
                {
                    if let Some(first) = run(&plan(*seed), false).violations.first() {
                        let told = format!(
                            "seed {seed} after {} ms, {}: {}\n",
                            first.at_ms, first.check, first.what
                        );
                        let written = std::io::stdout().lock().write_all(told.as_bytes());
                        ends.store(!all || written.is_err(), Ordering::Relaxed);
                        if let Ok(mut failed) = failed.lock() {
                            *failed = Some(*seed);
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        Ok(None) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
