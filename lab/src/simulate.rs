//! Runs the simulator for many seeds, minimises each failure, and writes the inputs of one as a
//! recording.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use lockwatch::record::{RecordOptions, Recorder};
use lockwatch_sim::{
    Coverage, EnsembleCoverage, EnsemblePlan, Outcome, Plan, Shape, Violation, minimise,
    run as simulate, run_ensemble,
};
use lockwatch_watch::redis::RedisKind;

/// Number of inputs after which the recorder's queue gets time to empty.
const BURST: usize = 5_000;
/// Duration of that pause: a disk writes so many inputs in less.
const BREATH: Duration = Duration::from_millis(60);
/// Virtual minutes of each ensemble.
const ENSEMBLE_MINUTES: u64 = 60;
/// Interval of progress reports.
const PRINTED_EVERY: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// How many seeds
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// Virtual hours of each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    hours: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// So many at once [default: one for each processor]
    #[arg(long)]
    jobs: Option<NonZeroU32>,
    /// Of these, only those with a redis of this kind
    #[arg(long, value_parser = kind_named)]
    kind: Option<RedisKind>,
    /// Ensembles of ZooKeeper instead, one virtual hour of each seed
    #[arg(long, conflicts_with_all = ["hours", "kind", "keep", "record", "minimise"])]
    ensembles: bool,
    /// This seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Of that seed, these steps alone: what a failure prints
    #[arg(long, value_delimiter = ',', requires = "seed")]
    keep: Option<Vec<usize>>,
    /// Write what the agent took in as a recording, for `lockwatch replay FILE`; of several seeds,
    /// the first that fails
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Make each failure as small as possible
    #[arg(long)]
    minimise: bool,
}

/// Runs the seeds; returns whether all passed.
///
/// # Errors
/// When the recording cannot be written.
pub fn run(args: &SimulateArgs) -> anyhow::Result<bool> {
    if let Some(file) = args.record.as_ref().filter(|file| file.exists()) {
        bail!("{} is there already: name another file", file.display());
    }
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.from..args.from.saturating_add(args.seeds),
    };
    if args.ensembles {
        return Ok(ensembles(&seeds.collect::<Vec<_>>(), args.jobs));
    }
    let wanted =
        |seed: &u64| args.kind.is_none_or(|kind| Plan::new(*seed, 0, Shape::Any).kind() == kind);
    let seeds: Vec<u64> = seeds.filter(wanted).collect();
    let count = seeds.len();
    let (began, mut printed_at) = (Instant::now(), Instant::now());
    let (mut coverage, mut hours, mut failures, mut done, mut to_record) =
        (Coverage::default(), 0.0, 0, 0_u64, None);
    each(
        &seeds,
        args.jobs,
        |seed| trial(seed, args),
        |trial| {
            coverage.add(&trial.coverage);
            hours += trial.task_hours;
            failures += u64::from(trial.failure.is_some());
            done += 1;
            if let Some(failure) = trial.failure {
                print!("{failure}");
            }
            to_record = to_record.take().or(trial.to_record);
            if printed_at.elapsed() > PRINTED_EVERY {
                printed_at = Instant::now();
                eprintln!("{done} of {count} seeds, {failures} failed");
            }
        },
    );
    if let (Some(file), Some((plan, agent))) = (&args.record, to_record) {
        record(&simulate(&plan, true), agent, file)?;
        println!("recorded: lockwatch replay {}", file.display());
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{}{count} seeds of {} h, {failures} failed; {hours:.0} task-hours in {seconds:.0} s \
         ({:.0} an hour and thread)",
        coverage.table(),
        args.hours,
        hours / seconds / f64::from(threads(args.jobs, count)) * 3_600.0
    );
    if args.seed.is_none() && args.seeds >= 10 && !coverage.missing().is_empty() {
        println!("never occurred: {}", coverage.missing().join(", "));
        return Ok(false);
    }
    Ok(failures == 0)
}

/// Runs these seeds of ensembles; returns whether all passed.
fn ensembles(seeds: &[u64], jobs: Option<NonZeroU32>) -> bool {
    let (mut coverage, mut failures) = (EnsembleCoverage::default(), 0);
    let trial = |seed| (seed, run_ensemble(&EnsemblePlan::new(seed, ENSEMBLE_MINUTES)));
    each(seeds, jobs, trial, |(seed, outcome)| {
        coverage.add(&outcome.coverage);
        if let Some((at, what)) = outcome.violation {
            failures += 1;
            println!("seed {seed} fails after {at} ms: {what}\n  {}", outcome.truth.join("\n  "));
        }
    });
    println!("{}{} seeds of ensembles, {failures} failed", coverage.table(), seeds.len());
    let missing = coverage.missing();
    let is_short = seeds.len() < 10 || missing.is_empty();
    if !is_short {
        println!("never occurred: {}", missing.join(", "));
    }
    failures == 0 && is_short
}

fn kind_named(name: &str) -> Result<RedisKind, String> {
    let kinds = RedisKind::ALL;
    let named = kinds.into_iter().find(|kind| kind.name() == name);
    named.ok_or_else(|| format!("one of {}", kinds.map(RedisKind::name).join(", ")))
}

/// The result of one seed.
struct Trial {
    coverage: Coverage,
    task_hours: f64,
    /// The description of the failure, to be printed.
    failure: Option<String>,
    /// The plan to record, and the index of the agent.
    to_record: Option<(Plan, usize)>,
}

fn trial(seed: u64, args: &SimulateArgs) -> Trial {
    let whole = Plan::new(seed, args.hours, Shape::Any);
    let plan = args.keep.as_ref().map_or_else(|| whole.clone(), |kept| whole.keeping(kept));
    let outcome = simulate(&plan, false);
    let (failure, to_record) = match outcome.violations.first() {
        Some(violation) => {
            let (text, small) = described(&plan, violation, args);
            (Some(text), Some(small))
        }
        None => (None, args.seed.is_some().then_some((plan, 0))),
    };
    Trial { coverage: outcome.coverage, task_hours: outcome.task_hours, failure, to_record }
}

/// Does `work` for each seed on several threads, and passes the results to `take` in the order of
/// the seeds.
fn each<T: Send>(
    seeds: &[u64],
    jobs: Option<NonZeroU32>,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(T),
) {
    let (next, (done, results)) = (AtomicUsize::new(0), mpsc::channel());
    std::thread::scope(|scope| {
        for _ in 0..threads(jobs, seeds.len()) {
            let (done, next, work) = (done.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let position = next.fetch_add(1, Ordering::Relaxed);
                    let Some(seed) = seeds.get(position) else { return };
                    if done.send((position, work(*seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for (position, result) in results {
            early.insert(position, result);
            while let Some(result) = early.remove(&expected) {
                take(result);
                expected += 1;
            }
        }
    });
}

/// The number of threads: as requested, or one for each processor, but not more than there is work.
fn threads(jobs: Option<NonZeroU32>, work: usize) -> u32 {
    let processors = || {
        std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
    };
    let most = u32::try_from(work).unwrap_or(u32::MAX).max(1);
    jobs.map_or_else(processors, NonZeroU32::get).min(most)
}

/// Describes how a plan fails; also returns the plan to record, and the index of the agent.
fn described(plan: &Plan, violation: &Violation, args: &SimulateArgs) -> (String, (Plan, usize)) {
    let Violation { at_ms, agent, check, what, .. } = violation;
    let (seed, hours) = (plan.seed, args.hours);
    let mut lines =
        vec![format!("seed {seed} fails after {at_ms} ms, agent {agent}, {check}: {what}")];
    if !args.minimise || args.keep.is_some() {
        lines.push(format!(
            "  again: lockwatch-lab simulate --seed {seed} --hours {hours} --minimise"
        ));
        return (text(&lines), (plan.until(*at_ms), *agent));
    }
    let (kept, small) = minimise(plan, violation);
    let steps = kept.iter().filter_map(|position| plan.steps.get(*position));
    lines.extend(steps.map(|step| format!("  {step:?}")));
    lines.push(format!("  with these alone, after {} ms: {}", small.at_ms, small.what));
    lines.push("  what really happened before that:".to_owned());
    lines.extend(small.truth.iter().map(|line| format!("    {line}")));
    let kept_text = kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    lines.push(format!(
        "  again: SIM_SEED={seed} SIM_HOURS={hours} SIM_KEEP={kept_text} cargo test -p \
         lockwatch-sim simulation::"
    ));
    lines.push(format!(
        "  again: lockwatch-lab simulate --seed {seed} --hours {hours} --keep {kept_text}"
    ));
    (text(&lines), (plan.keeping(&kept).until(small.at_ms), small.agent))
}

fn text(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Records the inputs of an agent as the agent itself would have.
fn record(outcome: &Outcome, agent: usize, file: &Path) -> anyhow::Result<()> {
    let folder = file.with_extension("recording");
    let mut recorder =
        Recorder::start(&RecordOptions { folder: folder.clone(), max_bytes: 4 << 30 })?;
    for (position, (at, wall, input)) in outcome.inputs.get(agent).into_iter().flatten().enumerate()
    {
        if position % BURST == BURST - 1 {
            std::thread::sleep(BREATH);
        }
        recorder.keep(*at, *wall, input);
    }
    drop(recorder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    match files.as_slice() {
        [only] => {
            fs::rename(only, file).with_context(|| format!("cannot write {}", file.display()))?
        }
        files => bail!("the recording is in {} files: replay {}", files.len(), folder.display()),
    }
    fs::remove_dir(&folder)?;
    Ok(())
}
