//! The soak: an agent runs for hours under mild faults while memory and open files are sampled.
//! Growth is the slope of a straight line through the samples after the warm-up.

mod faults;
mod fit;
mod load;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::page::Crowd;
use crate::report::{Figure, Report};
use crate::stack::Footprint;
use faults::Faults;
use fit::{Line, line};
use load::Load;

/// Interval of the samples. It is not in step with sweeps and scrapes, each of which needs some MB
/// for a moment: samples in step with them would show a slow wave instead of a fast one.
const SAMPLE_EVERY: Duration = Duration::from_millis(870);
/// Number of samples between two progress lines.
const TELL_EVERY: usize = 345;
const FAULT_EVERY: Duration = Duration::from_secs(60);
/// Share of the time that is not judged, because caches fill.
const WARM_UP: f64 = 0.2;
/// Number of rounds that fill the event history first, as it would fill within days. The history
/// keeps 20,000 events. This many faults follow at once, so that events of all kinds, which differ
/// in size, are in it.
const ROUNDS: usize = 12;
const FAULTS_FIRST: usize = 30;
/// Duration of a round: longer than the agent's interval, so that each round is seen.
const ROUND: Duration = Duration::from_millis(1_500);
const MB: f64 = 1e6;

/// What `soak` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct SoakArgs {
    /// How long, in hours; the first fifth is the warm-up
    #[arg(long, default_value_t = 1.0, value_parser = hours)]
    hours: f64,
    /// How many tasks
    #[arg(long, default_value_t = 1_000)]
    tasks: usize,
    /// Which faults come when
    #[arg(long)]
    seed: Option<u64>,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours: f64 = text.parse().map_err(|_| String::from("not a number"))?;
    if (0.01..=1000.0).contains(&hours) {
        Ok(hours)
    } else {
        Err(String::from("from 0.01 to 1000 hours"))
    }
}

/// One sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_hours: f64,
    footprint: Footprint,
}

/// Runs the soak; returns whether nothing grew and all requests were answered.
///
/// # Errors
/// When the soak cannot be run, or the agent ended.
pub async fn run(args: SoakArgs) -> anyhow::Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{} tasks for {} hours, seed {seed}", args.tasks, args.hours);
    let crowd = Crowd::start(args.tasks).await?;
    let _renewed = crowd.renewals();
    fill_history(&crowd, &mut Faults::new(seed.wrapping_add(1))).await?;
    let load = Load::start(crowd.agent.address(), args.tasks);
    let mut faults = Faults::new(seed);
    let samples = watch(&crowd, &mut faults, Duration::from_secs_f64(args.hours * 3600.0)).await?;
    let report = Report(figures(&samples, args.hours, &faults, &load)?);
    print!("{report}");
    if let Some(file) = &args.report {
        std::fs::write(file, report.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_reached())
}

/// Hands each lock over repeatedly until the oldest events are dropped; then injects all kinds of
/// faults.
async fn fill_history(crowd: &Crowd, faults: &mut Faults) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        for at in 0..crowd.count() {
            crowd.hand_over(at, if round % 2 == 0 { "b" } else { "a" }).await?;
        }
        sleep(ROUND).await;
    }
    for _ in 0..FAULTS_FIRST {
        faults.next(crowd).await?;
        sleep(ROUND).await;
    }
    Ok(())
}

async fn watch(crowd: &Crowd, faults: &mut Faults, whole: Duration) -> anyhow::Result<Vec<Sample>> {
    let began = Instant::now();
    let mut samples = Vec::new();
    let mut turn = interval(SAMPLE_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next_fault = FAULT_EVERY;
    while began.elapsed() < whole {
        turn.tick().await;
        let sample = Sample {
            at_hours: began.elapsed().as_secs_f64() / 3600.0,
            footprint: crowd.agent.footprint()?,
        };
        if samples.len() % TELL_EVERY == 0 {
            let Footprint { rss_bytes, pss_bytes, files } = sample.footprint;
            let (rss, pss) = (rss_bytes as f64 / MB, pss_bytes as f64 / MB);
            println!(
                "{:.2} h: {rss:.2} MB resident ({pss:.2} MB in proportion), {files} files",
                sample.at_hours
            );
        }
        samples.push(sample);
        if began.elapsed() >= next_fault {
            next_fault += FAULT_EVERY;
            faults.next(crowd).await?;
        }
    }
    Ok(samples)
}

fn figures(
    samples: &[Sample],
    hours: f64,
    faults: &Faults,
    load: &Load,
) -> anyhow::Result<Vec<Figure>> {
    let judged: Vec<&Sample> =
        samples.iter().filter(|sample| sample.at_hours >= hours * WARM_UP).collect();
    let of = |value: fn(&Footprint) -> f64| -> anyhow::Result<Line> {
        let points: Vec<(f64, f64)> =
            judged.iter().map(|sample| (sample.at_hours, value(&sample.footprint))).collect();
        line(&points).context("too few samples")
    };
    let rss = of(|footprint| footprint.rss_bytes as f64 / MB)?;
    let pss = of(|footprint| footprint.pss_bytes as f64 / MB)?;
    let files = of(|footprint| footprint.files as f64)?;
    let most = judged.iter().map(|sample| sample.footprint.files).max().unwrap_or_default();
    let least = judged.iter().map(|sample| sample.footprint.files).min().unwrap_or_default();
    let about = |line: Line| {
        format!("± {:.2}, {:.1} on average, {} samples", line.slope_error, line.mean, judged.len())
    };
    let (asked, failed) = load.counts();
    Ok(vec![
        Figure::at_most("resident memory grows by", rss.slope, 1.0, "MB per hour")
            .with(&about(rss)),
        Figure::at_most("the same in proportion (Pss)", pss.slope, 1.0, "MB per hour")
            .with(&about(pss)),
        // Connections come and go, but a growth by one file per hour would be a leak.
        Figure::at_most("open files grow by", files.slope, 1.0, "per hour")
            .with(&format!("± {:.2}, {least} to {most}", files.slope_error)),
        Figure::at_most("requests that were not answered", failed as f64, 0.0, "")
            .with(&format!("of {asked}")),
        Figure::told("faults", faults.told()),
    ])
}
