//! Runs the simulator of the model: seed after seed, one failure made small, its inputs written as a recording.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use lockwatch::record::{RecordOptions, Recorder};
use lockwatch_sim::{Coverage, Outcome, Plan, Shape, Violation, minimise, run as simulate};

/// Inputs after which the recorder's queue is given time to empty.
const BURST: usize = 5_000;
/// How long: a disk takes so many inputs in less.
const BREATH: Duration = Duration::from_millis(60);

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
    /// This seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Of that seed, these steps alone: what a failure prints
    #[arg(long, value_delimiter = ',', requires = "seed")]
    keep: Option<Vec<usize>>,
    /// Write what the agent took in as a recording, for `lockwatch replay FILE`; of several seeds, the first that fails
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Make each failure as small as possible
    #[arg(long)]
    minimise: bool,
}

/// Runs them; whether all is right.
///
/// # Errors
/// The recording cannot be written.
pub fn run(args: &SimulateArgs) -> anyhow::Result<bool> {
    if let Some(file) = args.record.as_ref().filter(|file| file.exists()) {
        bail!("{} is there already: name another file", file.display());
    }
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.from..args.from.saturating_add(args.seeds),
    };
    let (began, mut coverage, mut hours, mut failures, mut to_record) =
        (Instant::now(), Coverage::default(), 0.0, 0, None);
    for seed in seeds.clone() {
        let whole = Plan::new(seed, args.hours, Shape::Any);
        let plan = args.keep.as_ref().map_or_else(|| whole.clone(), |kept| whole.keeping(kept));
        let outcome = simulate(&plan, false);
        coverage.add(&outcome.coverage);
        hours += outcome.task_hours;
        let violation = outcome.violations.first().cloned();
        if let Some(violation) = &violation {
            failures += 1;
            let small = tell(&plan, violation, args);
            to_record.get_or_insert(small);
        } else if args.seed.is_some() {
            to_record.get_or_insert((plan, 0));
        }
    }
    if let (Some(file), Some((plan, agent))) = (&args.record, to_record) {
        record(&simulate(&plan, true), agent, file)?;
        println!("recorded: lockwatch replay {}", file.display());
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{}{} seeds of {} h, {failures} failed; {hours:.0} task-hours in {seconds:.0} s ({:.0} an hour)",
        coverage.table(),
        seeds.end - seeds.start,
        args.hours,
        hours / seconds * 3_600.0
    );
    if args.seed.is_none() && args.seeds >= 10 && !coverage.missing().is_empty() {
        println!("never occurred: {}", coverage.missing().join(", "));
        return Ok(false);
    }
    Ok(failures == 0)
}

/// Tells how a plan fails; gives back what is worth a recording, and of which agent.
fn tell(plan: &Plan, violation: &Violation, args: &SimulateArgs) -> (Plan, usize) {
    let Violation { at_ms, agent, check, what, .. } = violation;
    println!("seed {} fails after {at_ms} ms, agent {agent}, {check}: {what}", plan.seed);
    if !args.minimise || args.keep.is_some() {
        println!("  again: lockwatch-lab simulate --seed {} --hours {} --minimise", plan.seed, args.hours);
        return (plan.until(*at_ms), *agent);
    }
    let (kept, small) = minimise(plan, violation);
    let positions: Vec<String> = kept.iter().map(ToString::to_string).collect();
    for step in kept.iter().filter_map(|position| plan.steps.get(*position)) {
        println!("  {step:?}");
    }
    println!("  with these alone, after {} ms: {}", small.at_ms, small.what);
    println!("  what really happened before that:");
    for line in &small.truth {
        println!("    {line}");
    }
    let (seed, hours, kept_text) = (plan.seed, args.hours, positions.join(","));
    println!(
        "  again: SIM_SEED={seed} SIM_HOURS={hours} SIM_KEEP={kept_text} cargo test -p lockwatch-model --test simulation"
    );
    println!("  again: lockwatch-lab simulate --seed {seed} --hours {hours} --keep {kept_text}");
    (plan.keeping(&kept).until(small.at_ms), small.agent)
}

/// Writes what an agent took in as the agent itself would have.
fn record(outcome: &Outcome, agent: usize, file: &Path) -> anyhow::Result<()> {
    let folder = file.with_extension("recording");
    let mut recorder = Recorder::start(&RecordOptions { folder: folder.clone(), max_bytes: 4 << 30 })?;
    for (position, (at, wall, input)) in outcome.inputs.get(agent).into_iter().flatten().enumerate() {
        if position % BURST == BURST - 1 {
            std::thread::sleep(BREATH);
        }
        recorder.keep(*at, *wall, input);
    }
    drop(recorder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    match files.as_slice() {
        [only] => fs::rename(only, file).with_context(|| format!("cannot write {}", file.display()))?,
        files => bail!("the recording is in {} files: replay {}", files.len(), folder.display()),
    }
    fs::remove_dir(&folder)?;
    Ok(())
}
