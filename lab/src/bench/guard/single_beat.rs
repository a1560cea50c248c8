//! single-beat, the peer: the same script under its wrapper, with the shortest times that it takes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::pair::{Crash, Killed, Pair};
use super::scene::{Runner, Scene};

/// What its keys begin with.
const PREFIX: &str = "SINGLE_BEAT_";
/// Until a new one has tried for the lock, and then up to a heartbeat more.
const SETTLES: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_secs(1));

/// What it did, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Beats {
    /// From the end of a script to the start of the next one.
    pub(super) released: Vec<f64>,
    /// After SIGKILL of the wrapper.
    pub(super) crashes: Vec<Crash>,
}

impl Beats {
    /// All of these together.
    pub(super) fn of(all: Vec<Beats>) -> Beats {
        let mut sum = Beats::default();
        for beats in all {
            sum.released.extend(beats.released);
            sum.crashes.extend(beats.crashes);
        }
        sum
    }
}

/// As installed by `scripts/setup bench`.
fn program() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/single-beat");
    let program = folder.join("bin/single-beat");
    anyhow::ensure!(
        program.is_file(),
        "single-beat is not installed: run `scripts/setup bench`, which needs Python"
    );
    Ok(program)
}

/// Its heartbeat is a whole second at least, its lock lives for more than two of them, and the
/// first one for longer than that.
fn start(scene: &mut Scene) -> anyhow::Result<Runner> {
    let mut command = Command::new(program()?);
    command
        .env("SINGLE_BEAT_REDIS_SERVER", format!("redis://{}", scene.redis))
        .env("SINGLE_BEAT_IDENTIFIER", scene.key.trim_start_matches(PREFIX))
        .env("SINGLE_BEAT_LOCK_TIME", "3")
        .env("SINGLE_BEAT_INITIAL_LOCK_TIME", "4")
        .env("SINGLE_BEAT_HEARTBEAT_INTERVAL", "1");
    scene.run(command)
}

/// The name of a lock of single-beat.
pub(super) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

pub(super) fn run(scene: &mut Scene, count: usize) -> anyhow::Result<Beats> {
    program()?;
    let mut pair = Pair::start(scene, start)?;
    let mut beats = Beats::default();
    let settle = |pair: &Pair<'_>| {
        std::thread::sleep(SETTLES.0);
        pair.scene.pause(SETTLES.1);
    };
    for _ in 0..count {
        settle(&pair);
        beats.released.push(pair.release()?);
    }
    for _ in 0..count {
        settle(&pair);
        beats.crashes.push(pair.crash(Killed::Guard)?);
    }
    Ok(beats)
}
