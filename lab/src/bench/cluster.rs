//! The same locks on one server and in a cluster of six nodes, sampled at the shortest interval
//! that the configuration allows.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::bed::{all_read, config, lay_out};
use super::load::key;
use super::report::{Figure, Table};
use super::usage::Usage;
use super::wire::Wire;
use crate::numbers::{self, shown};
use crate::stack::{Agent, Cluster, Redis};

const LOCKS: usize = 10_000;
const LEASE_MS: u64 = 3_600_000;
const SLOTS: usize = 16_384;

struct Rate {
    locks: f64,
    agent: f64,
    redis: f64,
}

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let stretch = Duration::from_secs(if short { 3 } else { 8 });
    let (redis, cluster) = (Redis::start().await?, Cluster::start().await?);
    let one = (vec![redis.address()], vec![redis.id().context("redis-server does not run")?]);
    let six = (cluster.masters(), cluster.ids());
    let nodes: Vec<String> = cluster.addresses().map(|node| format!("'redis://{node}'")).collect();
    let of_six = format!("cluster: {{nodes: [{}]}}", nodes.join(", "));
    let of_one = format!("url: 'redis://{}'", redis.address());
    for masters in [&one.0, &six.0] {
        block_in_place(|| fill(masters))?;
    }
    let mut figures = Vec::new();
    for interval in ["100ms", "1s"] {
        let alone = measure(&of_one, interval, &one, stretch).await?;
        let all = measure(&of_six, interval, &six, stretch).await?;
        let text = |rate: &Rate| {
            format!(
                "agent {}, all servers {}",
                shown(rate.agent, "%"),
                shown(rate.redis, "% of a core")
            )
        };
        let row = |who: &str, rate: &Rate| {
            Figure::told(
                format!("{LOCKS} locks each {interval}, {who}"),
                shown(rate.locks / 1000.0, "k locks/s"),
            )
            .with(text(rate))
        };
        figures.push(row("one server", &alone));
        figures.push(row("three masters with a replica each", &all));
    }
    Ok(Table { figures, more: String::new() })
}

async fn measure(
    servers: &str,
    interval: &str,
    (masters, ids): &(Vec<SocketAddr>, Vec<u32>),
    stretch: Duration,
) -> anyhow::Result<Rate> {
    let agent =
        Agent::start_with(&config(servers, interval, LOCKS), &["--log.level", "error"]).await?;
    all_read(&agent, LOCKS).await?;
    let own = agent.id().context("the agent has ended")?;
    let (before, began) = (block_in_place(|| read(masters))?, Instant::now());
    let (usage, servers) = (Usage::of(&[own])?, Usage::of(ids)?);
    sleep(stretch).await;
    let (agent, redis) = (usage.percent()?.iter().sum(), servers.percent()?.iter().sum());
    let locks = (block_in_place(|| read(masters))? - before) / began.elapsed().as_secs_f64();
    Ok(Rate { locks, agent, redis })
}

/// Writes each lock to its master.
fn fill(masters: &[SocketAddr]) -> anyhow::Result<()> {
    for (at, master) in masters.iter().enumerate() {
        let here = |lock: &usize| slot(key(*lock).as_bytes()) * masters.len() / SLOTS == at;
        lay_out(*master, (0..LOCKS).filter(here), LEASE_MS)?;
    }
    Ok(())
}

/// Number of locks read on these servers so far. A glance reads the deadline once, a full reading
/// reads it before and after the holder.
fn read(masters: &[SocketAddr]) -> anyhow::Result<f64> {
    let mut locks = 0.0;
    for master in masters {
        let info = Wire::connect(*master)?.ask(&["INFO", "commandstats"])?;
        let calls = |command| numbers::calls(&info, command).unwrap_or(0) as f64;
        // Before Redis 7.0 the deadline is read as a remaining time.
        locks += calls("pexpiretime") + calls("pttl") - calls("hscan");
    }
    Ok(locks)
}

/// CRC-16/XMODEM of a key without a hash tag.
fn slot(key: &[u8]) -> usize {
    let crc = key.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    usize::from(crc) % SLOTS
}

#[cfg(test)]
mod tests {
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!([super::slot(b"foo"), super::slot(b"123456789")], [12_182, 12_739]);
    }
}
