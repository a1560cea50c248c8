//! Many tasks on one Redis, all held and watched by one agent.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use redis::pipe;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::hand::Hand;
use crate::stack::{Agent, Redis};

/// Lease of the locks; long, so that locks without renewals do not expire.
const LEASE: Duration = Duration::from_secs(3600);
/// Interval of renewals, as with Redisson's default lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
const TEAMS: [&str; 5] = ["finance", "logistics", "platform", "purchasing", "shop"];

/// Tasks with their locks, and the agent that watches them. Fields are dropped in order.
#[derive(Debug)]
pub struct Crowd {
    /// The agent, with the default interval.
    pub agent: Agent,
    /// The writer of the locks.
    pub hand: Hand,
    /// The server with the locks.
    pub redis: Redis,
    count: usize,
}

impl Crowd {
    /// Starts `count` tasks, each held by a worker of its own.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(count: usize) -> anyhow::Result<Crowd> {
        let redis = Redis::start().await?;
        let hand = Hand::at(&redis).await?;
        let mut commands = pipe();
        let lease_ms = i64::try_from(LEASE.as_millis())?;
        for at in 0..count {
            commands.hset(key(at), holder(at, "a"), 1).ignore().pexpire(key(at), lease_ms).ignore();
        }
        hand.send(&mut commands).await?;
        let agent = Agent::start(&config(redis.address(), count)?).await?;
        Ok(Crowd { agent, hand, redis, count })
    }

    /// The name of the task `at`.
    pub fn name(at: usize) -> String {
        format!("task-{at:04}")
    }

    /// Number of tasks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The displayed instance id of a task's worker.
    pub fn instance(at: usize, worker: &str) -> String {
        format!("worker-{worker}-{at:04}")
    }

    /// Makes another worker the holder of a lock.
    ///
    /// # Errors
    /// When the lock cannot be written.
    pub async fn hand_over(&self, at: usize, to: &str) -> anyhow::Result<()> {
        self.hand.hold(key(at).as_bytes(), holder(at, to).as_bytes(), LEASE).await
    }

    /// Frees a lock.
    ///
    /// # Errors
    /// When the lock cannot be deleted.
    pub async fn free(&self, at: usize) -> anyhow::Result<()> {
        self.hand.delete(key(at).as_bytes()).await
    }

    /// Renews all existing locks, each every 10 s, spread evenly, until dropped.
    pub fn renewals(&self) -> Renewals {
        let (hand, count) = (self.hand.clone(), self.count);
        Renewals(tokio::spawn(async move { renew(&hand, count).await }))
    }
}

/// The running renewals; they end when dropped.
#[derive(Debug)]
pub struct Renewals(JoinHandle<anyhow::Result<()>>);

impl Drop for Renewals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn renew(hand: &Hand, count: usize) -> anyhow::Result<()> {
    let pause = RENEWED_EVERY / u32::try_from(count.max(1))?;
    let mut turn = interval(pause);
    turn.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for at in (0..count).cycle() {
        let _when: Instant = turn.tick().await;
        hand.renew(key(at).as_bytes(), LEASE).await?;
    }
    Ok(())
}

fn key(at: usize) -> String {
    format!("{}:lock", Crowd::name(at))
}

fn holder(at: usize, worker: &str) -> String {
    format!("{}:1", Crowd::instance(at, worker))
}

fn config(redis: SocketAddr, count: usize) -> anyhow::Result<String> {
    let mut text =
        format!("redis: {{main: {{url: \"redis://{redis}\"}}}}\nlabels: [team]\ntasks:\n");
    for at in 0..count {
        let team = TEAMS.get(at % TEAMS.len()).context("no team")?;
        let name = Crowd::name(at);
        writeln!(
            text,
            "  - {{name: {name}, lock: {{key: \"{}\"}}, wanted: always, grace: 2s, labels: \
             {{team: {team}}}}}",
            key(at)
        )?;
    }
    Ok(text)
}
