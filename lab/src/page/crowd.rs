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

/// Long: what is not renewed for a while shall not end.
const LEASE: Duration = Duration::from_secs(3600);
/// Of a lock that is renewed: as of Redisson's default lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
const TEAMS: [&str; 5] = ["finance", "logistics", "platform", "purchasing", "shop"];

/// Tasks, their locks and who watches them. Parts are dropped from first to last.
#[derive(Debug)]
pub struct Crowd {
    /// The agent with its default rhythm.
    pub agent: Agent,
    /// What writes the locks.
    pub hand: Hand,
    /// Where they are.
    pub redis: Redis,
    count: usize,
}

impl Crowd {
    /// Starts so many tasks, each held by a worker of its own.
    ///
    /// # Errors
    /// When a part does not come up.
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

    /// The name of a task.
    pub fn name(at: usize) -> String {
        format!("task-{at:04}")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The instance id of a worker for it, as it is shown.
    pub fn instance(at: usize, worker: &str) -> String {
        format!("worker-{worker}-{at:04}")
    }

    /// Another worker holds its lock from now on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn hand_over(&self, at: usize, to: &str) -> anyhow::Result<()> {
        self.hand.hold(key(at).as_bytes(), holder(at, to).as_bytes(), LEASE).await
    }

    /// Its lock is free from now on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn free(&self, at: usize) -> anyhow::Result<()> {
        self.hand.delete(key(at).as_bytes()).await
    }

    /// All locks that exist are renewed, each every 10 s, spread evenly: until it is dropped.
    pub fn renewals(&self) -> Renewals {
        let (hand, count) = (self.hand.clone(), self.count);
        Renewals(tokio::spawn(async move { renew(&hand, count).await }))
    }
}

/// The renewals go on.
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
