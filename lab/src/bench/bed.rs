//! Many locks on one Redis, and the counters of that server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::task::block_in_place;

use super::fetch::{Client, lines_of};
use super::load::{LEASE_MS, hold, key, name};
use super::wire::{Wire, number};
use crate::stack::{Agent, Redis, until};

/// Maximum time until an agent has read all locks.
const READ_WITHIN: Duration = Duration::from_secs(120);

/// Lease of locks that are not renewed, in milliseconds: longer than any benchmark.
const AT_REST_MS: u64 = 3_600_000;

/// Held locks on a private Redis.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) redis: Redis,
    pub(super) count: usize,
}

/// Counters of a Redis at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) commands: f64,
    /// Number of entries ever written to the slow log.
    pub(super) slow: f64,
}

impl Bed {
    /// Starts a Redis with this many locks, which the caller must renew.
    pub(super) async fn start(count: usize) -> anyhow::Result<Bed> {
        Bed::with_lease(count, LEASE_MS).await
    }

    /// Like [`Bed::start`], with locks that need no renewal.
    pub(super) async fn at_rest(count: usize) -> anyhow::Result<Bed> {
        Bed::with_lease(count, AT_REST_MS).await
    }

    /// Like [`Bed::start`], with locks of this lease.
    pub(super) async fn with_lease(count: usize, lease_ms: u64) -> anyhow::Result<Bed> {
        let redis = Redis::start().await?;
        block_in_place(|| {
            // The slow log must keep all entries.
            Wire::connect(redis.address())?.ask(&[
                "CONFIG",
                "SET",
                "slowlog-max-len",
                "1000000",
            ])?;
            lay_out(redis.address(), 0..count, lease_ms)
        })?;
        Ok(Bed { redis, count })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.redis.address()
    }

    /// The process id of the Redis.
    pub(super) fn id(&self) -> anyhow::Result<u32> {
        self.redis.id().context("redis-server does not run")
    }

    /// Starts an agent that watches all locks, and waits until it has read each.
    pub(super) async fn agent(&self, interval: &str) -> anyhow::Result<Agent> {
        let agent = self.busy_agent(interval).await?;
        all_read(&agent, self.count).await?;
        Ok(agent)
    }

    /// Starts an agent that may be overloaded, without waiting until it has read all locks.
    pub(super) async fn busy_agent(&self, interval: &str) -> anyhow::Result<Agent> {
        let servers = format!("url: \"redis://{}\"", self.address());
        Agent::start_with(&config(&servers, interval, self.count), &["--log.level", "error"]).await
    }

    /// Closes the connections on which Redis announces changed keys, so that a frozen agent costs
    /// nothing.
    pub(super) fn stop_announcing(&self) -> anyhow::Result<()> {
        block_in_place(|| {
            let mut wire = Wire::connect(self.address())?;
            for id in tracking(&wire.ask(&["CLIENT", "LIST"])?) {
                wire.ask(&["CLIENT", "KILL", "ID", &id])?;
            }
            Ok(())
        })
    }

    pub(super) fn counters(&self) -> anyhow::Result<Counters> {
        block_in_place(|| {
            let mut wire = Wire::connect(self.address())?;
            let commands = number(&wire.ask(&["INFO", "stats"])?, "total_commands_processed");
            Ok(Counters { commands, slow: wire.ask(&["SLOWLOG", "LEN"])?.parse()? })
        })
    }
}

/// The ids of the tracking clients in a `CLIENT LIST`.
fn tracking(list: &str) -> Vec<String> {
    let tracking = list.lines().filter(|line| {
        let flags = line.split(' ').find_map(|field| field.strip_prefix("flags="));
        flags.is_some_and(|flags| flags.contains('t'))
    });
    tracking
        .filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("id=")))
        .map(str::to_owned)
        .collect()
}

/// Writes locks in Redisson's layout.
pub(super) fn lay_out(
    redis: SocketAddr,
    locks: impl IntoIterator<Item = usize>,
    lease_ms: u64,
) -> anyhow::Result<()> {
    let mut wire = Wire::connect(redis)?;
    let commands: Vec<Vec<u8>> =
        locks.into_iter().flat_map(|at| hold(at, &super::load::holder(at), lease_ms)).collect();
    wire.send(&commands)
}

/// A configuration for this many locks.
pub(super) fn config(servers: &str, interval: &str, count: usize) -> String {
    let mut text = format!(
        "redis:\n  main: {{{servers}, interval: {interval}}}\nmax_tasks: {}\ntasks:\n",
        count.max(1)
    );
    for at in 0..count {
        let _written = writeln!(text, "- {{name: {}, lock: {{key: '{}'}}}}", name(at), key(at));
    }
    text
}

/// Waits until this many locks are shown as held.
pub(super) async fn all_read(agent: &Agent, count: usize) -> anyhow::Result<()> {
    let address = agent.address();
    // Scraping shows this at once for few locks, and costs too much for many.
    if count <= 1000 {
        return until(READ_WITHIN, "the agent has read all locks", async || {
            block_in_place(|| {
                let mut client = Client::connect(address)?;
                anyhow::Ok(
                    lines_of(client.get("/metrics")?.body, "lockwatch_lock_holder{") == count,
                )
            })
            .unwrap_or(false)
        })
        .await;
    }
    until(READ_WITHIN, "the agent has read all locks", async || {
        block_in_place(|| {
            let path = format!("/api/v1/tasks/{}", name(count - 1));
            let mut client = Client::connect(address)?;
            let page = String::from_utf8_lossy(client.get(&path)?.body).into_owned();
            anyhow::Ok(page.contains("\"held\":true") || page.contains("\"held\": true"))
        })
        .unwrap_or(false)
    })
    .await?;
    // The remaining ones are read within the same interval.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}
