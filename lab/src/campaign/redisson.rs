//! A part of the load from the real Redisson client: one Java process for each Redis, which gets
//! commands for its threads line by line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use super::clock::{Micros, SECOND, now};
use super::header::{Header, RedisEntry};
use super::log::Log;
use super::master::MASTER;
use super::script::{Play, Script};

/// Flags for a small process that starts fast and leaves no file behind when it is killed.
const JVM_FLAGS: [&str; 5] =
    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Xshare:auto", "-XX:-UsePerfData"];
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often a hold is checked, and a busy lock tried.
const TRY_EVERY: Micros = SECOND;
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// The name of this candidate in the log.
const CLIENT: &str = "java";

/// The folder of the Java program.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/redisson")
}

/// Builds the program if it is missing.
///
/// # Errors
/// When Java or Maven is missing or it cannot be built.
pub(super) async fn build() -> anyhow::Result<()> {
    if project().join("target/redisson-driver-1.jar").is_file() {
        return Ok(());
    }
    let built =
        Command::new("mvn").args(["-q", "-B", "package"]).current_dir(project()).output().await;
    let built = built.context(
        "there is no mvn: install Maven, or leave the real Redisson out with --no-redisson",
    )?;
    if !built.status.success() {
        bail!("mvn package in tests/redisson:\n{}", String::from_utf8_lossy(&built.stdout));
    }
    Ok(())
}

/// Starts to hold the Redisson locks of one Redis.
pub(super) fn start(
    header: &Arc<Header>,
    redis: usize,
    log: Log,
) -> JoinHandle<anyhow::Result<()>> {
    let header = Arc::clone(header);
    spawn_local(async move {
        let entry = header.redises.get(redis).context("no such redis")?;
        let mut java = Java::start(entry, header.times.lease).await?;
        let mut threads: Vec<Thread> = header
            .tasks_of(redis)
            .filter(|(_, task)| task.redisson)
            .map(|(index, task)| Thread {
                index,
                lock: task.lock(),
                play: Play::new(
                    Script::new(header.seed, index, task, header.times),
                    header.began_us,
                ),
                held_since: None,
                next: 0,
            })
            .collect();
        loop {
            sleep(LOOK_EVERY).await;
            for thread in &mut threads {
                thread.act(&mut java, &log).await?;
            }
        }
    })
}

/// A Java process with one client.
struct Java {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Java {
    async fn start(redis: &RedisEntry, lease_ms: u64) -> anyhow::Result<Java> {
        let mut child = Command::new("java")
            .args(JVM_FLAGS)
            .args(["-cp", "target/classes:target/lib/*", "lockwatch.redisson.Main"])
            .current_dir(project())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context(
                "there is no java: install a JDK, or leave the real Redisson out with \
                --no-redisson",
            )?;
        let stdin = child.stdin.take().context("a process without standard input")?;
        let lines =
            BufReader::new(child.stdout.take().context("a process without standard output")?)
                .lines();
        let mut java = Java { _child: child, stdin, lines };
        let address = |server: &SocketAddr| server.to_string();
        let servers = if redis.sentinels.is_empty() {
            let port = redis.servers.first().context("a redis without servers")?.address.port();
            format!("port={port}")
        } else {
            let nodes: Vec<String> =
                redis.sentinels.iter().map(|sentinel| address(&sentinel.address)).collect();
            format!("mode=sentinel master={MASTER} nodes={} scan=500", nodes.join(","))
        };
        java.ask(&format!("connect c {servers} watchdog={lease_ms} timeout=900 retries=1")).await?;
        Ok(java)
    }

    /// The boolean in this field of the answer to a command; `None` if it is missing, because Redis
    /// could not be reached.
    async fn yes(&mut self, command: &str, field: &str) -> anyhow::Result<Option<bool>> {
        Ok(self.ask(command).await?.get(field).and_then(Value::as_bool))
    }

    /// The answer to a command; events that arrive before it are skipped.
    async fn ask(&mut self, command: &str) -> anyhow::Result<Value> {
        self.stdin
            .write_all(format!("{command}\n").as_bytes())
            .await
            .context("the Java process has ended")?;
        loop {
            let line = timeout(ANSWERS_WITHIN, self.lines.next_line()).await;
            let line = line.with_context(|| format!("Redisson does not answer {command}"))??;
            let answer: Value = serde_json::from_str(&line.context("the Java process has ended")?)?;
            if answer.get("event").is_none() {
                return Ok(answer);
            }
        }
    }
}

/// One thread of the client, and its lock.
struct Thread {
    index: usize,
    lock: String,
    play: Play,
    /// The start of the step in which the lock was taken.
    held_since: Option<Micros>,
    next: Micros,
}

impl Thread {
    async fn act(&mut self, java: &mut Java, log: &Log) -> anyhow::Result<()> {
        let step = self.play.at(now());
        let name = format!("c t{} {}", self.index, self.lock);
        let say = |event: &str, sent: Micros| {
            log.line(format_args!("{} {} {CLIENT} {event} {sent}", now(), self.index))
        };
        let sent = now();
        match self.held_since {
            // A thread cannot die alone, so it releases the lock where other candidates crash.
            Some(since) if since != step.from && step.kind.ends_hold().is_some() => {
                let released = java.yes(&format!("unlock {name}"), "ok").await? == Some(true);
                say(if released { "released" } else { "lost" }, sent);
                self.held_since = None;
            }
            Some(_) if sent >= self.next => {
                let held = java.yes(&format!("held {name}"), "held").await?;
                self.next = sent + TRY_EVERY;
                match held {
                    Some(true) => say("renewed", sent),
                    Some(false) => {
                        say("lost", sent);
                        self.held_since = None;
                    }
                    // Redis cannot be reached at present.
                    None => {}
                }
            }
            None if step.kind.contends() && sent >= self.next => {
                if java.yes(&format!("trylock {name} wait=0"), "acquired").await? == Some(true) {
                    say("acquired", sent);
                    self.held_since = Some(step.from);
                }
                self.next = sent + TRY_EVERY;
            }
            _ => {}
        }
        Ok(())
    }
}
