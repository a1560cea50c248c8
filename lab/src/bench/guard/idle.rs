//! What a guard costs while nothing happens.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::super::usage::{proportional_mb, resident_mb};
use super::scene::Scene;

/// Time until nothing happens any more.
const CALM_AFTER: Duration = Duration::from_secs(3);

/// The cost of a guard, with its keeper if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// In percent of a core.
    pub(super) percent: f64,
    /// Resident memory in MB; what both share counts twice.
    pub(super) resident_mb: f64,
    /// The same without counting anything twice.
    pub(super) proportional_mb: f64,
    /// Commands to Redis per second.
    pub(super) commands: f64,
}

/// The only guard on a Redis, whose script sleeps.
pub(super) fn running(scene: &mut Scene, stretch: Duration) -> anyhow::Result<Cost> {
    let file = scene.configuration()?;
    let users = format!("users:{}", scene.key);
    scene.ask(&["HSET", &users, "anna", "true"])?;
    let guard = scene.configured_guard(&file)?;
    let script = scene.start()?;
    let keeper = u32::try_from(script.keeper.as_raw_pid())?;
    measure(scene.redis, &[guard.id(), keeper], stretch)
}

/// The only guard on a Redis, while somebody else has the lock.
pub(super) fn waiting(scene: &mut Scene, stretch: Duration) -> anyhow::Result<Cost> {
    let file = scene.configuration()?;
    let (key, users) = (scene.key.clone(), format!("users:{}", scene.key));
    scene.ask(&["HSET", &users, "anna", "true"])?;
    scene.ask(&["HSET", &key, "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"])?;
    scene.ask(&["PEXPIRE", &key, "3600000"])?;
    let guard = scene.configured_guard(&file)?;
    let mut all = Vec::new();
    scene.until("keeper and starter are ready", |_| {
        all = with_offspring(guard.id());
        Ok(all.len() == 3)
    })?;
    measure(scene.redis, &all, stretch)
}

/// A process, and all that came of it.
fn with_offspring(id: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children = children.collect::<String>();
    let offspring = children.split_whitespace().filter_map(|id| id.parse().ok());
    [id].into_iter().chain(offspring.flat_map(with_offspring)).collect()
}

fn measure(redis: SocketAddr, processes: &[u32], stretch: Duration) -> anyhow::Result<Cost> {
    std::thread::sleep(CALM_AFTER);
    let used = || processes.iter().map(|id| used_ns(*id)).sum::<anyhow::Result<u64>>();
    let (before, began) = (used()?, Instant::now());
    let commands = count_commands(redis, stretch)?;
    let (after, took) = (used()?, began.elapsed().as_secs_f64());
    let sum = |of: fn(u32) -> anyhow::Result<f64>| {
        processes.iter().map(|id| of(*id)).sum::<anyhow::Result<f64>>()
    };
    Ok(Cost {
        percent: after.saturating_sub(before) as f64 / 1e9 / took * 100.0,
        resident_mb: sum(resident_mb)?,
        proportional_mb: sum(proportional_mb)?,
        commands: commands as f64 / took,
    })
}

/// The CPU time of all threads of a process, more exactly than in hundredths of a second.
fn used_ns(id: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{id}/task")).context("a guard has ended")? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(sum)
}

/// Commands that clients send to a Redis in this time. Those within scripts do not count.
fn count_commands(redis: SocketAddr, stretch: Duration) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(redis)?;
    stream.write_all(b"MONITOR\r\n")?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let (began, mut lines, mut line) = (Instant::now(), BufReader::new(stream), String::new());
    let mut count = 0;
    while began.elapsed() < stretch {
        match lines.read_line(&mut line) {
            Ok(0) => bail!("Redis closed the connection"),
            Ok(_) => {
                count += usize::from(line.contains('[') && !line.contains(" lua] "));
                line.clear();
            }
            // What came of a line stays.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}
