//! Commands per second while sampling 10,000 locks: the agent's own code, from the commands of each
//! task to its reading, as fast as possible. It is compared with redis-benchmark, which sends the
//! same commands and decodes nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use lockwatch::config::{Config, Servers};
use lockwatch::io::{Connection, connect};
use lockwatch_judge::reading::LockReading;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::accept::{footer, header};
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::Command;
use lockwatch_watch::redis::schedule::BATCH_TASKS;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::bed::{Bed, config};
use super::encrypted::encrypt;
use super::load::key;
use super::report::{Figure, Table};
use super::usage::Usage;
use crate::numbers::{median, shown};
use crate::stack::Program;

const LOCKS: usize = 10_000;
/// Number of batches in flight on one connection, as in the agent.
const FLIGHTS: usize = 4;
/// How long an overloaded agent runs before it is measured.
const BUSY: Duration = Duration::from_secs(3);
const NONCE: &[u8] = b"0123456789abcdef-1";

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let bed = Bed::at_rest(LOCKS).await?;
    let (rounds, sweeps, requests) = if short { (2, 20, 200_000) } else { (5, 60, 1_000_000) };
    let parse = |servers: &str| {
        let text = config(servers, "1s", LOCKS);
        Config::parse(&text, Path::new("bench.yml"))
            .map_err(|mistakes| anyhow::anyhow!("{mistakes}"))
    };
    let encrypted = encrypt(&bed.redis)?;
    let over_tls = parse(&encrypted.servers)?;
    let config = parse(&format!("url: \"redis://{}\"", bed.address()))?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        rates.push([
            sample(&config, sweeps).await?,
            sample(&over_tls, sweeps).await?,
            benchmark(bed.address(), 100, requests, &config).await?,
            benchmark(bed.address(), 500, requests, &config).await?,
        ]);
    }
    let [own, over_tls, at_100, at_500] = [0, 1, 2, 3]
        .map(|which| median(rates.iter().filter_map(|round| round.get(which).copied())));
    let whole = agent(short).await?;
    let kilo = |rate: f64| format!("{:.0} k/s", rate / 1000.0);
    let peer = format!("redis-benchmark -c 1: -P 100 {}, -P 500 {}", kilo(at_100), kilo(at_500));
    Ok(Table {
        figures: vec![
            Figure::at_least("commands per second, of -P 100", own / at_100, 0.9, "")
                .with(kilo(own))
                .beside(peer),
            Figure::told("commands per second, of -P 500", shown(own / at_500, "")),
            Figure::at_least("over TLS, of lockwatch without", over_tls / own, 0.5, "")
                .with(kilo(over_tls)),
            Figure::told("the whole agent, when it has more to do than it can", kilo(whole.0))
                .with(format!(
                    "agent {}, Redis {}",
                    shown(whole.1, "%"),
                    shown(whole.2, "% of a core")
                )),
        ],
        more: String::new(),
    })
}

/// A batch as the agent makes it.
struct Batch {
    reads: Vec<(TaskRead, usize)>,
    commands: Vec<Command>,
    header: usize,
}

fn batch(tasks: &[Arc<TaskSpec>], connection: &Connection) -> Batch {
    let mut commands = header();
    let header = commands.len();
    let mut reads = Vec::with_capacity(tasks.len());
    for task in tasks {
        let before = commands.len();
        let read = TaskRead::new(Arc::clone(task), connection.caps(), false, Scope::ALL);
        read.commands(&mut commands);
        reads.push((read, commands.len() - before));
    }
    commands.extend(footer(connection.caps(), NONCE));
    Batch { reads, commands, header }
}

/// Reads all tasks `sweeps` times; returns the commands per second of the median sweep.
async fn sample(config: &Config, sweeps: usize) -> anyhow::Result<f64> {
    let redis = config.redises.first().context("no redis")?;
    let Servers::One(server) = &redis.servers else { bail!("not one server") };
    let connection = connect(&redis.endpoint(server.clone())).await?;
    let connection = Arc::new(connection);
    let mut rates = Vec::new();
    for _ in 0..sweeps {
        let (began, mut commands) = (Instant::now(), 0);
        let mut flights = VecDeque::new();
        for tasks in config.tasks.chunks(BATCH_TASKS) {
            if flights.len() == FLIGHTS {
                land(flights.pop_front()).await?;
            }
            let Batch { reads, commands: asked, header } = batch(tasks, &connection);
            commands += asked.len();
            let connection = Arc::clone(&connection);
            let reply = tokio::spawn(async move { connection.exec(&asked).await });
            flights.push_back((reads, header, reply));
        }
        while !flights.is_empty() {
            land(flights.pop_front()).await?;
        }
        rates.push(commands as f64 / began.elapsed().as_secs_f64());
    }
    Ok(median(rates))
}

type Replies = Result<Vec<lockwatch_watch::redis::reply::Reply>, lockwatch::io::Failure>;
type Flight = (Vec<(TaskRead, usize)>, usize, JoinHandle<Replies>);

/// Decodes the replies to a batch.
async fn land(flight: Option<Flight>) -> anyhow::Result<()> {
    let Some((reads, header, reply)) = flight else { return Ok(()) };
    let replies = reply.await??;
    let mut rest = replies.get(header..).unwrap_or_default();
    for (read, commands) in reads {
        let (own, others) = rest.split_at_checked(commands).context("too few replies")?;
        rest = others;
        match read.decode(own) {
            Round::Done(reading) if matches!(reading.lock(), Some(LockReading::Held(_))) => {}
            other => bail!("a lock was not read as held: {other:?}"),
        }
    }
    Ok(())
}

/// Runs redis-benchmark with each command of one task, on as many keys; returns the rate for the
/// mix.
async fn benchmark(
    redis: SocketAddr,
    pipeline: usize,
    requests: usize,
    config: &Config,
) -> anyhow::Result<f64> {
    let task = config.tasks.first().context("no task")?;
    let redis_config = config.redises.first().context("no redis")?;
    let Servers::One(server) = &redis_config.servers else { bail!("not one server") };
    let connection = connect(&redis_config.endpoint(server.clone())).await?;
    let mut commands = Vec::new();
    TaskRead::new(Arc::clone(task), connection.caps(), false, Scope::ALL).commands(&mut commands);
    let (mut seconds, mut known) = (0.0, Vec::<(Vec<String>, f64)>::new());
    for command in &commands {
        let words: Vec<String> = command
            .args
            .iter()
            .map(|word| String::from_utf8_lossy(word).replace(&key(0), "bench:__rand_int__:lock"))
            .collect();
        let rate = match known.iter().find(|(same, _)| *same == words) {
            Some((_, rate)) => *rate,
            None => {
                let rate = rate(redis, pipeline, requests, &words).await?;
                known.push((words, rate));
                rate
            }
        };
        seconds += 1.0 / rate;
    }
    Ok(commands.len() as f64 / seconds)
}

async fn rate(
    redis: SocketAddr,
    pipeline: usize,
    requests: usize,
    words: &[String],
) -> anyhow::Result<f64> {
    let mut command = tokio::process::Command::new(Program::RedisBenchmark.find()?);
    command.args([
        "-h",
        &redis.ip().to_string(),
        "-p",
        &redis.port().to_string(),
        "-c",
        "1",
        "--csv",
    ]);
    command
        .args(["-P", &pipeline.to_string(), "-n", &requests.to_string(), "-r", &LOCKS.to_string()])
        .args(words);
    let said = command.kill_on_drop(true).output().await?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let line = text.lines().last().unwrap_or_default();
    // The line begins with the quoted command, followed by the rate.
    let rate = line.split("\",\"").nth(1).and_then(|rate| rate.trim_matches('"').parse().ok());
    rate.with_context(|| format!("redis-benchmark says nothing that is understood: {text}"))
}

/// The agent with ten times the locks and the shortest interval: commands per second, its CPU and
/// that of Redis.
async fn agent(short: bool) -> anyhow::Result<(f64, f64, f64)> {
    let bed = Bed::at_rest(LOCKS * if short { 5 } else { 10 }).await?;
    let agent = bed.busy_agent("100ms").await?;
    sleep(BUSY).await;
    let (before, began) = (bed.counters()?, Instant::now());
    let usage = Usage::of(&[agent.id().context("the agent has ended")?, bed.id()?])?;
    sleep(Duration::from_secs(if short { 3 } else { 8 })).await;
    let percent = usage.percent()?;
    let rate = (bed.counters()?.commands - before.commands) / began.elapsed().as_secs_f64();
    Ok((
        rate,
        percent.first().copied().unwrap_or(f64::NAN),
        percent.last().copied().unwrap_or(f64::NAN),
    ))
}
