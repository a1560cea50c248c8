//! A third that contends: the real Redisson, which holds the lock for a moment again and again
//! while guards end and crash.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::alive::{Nanos, now, only_one};
use super::pair::Next;
use super::scene::{LEASE_MS, Scene, kill, to_ms};

/// How long Redisson holds the lock at most, and how long it then lets the others have it.
const HOLDS: Duration = Duration::from_millis(100);
const LETS: Duration = Duration::from_millis(400);
/// How long a guard may run.
const RUNS: Duration = Duration::from_millis(400);
/// A start within this time after a release by Redisson is its take-over; a later one comes after
/// something else.
const AT_ONCE_MS: f64 = 500.0;

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Mixed {
    /// How often Redisson had the lock.
    pub(super) holds: usize,
    /// Milliseconds from a release by Redisson to the start of a guard's script.
    pub(super) taken_over: Vec<f64>,
}

/// The folder of the Java program.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/redisson")
}

/// The Java process.
struct Java {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Java {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Java {
    fn start(port: u16) -> anyhow::Result<Java> {
        if !project().join("target/redisson-driver-1.jar").is_file() {
            let built =
                Command::new("mvn").args(["-q", "-B", "package"]).current_dir(project()).output();
            ensure!(built.context("no mvn")?.status.success(), "mvn cannot build tests/redisson");
        }
        let mut command = Command::new("java");
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]);
        command.args(["-cp", "target/classes:target/lib/*", "lockwatch.redisson.Main"]);
        command.current_dir(project()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().context("no java")?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut java = Java { child, stdin, lines: BufReader::new(stdout).lines() };
        java.ask(&format!("connect c port={port} watchdog={LEASE_MS}"))?;
        Ok(java)
    }

    /// Carries out a command, and waits for its answer.
    fn ask(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.stdin, "{command}").context("the Java process has ended")?;
        loop {
            let line = self.lines.next().context("the Java process has ended")??;
            let answer: Value = serde_json::from_str(&line)?;
            if answer.get("event").is_none() {
                let is_ok = answer.get("ok").and_then(Value::as_bool) == Some(true);
                ensure!(is_ok, "Redisson cannot {command}: {line}");
                return Ok(());
            }
        }
    }

    /// Holds the lock now and then until it is told to end. Returns when it released it, and how
    /// often somebody else was at work while it held it.
    fn contend(
        mut self,
        key: &str,
        folder: &Path,
        done: &AtomicBool,
    ) -> anyhow::Result<(Vec<Nanos>, usize)> {
        let (mut released, mut overlaps) = (Vec::new(), 0);
        while !done.load(Ordering::Relaxed) {
            self.ask(&format!("lock c t {key}"))?;
            let alone = only_one(folder)?;
            overlaps += usize::from(alone.is_none());
            sleep(HOLDS.mul_f64(fastrand::f64()));
            drop(alone);
            released.push(now());
            self.ask(&format!("unlock c t {key}"))?;
            sleep(LETS.mul_f64(fastrand::f64()));
        }
        Ok((released, overlaps))
    }
}

/// Ends or kills two guards in turn for this time, while Redisson contends for their lock.
pub(super) fn mix(scene: &mut Scene, next: Next, stretch: Duration) -> anyhow::Result<Mixed> {
    let java = Java::start(scene.redis.port())?;
    let (key, folder) = (scene.key.clone(), scene.folder().to_owned());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let java = scope.spawn(|| java.contend(&key, &folder, &done));
        let starts = take_turns(scene, next, stretch);
        done.store(true, Ordering::Relaxed);
        let contended = java.join().ok().context("the thread of Redisson failed")?;
        let (starts, (released, overlaps)) = (starts?, contended?);
        let after = |released: &Nanos| {
            let next = starts.iter().find(|start| *start > released)?;
            let ms = to_ms(*next) - to_ms(*released);
            (ms < AT_ONCE_MS).then_some(ms)
        };
        let taken_over = released.iter().filter_map(after).collect();
        scene.tally.overlaps += overlaps;
        Ok(Mixed { holds: released.len(), taken_over })
    })
}

/// Returns when scripts of guards began.
fn take_turns(scene: &mut Scene, next: Next, stretch: Duration) -> anyhow::Result<Vec<Nanos>> {
    let (began, mut starts) = (Instant::now(), Vec::new());
    let mut guards = vec![next(scene)?, next(scene)?];
    while began.elapsed() < stretch {
        let script = scene.start()?;
        starts.push(script.at);
        scene.pause(RUNS);
        let at = guards.iter().position(|guard| guard.name == script.guard);
        let mut guard = guards.swap_remove(at.context("an unknown guard runs the script")?);
        if fastrand::u8(..4) == 0 {
            guard.kill()?;
            kill(script.keeper);
            kill(script.pid);
        } else {
            guard.terminate()?;
        }
        guard.wait()?;
        guards.push(next(scene)?);
    }
    Ok(starts)
}
