//! What tasks cost that no lock guards: those that take turns, and queues of delayed tasks with a
//! long backlog.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use memchr::memmem;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::fetch::{Client, lines_of};
use super::load::Background;
use super::report::{Figure, Table};
use super::usage::{Usage, resident_mb};
use super::wire::{Wire, command};
use crate::numbers::{quantile, shown};
use crate::stack::{Agent, Redis, until};

const TURNS: usize = 100;
const QUEUES: usize = 10;
/// Due members of each queue.
const MEMBERS: usize = 10_000;
/// Members of each queue that are executed at any time.
const EXECUTING: usize = 20;
/// Each queue finishes a member, and begins another, once in this time; each turn is passed once
/// in ten times of it.
const STEP: Duration = Duration::from_millis(100);
const STEPS_PER_TURN: usize = 10;
const SETTLE: Duration = Duration::from_secs(3);
const READ_WITHIN: Duration = Duration::from_secs(30);
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two changes whose delay is measured.
const CHANGE_EVERY: Duration = Duration::from_millis(300);
/// What the agent sends for queues, and the load does not.
const READS_OF_QUEUES: [&str; 7] =
    ["zcard", "zcount", "zrange", "zmscore", "zscore", "get", "strlen"];
/// The turn whose changes are measured; the load leaves it alone.
const MEASURED: &str = "turn-measured";

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let stretch = Duration::from_secs(if short { 5 } else { 20 });
    let redis = Redis::start().await?;
    let id = redis.id().context("redis-server does not run")?;
    let address = redis.address();
    block_in_place(|| lay_out(address))?;
    let load = block_in_place(|| load(address))?;
    let alone = cpu(id, stretch).await?;
    let agent = Agent::start_with(&config(address), &["--log.level", "error"]).await?;
    let agent_id = agent.id().context("the agent does not run")?;
    until(READ_WITHIN, "the agent has read all tasks", async || {
        block_in_place(|| all_read(&agent)).unwrap_or(false)
    })
    .await?;
    sleep(SETTLE).await;
    let before = block_in_place(|| spent_us(address))?;
    let usage = Usage::of(&[id, agent_id])?;
    sleep(stretch).await;
    let percent = usage.percent()?;
    let spent_us = block_in_place(|| spent_us(address))? - before;
    let [with, agent_percent] = percent.as_slice() else { anyhow::bail!("no usage") };
    let memory = resident_mb(agent_id)?;
    let busy = block_in_place(|| delays(address, agent.address(), short))?;
    load.end()?;
    sleep(SETTLE).await;
    let quiet = block_in_place(|| delays(address, agent.address(), short))?;
    let per_queue_ms = spent_us / 1_000.0 / stretch.as_secs_f64() / QUEUES as f64;
    let what = format!("{TURNS} turns and {QUEUES} queues with {MEMBERS} due members each");
    let median =
        |delays: &[f64]| format!("p50 {}, of {}", shown(quantile(delays, 0.5), "ms"), delays.len());
    Ok(Table {
        figures: vec![
            Figure::at_most(format!("{what}: agent"), *agent_percent, 2.0, "% of a core"),
            Figure::told(format!("{what}: added to Redis"), shown(with - alone, "% of a core")),
            Figure::at_most(
                "Redis' own time for one queue in a second, without the network",
                per_queue_ms,
                1.0,
                "ms",
            ),
            Figure::told(format!("{what}: memory"), shown(memory, "MB")),
            Figure::at_most(
                "a turn is passed → /metrics, p99, nothing else changes",
                quantile(&quiet, 0.99),
                40.0,
                "ms",
            )
            .with(median(&quiet)),
            Figure::told(
                "the same while these queues and turns change 500 times a second, p99",
                shown(quantile(&busy, 0.99), "ms"),
            )
            .with(median(&busy)),
        ],
        more: String::new(),
    })
}

fn config(redis: SocketAddr) -> String {
    let mut text = format!("redis:\n  main: {{url: 'redis://{redis}', interval: 1s}}\ntasks:\n");
    for turn in (0..TURNS).map(turn).chain([MEASURED.to_owned()]) {
        let _written = writeln!(
            text,
            "- {{name: '{turn}', turn: {{hash: '{turn}', tasks: [a, b], max_late: 1h}}}}"
        );
    }
    for at in 0..QUEUES {
        let (queue, lock) = (queue(at), lock(at, "{id}"));
        let _written = writeln!(
            text,
            "- {{name: '{queue}', queue: {{zset: '{queue}', lock: '{lock}', max_late: 1h}}}}"
        );
    }
    text
}

fn turn(at: usize) -> String {
    format!("turn-{at}")
}

fn queue(at: usize) -> String {
    format!("queue-{at}")
}

fn lock(at: usize, id: &str) -> String {
    format!("lock_{at}_{id}")
}

fn lay_out(redis: SocketAddr) -> anyhow::Result<()> {
    let mut wire = Wire::connect(redis)?;
    let turns = (0..TURNS).map(turn).chain([MEASURED.to_owned()]);
    let mut commands: Vec<Vec<u8>> = turns.map(|turn| hand_to(&turn, "a")).collect();
    // Due for an hour at most, so that nothing is late.
    let due = now_s().saturating_sub(1_000);
    for at in 0..QUEUES {
        commands.extend((0..MEMBERS).map(|member| add(at, member, due)));
        commands.extend((0..EXECUTING).map(|member| take(at, member)));
    }
    wire.send(&commands)
}

fn now_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn hand_to(turn: &str, name: &str) -> Vec<u8> {
    let now_ms = (now_s() * 1_000).to_string();
    command(&[b"HSET", turn.as_bytes(), name.as_bytes(), now_ms.as_bytes()])
}

/// Members are in the order of their numbers: those with the same score are sorted by name.
fn add(at: usize, member: usize, due: u64) -> Vec<u8> {
    let (queue, due, id) = (queue(at), due.to_string(), id(member));
    command(&[b"ZADD", queue.as_bytes(), due.as_bytes(), id.as_bytes()])
}

fn id(member: usize) -> String {
    format!("{member:012}")
}

fn take(at: usize, member: usize) -> Vec<u8> {
    let lock = lock(at, &id(member));
    command(&[b"SET", lock.as_bytes(), b"7b4c1b1e6a3d4a5f", b"PX", b"60000"])
}

/// Passes turns on, and executes members: the first one is finished, another one is begun, and a
/// new one comes to the end.
fn load(redis: SocketAddr) -> anyhow::Result<Background> {
    let mut wire = Wire::connect(redis)?;
    let mut step = 0_usize;
    Ok(Background::start(move || {
        std::thread::sleep(STEP);
        let now = now_s();
        let mut commands = Vec::new();
        for at in 0..QUEUES {
            let (queue, finished) = (queue(at), id(step));
            let lock = lock(at, &finished);
            commands.push(command(&[b"ZREM", queue.as_bytes(), finished.as_bytes()]));
            commands.push(command(&[b"DEL", lock.as_bytes()]));
            commands.push(take(at, step + EXECUTING));
            commands.push(add(at, step + MEMBERS, now));
        }
        let (from, to) =
            if (step / STEPS_PER_TURN).is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
        for at in (0..TURNS).filter(|at| at % STEPS_PER_TURN == step % STEPS_PER_TURN) {
            commands.push(command(&[b"HDEL", turn(at).as_bytes(), from.as_bytes()]));
            commands.push(hand_to(&turn(at), to));
        }
        step += 1;
        wire.send(&commands)
    }))
}

async fn cpu(process: u32, stretch: Duration) -> anyhow::Result<f64> {
    let usage = Usage::of(&[process])?;
    sleep(stretch).await;
    usage.percent()?.first().copied().context("no usage")
}

fn all_read(agent: &Agent) -> anyhow::Result<bool> {
    let mut client = Client::connect(agent.address())?;
    let body = client.get("/metrics")?.body;
    Ok(lines_of(body, "lockwatch_turn_holder{") == TURNS + 1
        && lines_of(body, "lockwatch_queue_members{") == QUEUES)
}

/// Redis' own time for the commands that only the agent sends, in microseconds.
fn spent_us(redis: SocketAddr) -> anyhow::Result<f64> {
    let stats = Wire::connect(redis)?.ask(&["INFO", "commandstats"])?;
    let of = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
        let field = line?.split(',').find_map(|field| field.strip_prefix("usec="));
        field?.parse::<f64>().ok()
    };
    Ok(READS_OF_QUEUES.iter().filter_map(|name| of(name)).sum())
}

/// From the passing of a turn until it is on /metrics, in milliseconds.
fn delays(redis: SocketAddr, agent: SocketAddr, short: bool) -> anyhow::Result<Vec<f64>> {
    let mut wire = Wire::connect(redis)?;
    let mut client = Client::connect(agent)?;
    let mut delays = Vec::new();
    for (from, to) in [("a", "b"), ("b", "a")].into_iter().cycle().take(if short { 20 } else { 60 })
    {
        std::thread::sleep(CHANGE_EVERY);
        let series = format!(
            "lockwatch_turn_holder{{task=\"{MEASURED}\",store=\"main\",participant=\"{to}\"}} 1\n"
        );
        let written = Instant::now();
        wire.send(&[
            command(&[b"HDEL", MEASURED.as_bytes(), from.as_bytes()]),
            hand_to(MEASURED, to),
        ])?;
        let complete = loop {
            let shown = client.get("/metrics")?;
            if memmem::find(shown.body, series.as_bytes()).is_some() {
                break shown.complete;
            }
            anyhow::ensure!(written.elapsed() < SHOWN_WITHIN, "{series} is never shown");
        };
        delays.push(crate::numbers::ms(complete - written));
    }
    Ok(delays)
}
