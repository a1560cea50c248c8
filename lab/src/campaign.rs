//! The fault campaign: real servers, Sentinels and agents, hundreds of locks with candidates that
//! contend for them, and faults of all kinds. A second witness records what was true, a collector
//! records what the agents reported, and a checker that shares no code with the agents judges the
//! logs afterwards.

mod checker;
mod clock;
mod collector;
mod fault;
mod guard;
mod header;
mod host;
mod injector;
mod lag;
mod log;
mod master;
mod redisson;
mod resp;
mod script;
mod server;
mod stage;
mod users;
mod witness;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use tempfile::TempDir;
use tokio::task::LocalSet;

use clock::{SECOND, now};
use collector::Collectors;
use fault::Kind;
use header::Times;
use injector::{Injector, Lane};
use log::Log;
use stage::Stage;
use witness::Witnesses;

use crate::stack::{enter_own_network, has_own_network};

pub use host::{HostArgs, run as run_host};

/// Length of the end of a run without new faults.
const QUIET_END: u64 = 5 * SECOND;
/// Length of the beginning of a run without faults, counted from the start of the scripts.
const QUIET_BEGINNING: u64 = 20 * SECOND;

/// What the command `campaign` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct CampaignArgs {
    /// How long it runs
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "check")]
    minutes: u64,
    /// Repeats the faults and scripts of a run; its timing never repeats exactly
    #[arg(long, value_name = "S", conflicts_with = "check")]
    seed: Option<u64>,
    /// How many locks there are
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "check")]
    locks: usize,
    /// Only faults of these kinds, as they are called in the report
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind, conflicts_with = "check")]
    only: Vec<Kind>,
    /// Without the real Redisson client, which needs Java and Maven
    #[arg(long, conflicts_with = "check")]
    no_redisson: bool,
    /// Without machines of their own, whose network can be cut, for servers and Sentinels; they
    /// need network namespaces and nft
    #[arg(long, conflicts_with = "check")]
    no_network: bool,
    /// Leaves the logs there; else they are deleted unless something is wrong
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    keep: Option<PathBuf>,
    /// Judges the logs of an earlier run again, and runs nothing
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
}

fn kind(text: &str) -> Result<Kind, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "there is no such kind of fault; lab/RELIABILITY.md lists them".to_owned())
}

/// Runs a campaign and judges it, or judges the logs of an earlier one.
///
/// # Errors
/// When the campaign could not be run; that is not a verdict on the agents.
pub async fn run(args: CampaignArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.check {
        return judge(folder);
    }
    if !args.no_redisson {
        redisson::build().await?;
    }
    if !args.no_network && !has_own_network() {
        let why = enter_own_network();
        eprintln!("campaign: without partitions: {why:#}");
    }
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(0..1_000_000));
    let temporary = TempDir::with_prefix("lockwatch-campaign-")?;
    let folder = args.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    if folder.join("run.json").exists() {
        anyhow::bail!("{} has the logs of a run already: name another folder", folder.display());
    }
    let folder = folder.canonicalize()?;
    eprintln!(
        "campaign: seed {seed}, {} minutes, {} locks, logs in {}",
        args.minutes,
        args.locks,
        folder.display()
    );
    LocalSet::new().run_until(play(&args, seed, &folder)).await?;
    let code = tokio::task::spawn_blocking(move || judge(&folder)).await??;
    if code != ExitCode::SUCCESS {
        let kept = temporary.keep();
        if args.keep.is_none() {
            eprintln!("campaign: the logs are kept in {}", kept.display());
        }
    }
    Ok(code)
}

fn judge(folder: &Path) -> anyhow::Result<ExitCode> {
    let report = checker::check(folder)?;
    println!("{report}");
    Ok(ExitCode::from(report.exit_code()))
}

async fn play(args: &CampaignArgs, seed: u64, folder: &Path) -> anyhow::Result<()> {
    let stage =
        Stage::start(folder, seed, args.locks, Times::COMPRESSED, !args.no_redisson).await?;
    let stage = Arc::new(stage);
    let header = Arc::clone(&stage.header);
    let lag = lag::start(folder)?;
    let witnesses = Witnesses::start(folder, &header)?;
    let collectors = Collectors::start(folder, &header, &stage.agent_addresses)?;
    for (agent, id) in stage.agents.iter().zip(&collectors.ids) {
        id.store(agent.lock().await.id().unwrap_or_default(), Ordering::SeqCst);
    }
    let switches = Log::open(folder, "users.log")?;
    let users: Vec<_> = (0..header.redises.len())
        .filter_map(|redis| users::start(&header, redis, switches.clone()))
        .collect();
    for host in &stage.hosts {
        host.lock().await.start().await?;
    }
    let java = Log::open(folder, &format!("host-{}.log", header.hosts))?;
    let with_java = if args.no_redisson { 0 } else { header.redises.len() };
    let java: Vec<_> =
        (0..with_java).map(|redis| redisson::start(&header, redis, java.clone())).collect();
    let until = now() + args.minutes * 60 * SECOND;
    clock::sleep_until((header.began_us + QUIET_BEGINNING).min(until)).await;
    let faults = Log::open(folder, "faults.log")?;
    let injector = Injector::new(Arc::clone(&stage), faults, collectors.ids.clone());
    let mut lanes: Vec<_> = (0..header.redises.len()).map(Lane::Redis).collect();
    lanes.push(Lane::Processes);
    let lanes: Vec<_> = lanes
        .into_iter()
        .map(|lane| injector.start(lane, until - QUIET_END, args.only.clone()))
        .collect();
    for lane in lanes {
        lane.await??;
        let (meant, verified) = injector.counts();
        eprintln!("campaign: {meant} faults so far, {verified} with a verified effect");
    }
    clock::sleep_until(until).await;
    collectors.stop();
    witnesses.stop();
    users.iter().for_each(tokio::task::JoinHandle::abort);
    for client in java {
        client.abort();
        // The client runs until it is stopped.
        if let Ok(Err(error)) = client.await {
            return Err(error.context("the real Redisson"));
        }
    }
    lag.stop(folder)?;
    // For display: the checker does not read them.
    for (index, agent) in stage.agents.iter().enumerate() {
        std::fs::copy(
            agent.lock().await.log_file(),
            folder.join(format!("lockwatch-{index}.txt")),
        )?;
    }
    stage.end().await
}
