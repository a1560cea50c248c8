//! Faults of servers and Sentinels.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::agents::until_stopped;
use super::{Fault, Injector};
use crate::campaign::clock::{self, Micros, SECOND, now};
use crate::campaign::fault::Kind;
use crate::campaign::header::{RedisEntry, ServerEntry};
use crate::campaign::master;
use crate::campaign::resp::{Socket, Value};
use crate::campaign::server::{PASSWORD, Server, Start, USER, ask_at, breathe};
use crate::stack::Signal;

/// The faults of a Redis with a single server.
pub(super) const ALONE: [Kind; 16] = [
    Kind::Freeze,
    Kind::KillEmpty,
    Kind::KillKept,
    Kind::TermEmpty,
    Kind::TermKept,
    Kind::Loading,
    Kind::Busy,
    Kind::Sleep,
    Kind::PauseAll,
    Kind::PauseWrite,
    Kind::MaxClients,
    Kind::Oom,
    Kind::Eviction,
    Kind::Flush,
    Kind::NoAuth,
    Kind::NoPerm,
];
/// The faults of a Redis with replicas and Sentinels.
pub(super) const OF_SENTINELS: [Kind; 12] = [
    Kind::Failover,
    Kind::KillMaster,
    Kind::FreezeMaster,
    Kind::FreezeReplica,
    Kind::KillReplica,
    Kind::KillSentinel,
    Kind::KillSentinels,
    Kind::FreezeSentinel,
    Kind::PauseWrite,
    Kind::Oom,
    Kind::NoAuth,
    Kind::NoPerm,
];

/// Maximum time until an effect is visible.
const SHOWS_WITHIN: Micros = 5 * SECOND;
/// Maximum duration of a failover.
const SWITCHES_WITHIN: Micros = 40 * SECOND;
/// A command whose answer takes longer counts as held back.
const HELD_BACK: Duration = Duration::from_millis(300);
const ENDLESS: &str = "while true do end";

pub(super) async fn inject(
    injector: &Injector,
    fault: &Fault,
    random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    let entry = injector.stage.redis(fault.redis.context("a server of no redis")?)?;
    match fault.kind {
        Kind::Failover | Kind::KillMaster | Kind::FreezeMaster => {
            fail_over(injector, fault, entry).await
        }
        Kind::FreezeReplica | Kind::KillReplica => {
            let master = master_of(injector, entry).await?;
            let others: Vec<&ServerEntry> =
                entry.servers.iter().filter(|server| server.name != master.name).collect();
            let one = *random.choice(&others).context("a redis without replicas")?;
            stop_for(injector, fault, &[one]).await
        }
        Kind::KillSentinel | Kind::KillSentinels | Kind::FreezeSentinel => {
            let mut sentinels: Vec<&ServerEntry> = entry.sentinels.iter().collect();
            random.shuffle(&mut sentinels);
            sentinels.truncate(if fault.kind == Kind::KillSentinels { 2 } else { 1 });
            stop_for(injector, fault, &sentinels).await
        }
        _ => {
            let master = master_of(injector, entry).await?;
            injector.mean(fault, Some(&master.name));
            let mut server = injector.stage.server(&master.name)?.lock().await;
            of_server(injector, fault, &mut server).await
        }
    }
}

/// Undoes whatever a fault may have left on the servers of a Redis.
pub(super) async fn heal(injector: &Injector, redis: usize) -> anyhow::Result<()> {
    let entry = injector.stage.redis(redis)?;
    for one in entry.servers.iter().chain(&entry.sentinels) {
        let mut server = injector.stage.server(&one.name)?.lock().await;
        if !server.runs() {
            server.start(Start::WithDump).await?;
        }
    }
    for one in &entry.servers {
        let server = injector.stage.server(&one.name)?.lock().await;
        let commands: [&[&str]; 4] = [
            &["CONFIG", "SET", "maxmemory", "0"],
            &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
            &["CONFIG", "SET", "save", ""],
            &[
                "ACL",
                "SETUSER",
                USER,
                "resetpass",
                &format!(">{PASSWORD}"),
                "+@all",
                "-@write",
                "-@admin",
                "+role",
            ],
        ];
        for command in commands {
            // A server that cannot be reached yet has none of it.
            let _answer = server.ask(command).await;
        }
    }
    Ok(())
}

/// The server named by the majority of the Sentinels, or the only one.
pub(super) async fn master_of<'a>(
    injector: &Injector,
    entry: &'a RedisEntry,
) -> anyhow::Result<&'a ServerEntry> {
    if entry.sentinels.is_empty() {
        return entry.servers.first().context("a redis without servers");
    }
    let sentinels: Vec<_> = entry.sentinels.iter().map(|sentinel| sentinel.address).collect();
    let named = master::majority(&sentinels).await.context("the Sentinels name no master")?;
    let found =
        entry.servers.iter().find(|server| server.address == named).context("an unknown master")?;
    let role = injector.stage.server(&found.name)?.lock().await.ask(&["ROLE"]).await?;
    if role.list().first().and_then(Value::text) != Some(b"master") {
        bail!("{} is no master though it is named", found.name);
    }
    Ok(found)
}

async fn of_server(
    injector: &Injector,
    fault: &Fault,
    server: &mut MutexGuard<'_, Server>,
) -> anyhow::Result<()> {
    let pause = clock::sleep_until(now() + fault.lasts);
    match fault.kind {
        Kind::Freeze => freeze(injector, fault, server).await,
        Kind::KillEmpty | Kind::KillKept | Kind::TermEmpty | Kind::TermKept | Kind::Loading => {
            restart(injector, fault, server).await
        }
        Kind::Busy => busy(injector, fault, server).await,
        Kind::Sleep | Kind::PauseAll | Kind::PauseWrite => hold_back(injector, fault, server).await,
        Kind::MaxClients => max_clients(injector, fault, server).await,
        Kind::Oom => {
            server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await?;
            expect(server, &["SET", "campaign:probe", "1"], "OOM").await?;
            injector.verify(fault, "SET is refused: OOM");
            pause.await;
            Ok(())
        }
        Kind::Eviction => evict(injector, fault, server).await,
        Kind::Flush => {
            server.tell(&["FLUSHALL"]).await?;
            injector.verify(fault, "FLUSHALL was answered");
            Ok(())
        }
        Kind::NoAuth => {
            server.tell(&["ACL", "SETUSER", USER, "resetpass", ">rotated"]).await?;
            server.tell(&["CLIENT", "KILL", "USER", USER]).await?;
            expect(server, &["AUTH", USER, PASSWORD], "WRONGPASS").await?;
            injector.verify(fault, "AUTH is refused: WRONGPASS");
            pause.await;
            Ok(())
        }
        Kind::NoPerm => {
            server.tell(&["ACL", "SETUSER", USER, "-@read"]).await?;
            let answer = server.tell(&["ACL", "DRYRUN", USER, "HGETALL", "campaign:probe"]).await?;
            if answer.text() == Some(b"OK") {
                bail!("the agents' user may still read");
            }
            injector.verify(fault, "ACL DRYRUN of HGETALL is refused");
            pause.await;
            Ok(())
        }
        other => bail!("{other:?} is no fault of a server"),
    }
}

async fn expect(server: &Server, words: &[&str], refusal: &str) -> anyhow::Result<()> {
    match server.ask(words).await? {
        Value::Error(error) if error.starts_with(refusal) => Ok(()),
        other => bail!("{} answers {other:?}", words.join(" ")),
    }
}

async fn freeze(injector: &Injector, fault: &Fault, server: &Server) -> anyhow::Result<()> {
    server.signal(Signal::Stop).await?;
    let stopped = until_stopped(server.id()).await;
    if stopped {
        injector.verify(fault, "its state is T");
    }
    clock::sleep_until(now() + fault.lasts).await;
    server.signal(Signal::Continue).await?;
    if stopped { Ok(()) } else { bail!("its state was never T") }
}

async fn restart(injector: &Injector, fault: &Fault, server: &mut Server) -> anyhow::Result<()> {
    let before = server.info("run_id").await?;
    let keys = server.tell(&["DBSIZE"]).await?;
    match fault.kind {
        Kind::KillKept | Kind::Loading => {
            server.tell(&["SAVE"]).await?;
            server.kill().await?;
        }
        // It saves its data when it is terminated.
        Kind::TermKept => {
            server.tell(&["CONFIG", "SET", "save", "3600 1"]).await?;
            server.end().await?;
        }
        Kind::TermEmpty => server.end().await?,
        _ => server.kill().await?,
    }
    if fault.kind == Kind::Loading {
        let keys = if let Value::Int(keys) = keys { u64::try_from(keys)?.max(1) } else { 1 };
        server.start(Start::Slowly(fault.lasts / keys)).await?;
        let loads = expect(server, &["PING"], "LOADING").await.is_ok();
        if loads {
            injector.verify(fault, "PING is refused: LOADING");
        }
        // It may not answer for long while it loads its file.
        let give_up = now() + 4 * fault.lasts + SWITCHES_WITHIN;
        while !matches!(server.ask(&["PING"]).await, Ok(Value::Text(_))) && now() < give_up {
            breathe().await;
        }
        return if loads { Ok(()) } else { bail!("it never said LOADING") };
    }
    // Not all restarts are fast.
    clock::sleep_until(now() + fault.lasts / 4).await;
    let empty = matches!(fault.kind, Kind::KillEmpty | Kind::TermEmpty);
    server.start(if empty { Start::Empty } else { Start::WithDump }).await?;
    let after = server.info("run_id").await?;
    if after == before {
        bail!("its run id is the same");
    }
    injector.verify(
        fault,
        format!("another run id; loaded {}", if empty { "nothing" } else { "its data" }),
    );
    Ok(())
}

async fn busy(injector: &Injector, fault: &Fault, server: &Server) -> anyhow::Result<()> {
    let mut socket = Socket::connect(&server.entry.socket)?;
    let script = tokio::task::spawn_blocking(move || socket.ask(&["EVAL", ENDLESS, "0"]));
    let give_up = now() + SHOWS_WITHIN;
    while expect(server, &["PING"], "BUSY").await.is_err() {
        if now() > give_up {
            bail!("it is never busy");
        }
        breathe().await;
    }
    injector.verify(fault, "PING is refused: BUSY");
    clock::sleep_until(now() + fault.lasts).await;
    server.tell(&["SCRIPT", "KILL"]).await?;
    let _killed = script.await?;
    Ok(())
}

/// The server answers no command, or no write, for the duration of the fault.
async fn hold_back(injector: &Injector, fault: &Fault, server: &Server) -> anyhow::Result<()> {
    let lasts = fault.lasts / 1_000;
    let mut socket = Socket::connect(&server.entry.socket)?;
    let end = now() + fault.lasts;
    let probe: &[&str] = match fault.kind {
        Kind::PauseWrite => &["SET", "campaign:probe", "1"],
        _ => &["PING"],
    };
    let sleeping = match fault.kind {
        Kind::Sleep => {
            let seconds = Duration::from_micros(fault.lasts).as_secs_f64().to_string();
            Some(tokio::task::spawn_blocking(move || socket.ask(&["DEBUG", "SLEEP", &seconds])))
        }
        Kind::PauseAll => {
            server.tell(&["CLIENT", "PAUSE", &lasts.to_string(), "ALL"]).await?;
            None
        }
        _ => {
            server.tell(&["CLIENT", "PAUSE", &lasts.to_string(), "WRITE"]).await?;
            None
        }
    };
    if fault.kind == Kind::Sleep {
        breathe().await;
    }
    let held_back = timeout(HELD_BACK, ask_at(&server.entry.socket, probe)).await.is_err();
    if held_back {
        injector.verify(fault, format!("{} is not answered within {HELD_BACK:?}", probe.join(" ")));
    }
    clock::sleep_until(end).await;
    if let Some(sleeping) = sleeping {
        let _slept = sleeping.await?;
    }
    if held_back { Ok(()) } else { bail!("{} is answered", probe.join(" ")) }
}

/// Uses one connection throughout, because the server accepts no new one meanwhile.
async fn max_clients(injector: &Injector, fault: &Fault, server: &Server) -> anyhow::Result<()> {
    let mut socket = Socket::connect(&server.entry.socket)?;
    let mut tell = |words: &[&str]| match socket.ask(words) {
        Ok(Value::Error(error)) => bail!("{}: {error}", words.join(" ")),
        other => Ok(other?),
    };
    let before = tell(&["CONFIG", "GET", "maxclients"])?;
    let before = before
        .list()
        .get(1)
        .and_then(Value::text)
        .map(|text| String::from_utf8_lossy(text).into_owned());
    let before = before.context("no maxclients")?;
    tell(&["CONFIG", "SET", "maxclients", "1"])?;
    tell(&["CLIENT", "KILL", "USER", USER])?;
    let refused = match ask_at(&server.entry.socket, &["PING"]).await {
        Ok(Value::Error(error)) => error.contains("max number of clients"),
        Ok(_) => false,
        // It closes the connection before a command is sent.
        Err(_) => true,
    };
    if refused {
        injector.verify(fault, "a new connection is refused");
    }
    clock::sleep_until(now() + fault.lasts).await;
    tell(&["CONFIG", "SET", "maxclients", &before])?;
    if refused { Ok(()) } else { bail!("a new connection is accepted") }
}

async fn evict(injector: &Injector, fault: &Fault, server: &Server) -> anyhow::Result<()> {
    let used: u64 = server.info("used_memory").await?.parse()?;
    let before: u64 = server.info("evicted_keys").await?.parse()?;
    server.tell(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).await?;
    server.tell(&["CONFIG", "SET", "maxmemory", &used.saturating_sub(8_192).to_string()]).await?;
    let give_up = now() + SHOWS_WITHIN;
    let evicted = loop {
        let _refused = server.ask(&["SET", "campaign:probe", "1"]).await?;
        let evicted = server.info("evicted_keys").await?.parse::<u64>()?.saturating_sub(before);
        if evicted > 0 || now() > give_up {
            break evicted;
        }
    };
    server.tell(&["CONFIG", "SET", "maxmemory", "0"]).await?;
    if evicted == 0 {
        bail!("nothing was evicted");
    }
    injector.verify(fault, format!("{evicted} keys were evicted"));
    Ok(())
}

/// Stops servers that do not decide, for the duration of the fault.
async fn stop_for(
    injector: &Injector,
    fault: &Fault,
    victims: &[&ServerEntry],
) -> anyhow::Result<()> {
    let names: Vec<&str> = victims.iter().map(|one| one.name.as_str()).collect();
    injector.mean(fault, Some(&names.join(",")));
    let freezes = matches!(fault.kind, Kind::FreezeReplica | Kind::FreezeSentinel);
    let mut stopped = true;
    for name in &names {
        let mut server = injector.stage.server(name)?.lock().await;
        if freezes {
            server.signal(Signal::Stop).await?;
            stopped &= until_stopped(server.id()).await;
        } else {
            server.kill().await?;
        }
    }
    if stopped {
        injector.verify(fault, if freezes { "its state is T" } else { "the process is gone" });
    }
    clock::sleep_until(now() + fault.lasts).await;
    for name in &names {
        let mut server = injector.stage.server(name)?.lock().await;
        if freezes {
            server.signal(Signal::Continue).await?;
        } else {
            server.start(Start::WithDump).await?;
        }
    }
    if stopped { Ok(()) } else { bail!("its state was never T") }
}

/// Makes another server the master: by a command, or because the old one does not answer.
async fn fail_over(injector: &Injector, fault: &Fault, entry: &RedisEntry) -> anyhow::Result<()> {
    let old = master_of(injector, entry).await?;
    injector.mean(fault, Some(&old.name));
    let server: &Mutex<Server> = injector.stage.server(&old.name)?;
    match fault.kind {
        Kind::KillMaster => server.lock().await.kill().await?,
        Kind::FreezeMaster => server.lock().await.signal(Signal::Stop).await?,
        _ => {
            let sentinel = entry.sentinels.first().context("a redis without Sentinels")?;
            let sentinel = injector.stage.server(&sentinel.name)?.lock().await;
            sentinel.tell(&["SENTINEL", "FAILOVER", master::MASTER]).await?;
        }
    }
    let sentinels: Vec<_> = entry.sentinels.iter().map(|sentinel| sentinel.address).collect();
    let give_up = now() + SWITCHES_WITHIN;
    let new = loop {
        let named = master::majority(&sentinels).await;
        let new =
            entry.servers.iter().find(|one| Some(one.address) == named && one.name != old.name);
        if let Some(new) = new {
            let role = injector.stage.server(&new.name)?.lock().await.ask(&["ROLE"]).await?;
            if role.list().first().and_then(Value::text) == Some(b"master") {
                break Some(new);
            }
        }
        if now() > give_up {
            break None;
        }
        breathe().await;
    };
    if let Some(new) = new {
        injector.verify(fault, format!("{} is the master", new.name));
    }
    if fault.kind != Kind::Failover {
        clock::sleep_until(now() + fault.lasts / 4).await;
    }
    match fault.kind {
        Kind::KillMaster => server.lock().await.start(Start::Empty).await?,
        Kind::FreezeMaster => server.lock().await.signal(Signal::Continue).await?,
        _ => {}
    }
    if new.is_some() { Ok(()) } else { bail!("no other server became the master") }
}
