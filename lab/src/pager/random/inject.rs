//! Injects faults. Each returns from when its effect was seen until before it was undone, and is an
//! error if no effect was seen; what it may have left is undone afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::sync::MutexGuard;
use tokio::time::{sleep, timeout};

use super::fault::Act;
use super::span::Span;
use crate::pager::scene::Scene;
use crate::stack::{Agent, Cable, Data, Partition, Redis, Set, Signal, Weather, command_at, until};

/// Maximum time until an effect is visible.
const SHOWS_WITHIN: Duration = Duration::from_secs(5);
/// Maximum duration of a failover.
const SWITCHES_WITHIN: Duration = Duration::from_secs(40);
/// A command whose answer takes longer counts as held back.
const HELD_BACK: Duration = Duration::from_millis(300);
/// Maximum time until everything is healthy after a fault; a Sentinel that detects a pause of the
/// machine waits for 30 s on its own.
const HEALS_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const USER: &str = "lockwatch";
const PROBE: [&str; 3] = ["SET", "random:probe", "1"];

/// Injects a fault into a Redis, for one agent if it is one of cables.
pub(super) async fn into_redis(
    scene: &Scene,
    redis: &str,
    agent: usize,
    act: Act,
    lasts: Duration,
) -> anyhow::Result<Span> {
    if let Act::Cable(weather) = act {
        return on_cables(scene.cables(agent, redis)?, weather, lasts).await;
    }
    let Ok(set) = scene.set(redis) else {
        return into_server(&mut *scene.redis(redis).await?, act, lasts).await;
    };
    let master = set.master().await.context("the Sentinels name no master")?;
    let other = (master + 1 + fastrand::usize(..2)) % set.servers.len();
    match act {
        Act::Failover | Act::KillMaster | Act::FreezeMaster => {
            fail_over(set, master, act, lasts).await
        }
        Act::Cut(partition, of_master) => {
            cut(set, if of_master { master } else { other }, partition, lasts).await
        }
        Act::FreezeReplica => frozen(&*server(set, other).await?, lasts).await,
        Act::KillReplica => into_server(&mut *server(set, other).await?, REBORN, lasts).await,
        Act::FreezeSentinel => {
            frozen(&*set.sentinels.first().context("no Sentinel")?.lock().await, lasts).await
        }
        Act::KillSentinels(count) => {
            for sentinel in set.sentinels.iter().take(count) {
                sentinel.lock().await.kill().await?;
            }
            Ok(lasting(lasts).await)
        }
        _ => into_server(&mut *server(set, master).await?, act, lasts).await,
    }
}

const REBORN: Act = Act::Kill(Data::Kept);

/// Injects a fault into an agent.
pub(super) async fn into_agent(
    agent: &mut Agent,
    act: Act,
    lasts: Duration,
) -> anyhow::Result<Span> {
    match act {
        Act::KillAgent => {
            agent.kill().await?;
            let span = lasting(lasts.min(Duration::from_secs(3))).await;
            agent.start_again().await?;
            Ok(span)
        }
        Act::FreezeAgent => {
            agent.signal(Signal::Stop).await?;
            let span = lasting(lasts).await;
            agent.signal(Signal::Continue).await?;
            Ok(span)
        }
        _ => {
            agent.signal(Signal::Hangup).await?;
            Ok(lasting(LOOK_EVERY).await)
        }
    }
}

/// Undoes whatever a fault may have left on a Redis, and waits until it is well.
pub(super) async fn heal(scene: &Scene, redis: &str) -> anyhow::Result<()> {
    for agent in 0..scene.stage.agents.len() {
        scene.cables(agent, redis)?.iter().for_each(|cable| cable.set(Weather::Fair));
    }
    let Ok(set) = scene.set(redis) else {
        return heal_server(&mut *scene.redis(redis).await?, false).await;
    };
    for machine in set.machines.iter().flat_map(|machines| machines.iter()) {
        machine.mend().await?;
    }
    for server in &set.servers {
        heal_server(&mut *server.lock().await, false).await?;
    }
    for sentinel in &set.sentinels {
        heal_server(&mut *sentinel.lock().await, true).await?;
    }
    until(HEALS_WITHIN, "servers and Sentinels are well", async || set.is_settled().await).await
}

async fn heal_server(server: &mut Redis, is_sentinel: bool) -> anyhow::Result<()> {
    match server.id() {
        None => server.start_again(Data::Kept).await?,
        Some(_) => server.thaw().await?,
    }
    if is_sentinel {
        return Ok(());
    }
    let commands: [&[&str]; 4] = [
        &["CONFIG", "SET", "maxmemory", "0"],
        &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
        &["CONFIG", "SET", "save", ""],
        &["ACL", "SETUSER", USER, "resetpass", ">lab", "+@all", "-@write", "-@admin", "+role"],
    ];
    for command in commands {
        // What cannot be answered now is waited for below.
        let _answer = server.command(command).await;
    }
    Ok(())
}

async fn server(set: &Set, at: usize) -> anyhow::Result<MutexGuard<'_, Redis>> {
    Ok(set.servers.get(at).context("no such server")?.lock().await)
}

/// Lets this time pass.
async fn lasting(time: Duration) -> Span {
    let from = Instant::now();
    sleep(time).await;
    (from, Instant::now())
}

async fn on_cables(cables: &[Cable], weather: Weather, lasts: Duration) -> anyhow::Result<Span> {
    let touched = || cables.iter().map(Cable::touched).sum::<u64>();
    let before = touched();
    cables.iter().for_each(|cable| cable.set(weather));
    let shown = lasting(lasts).await;
    cables.iter().for_each(|cable| cable.set(Weather::Fair));
    ensure!(touched() > before, "nothing passed that could be touched");
    Ok(shown)
}

async fn frozen(server: &Redis, lasts: Duration) -> anyhow::Result<Span> {
    server.freeze().await?;
    let id = server.id().context("it does not run")?;
    let state = async || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let stopped =
        async || state().await.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
    let stopped = until(SHOWS_WITHIN, "its state is T", stopped).await;
    let span = lasting(lasts).await;
    server.thaw().await?;
    stopped.map(|()| span)
}

/// Cuts off the machine of a server; packets are dropped silently.
async fn cut(set: &Set, at: usize, partition: Partition, lasts: Duration) -> anyhow::Result<Span> {
    let machines = set.machines.as_ref().context("there are no machines")?;
    machines.cut(at, partition).await?;
    let span = lasting(lasts).await;
    let machine = machines.get(at).context("no such machine")?;
    let dropped = machine.dropped().await?;
    machine.mend().await?;
    ensure!(dropped > 0, "there was no packet to be dropped");
    Ok(span)
}

/// Makes another server the master: by a command, or because the old one does not answer.
async fn fail_over(set: &Set, old: usize, act: Act, lasts: Duration) -> anyhow::Result<Span> {
    match act {
        Act::KillMaster => server(set, old).await?.kill().await?,
        Act::FreezeMaster => server(set, old).await?.freeze().await?,
        _ => set.fail_over().await?,
    }
    let from = Instant::now();
    let moved = async || set.master().await.is_some_and(|master| master != old);
    until(SWITCHES_WITHIN, "another server is the master", moved).await?;
    if act != Act::Failover {
        sleep(lasts / 4).await;
    }
    let span = (from, Instant::now());
    match act {
        Act::KillMaster => server(set, old).await?.start_again(Data::Lost).await?,
        Act::FreezeMaster => server(set, old).await?.thaw().await?,
        _ => {}
    }
    Ok(span)
}

async fn into_server(server: &mut Redis, act: Act, lasts: Duration) -> anyhow::Result<Span> {
    match act {
        Act::Freeze => frozen(server, lasts).await,
        Act::Kill(_) | Act::Term => restart(server, act, lasts).await,
        Act::Load => load(server, lasts).await,
        Act::Busy => {
            let busy = spawn(server, &["EVAL", "while true do end", "0"]);
            until(SHOWS_WITHIN, "it is busy", async || refuses(server, &["PING"], "BUSY").await)
                .await?;
            let span = lasting(lasts).await;
            server.command(&["SCRIPT", "KILL"]).await?;
            busy.abort();
            Ok(span)
        }
        Act::Sleep => {
            let seconds = lasts.as_secs_f64().to_string();
            let sleeping = spawn(server, &["DEBUG", "SLEEP", &seconds]);
            sleep(LOOK_EVERY).await;
            let span = held_back(server, &["PING"], lasts).await;
            sleeping.abort();
            span
        }
        Act::PauseAll => {
            server.command(&["CLIENT", "PAUSE", &millis(lasts), "ALL"]).await?;
            held_back(server, &["PING"], lasts).await
        }
        Act::PauseWrite => {
            server.command(&["CLIENT", "PAUSE", &millis(lasts), "WRITE"]).await?;
            held_back(server, &PROBE, lasts).await
        }
        Act::MaxClients => max_clients(server, lasts).await,
        Act::Oom => {
            server.command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
            ensure!(refuses(server, &PROBE, "OOM").await, "it accepts writes");
            Ok(lasting(lasts).await)
        }
        Act::Evict => evict(server).await,
        Act::Flush => {
            let from = Instant::now();
            server.command(&["FLUSHALL"]).await?;
            Ok((from, Instant::now()))
        }
        Act::NoAuth => {
            server.command(&["ACL", "SETUSER", USER, "resetpass", ">rotated"]).await?;
            server.command(&["CLIENT", "KILL", "USER", USER]).await?;
            ensure!(refuses(server, &["AUTH", USER, "lab"], "WRONGPASS").await, "they may log in");
            Ok(lasting(lasts).await)
        }
        Act::NoPerm => {
            server.command(&["ACL", "SETUSER", USER, "-@read"]).await?;
            let answer =
                server.command(&["ACL", "DRYRUN", USER, "HGETALL", "random:probe"]).await?;
            ensure!(!matches!(answer, redis::Value::Okay), "the agents' user may still read");
            Ok(lasting(lasts).await)
        }
        other => bail!("{other:?} is no fault of a server"),
    }
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

async fn refuses(server: &Redis, words: &[&str], error: &str) -> bool {
    server.command(words).await.is_err_and(|found| format!("{found:#}").contains(error))
}

/// Sends a command whose answer nobody waits for.
fn spawn(server: &Redis, words: &[&str]) -> tokio::task::JoinHandle<()> {
    let address = server.address();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    tokio::spawn(async move {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _answer = command_at(address, &words).await;
    })
}

/// The server answers no such command for the duration of the fault.
async fn held_back(server: &Redis, probe: &[&str], lasts: Duration) -> anyhow::Result<Span> {
    let from = Instant::now();
    let held_back = timeout(HELD_BACK, server.command(probe)).await.is_err();
    sleep(lasts.saturating_sub(from.elapsed())).await;
    ensure!(held_back, "{} is answered", probe.join(" "));
    Ok((from, Instant::now()))
}

async fn restart(server: &mut Redis, act: Act, lasts: Duration) -> anyhow::Result<Span> {
    let before = server.info("run_id").await?;
    let data = if let Act::Kill(data) = act { data } else { Data::Kept };
    if act == Act::Term {
        server.command(&["CONFIG", "SET", "save", "3600 1"]).await?;
        server.end().await?;
    } else {
        if data == Data::Kept {
            server.save().await?;
        }
        server.kill().await?;
    }
    let span = lasting(lasts).await;
    server.start_again(data).await?;
    ensure!(server.info("run_id").await? != before, "its run id is the same");
    Ok(span)
}

async fn load(server: &mut Redis, lasts: Duration) -> anyhow::Result<Span> {
    let keys = server.command(&["DBSIZE"]).await?;
    let keys = if let redis::Value::Int(keys) = keys { u32::try_from(keys)?.max(1) } else { 1 };
    server.save().await?;
    server.kill().await?;
    let from = Instant::now();
    server.start_again(Data::Slow(u64::try_from((lasts / keys).as_micros())?)).await?;
    let loads = async || refuses(server, &["PING"], "oading").await;
    until(SHOWS_WITHIN, "it loads", loads).await?;
    let answers = async || server.command(&["PING"]).await.is_ok();
    until(4 * lasts + SWITCHES_WITHIN, "it has loaded", answers).await?;
    Ok((from, Instant::now()))
}

/// Uses one connection throughout, because the server accepts no new one meanwhile.
async fn max_clients(server: &Redis, lasts: Duration) -> anyhow::Result<Span> {
    let mut connection = server.connect().await?;
    let mut set = async |count: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxclients").arg(count).exec_async(&mut connection).await
    };
    set("1").await?;
    let refused = async || server.command(&["PING"]).await.is_err();
    let refused = until(SHOWS_WITHIN, "new connections are refused", refused).await;
    let span = lasting(lasts).await;
    set("10000").await?;
    refused.map(|()| span)
}

async fn evict(server: &Redis) -> anyhow::Result<Span> {
    let from = Instant::now();
    let used: u64 = server.info("used_memory").await?.parse()?;
    let before = server.info("evicted_keys").await?;
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).await?;
    let limit = used.saturating_sub(8_192).to_string();
    server.command(&["CONFIG", "SET", "maxmemory", &limit]).await?;
    let evicts = async || {
        let _refused = server.command(&PROBE).await;
        server.info("evicted_keys").await.is_ok_and(|now| now != before)
    };
    until(SHOWS_WITHIN, "keys are evicted", evicts).await?;
    Ok((from, Instant::now()))
}
