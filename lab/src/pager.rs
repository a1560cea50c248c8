//! The pager bench: plays scenarios with known truth on real servers, and compares the resulting
//! alerts with the expected ones.

mod churn;
mod ledger;
mod plan;
mod play;
mod random;
mod report;
mod routes;
mod scenario;
mod scenarios;
mod scene;
mod soak;
mod stage;
mod verdict;
mod watch;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::task::{JoinSet, LocalSet};

use play::{Outcome, StagePlan};
use scenario::{Length, Place, Scenario};
use stage::Timing;

use crate::stack::{enter_own_network, has_own_network, prepare_own_network};

/// What `pager` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct PagerArgs {
    /// Only the scenarios that end within three minutes
    #[arg(long)]
    short: bool,
    /// Only these scenarios
    #[arg(long, value_name = "SCENARIO,…", value_delimiter = ',')]
    only: Vec<String>,
    /// How often Prometheus scrapes and evaluates
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    scrape: Duration,
    /// How many agents watch, where a scenario does not say so itself
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u8).range(1..=2))]
    agents: u8,
    /// Give the targets of the agents the labels that service discoveries give, and others
    #[arg(long)]
    target_labels: bool,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How long faults come at random, and holders are replaced; without it 10 minutes, for the
    /// soak an hour
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Repeats the random faults of a run; their timing never repeats exactly
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// List the scenarios and do nothing
    #[arg(long)]
    list: bool,
    /// The rules under test
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/lockwatch.rules.yml"))]
    rules: PathBuf,
    /// Alertmanager's configuration under test; without the file, one that sends each alert by
    /// itself
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/alertmanager-example.yml"))]
    routes: PathBuf,
}

fn duration(text: &str) -> Result<Duration, String> {
    lockwatch::text::durations::parse_duration_ms(text).map(Duration::from_millis)
}

/// Runs the bench; returns whether every alert was right.
///
/// # Errors
/// When the bench cannot be run.
pub async fn run(args: PagerArgs) -> anyhow::Result<bool> {
    let chosen = choose(&args)?;
    if args.list {
        chosen.iter().for_each(|scenario| println!("{}", report::listed(scenario)));
        return Ok(true);
    }
    if chosen.iter().any(Scenario::cuts_networks) && !has_own_network() {
        let why = enter_own_network();
        eprintln!("pager: without partitions: {why:#}");
    }
    if has_own_network() {
        prepare_own_network().await?;
    }
    let began = Instant::now();
    let rules =
        args.rules.canonicalize().with_context(|| format!("no rules: {}", args.rules.display()))?;
    let timing = Timing {
        scrape: args.scrape,
        routes: routes::Routes::load(&args.routes)?,
        rules,
        target_labels: args.target_labels,
        short: args.short,
        minutes: args.minutes,
        seed: args.seed.unwrap_or_else(|| if args.short { 1 } else { fastrand::u64(..) }),
        slack: Duration::ZERO,
    };
    let stages = stages(chosen, usize::from(args.agents));
    let outcomes = LocalSet::new().run_until(play(stages, &timing)).await?;
    let report = report::Report::new(&outcomes, args.agents, &timing, began.elapsed());
    println!("{}", report.text());
    if let Some(file) = &args.report {
        std::fs::write(file, report.text())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_right())
}

/// Plays all stages concurrently.
async fn play(stages: Vec<StagePlan>, timing: &Timing) -> anyhow::Result<Vec<Outcome>> {
    let mut playing = JoinSet::new();
    for stage in stages {
        playing.spawn_local(play::play(stage, timing.clone()));
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = playing.join_next().await {
        outcomes.push(outcome.context("a stage ended unexpectedly")?);
    }
    outcomes.sort_by(|a: &Outcome, b| a.stage.cmp(&b.stage));
    Ok(outcomes)
}

fn choose(args: &PagerArgs) -> anyhow::Result<Vec<Scenario>> {
    let all = scenarios::all();
    if let Some(unknown) =
        args.only.iter().find(|name| !all.iter().any(|scenario| scenario.name == name.as_str()))
    {
        bail!("there is no scenario {unknown}: --list shows them");
    }
    let wanted = |scenario: &Scenario| match args.only.as_slice() {
        [] => !args.short || scenario.length == Length::Short,
        only => only.iter().any(|name| scenario.name == name.as_str()),
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Scenarios that affect only their own tasks share a stage; every other one gets a stage of its
/// own.
fn stages(scenarios: Vec<Scenario>, agents: usize) -> Vec<StagePlan> {
    let (shared, own): (Vec<Scenario>, Vec<Scenario>) =
        scenarios.into_iter().partition(|scenario| scenario.place == Place::Shared);
    let shared = StagePlan { name: "shared".to_owned(), agents, scenarios: shared };
    let own = own.into_iter().map(|scenario| StagePlan {
        name: scenario.name.to_owned(),
        agents: scenario.agents.unwrap_or(agents),
        scenarios: vec![scenario],
    });
    own.chain((!shared.scenarios.is_empty()).then_some(shared)).collect()
}
