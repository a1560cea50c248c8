//! Mild faults, injected one after the other; each is undone before the next.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::pipe;
use tokio::time::sleep;

use crate::page::Crowd;
use crate::stack::Signal;

/// How long some locks are free: longer than the grace of their tasks.
const FREE_FOR: Duration = Duration::from_secs(5);
const FREED: usize = 20;
const FROZEN_FOR: Duration = Duration::from_secs(2);
/// How long a process is stopped: less than the age at which the agent's snapshots are refused.
const STOPPED_FOR: Duration = Duration::from_secs(3);
const PAUSED_MS: u64 = 1_500;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Redis is stopped.
    RedisFrozen,
    /// Redis closes the agent's connections.
    ConnectionsKilled,
    /// Redis does not answer clients.
    ClientsPaused,
    /// Some locks are freed, then taken by other holders.
    LocksFreed,
    /// Many locks change hands at once.
    Handovers,
    /// The agent reloads its configuration.
    Reload,
    /// The agent is stopped.
    AgentStopped,
}

const FAULTS: [Fault; 7] = [
    Fault::RedisFrozen,
    Fault::ConnectionsKilled,
    Fault::ClientsPaused,
    Fault::LocksFreed,
    Fault::Handovers,
    Fault::Reload,
    Fault::AgentStopped,
];

/// Chooses the faults, and counts them.
#[derive(Debug)]
pub(super) struct Faults {
    random: fastrand::Rng,
    counts: BTreeMap<String, usize>,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Faults {
        Faults { random: fastrand::Rng::with_seed(seed), counts: BTreeMap::new() }
    }

    /// Injects the next fault and undoes it.
    pub(super) async fn next(&mut self, crowd: &Crowd) -> anyhow::Result<()> {
        let Some(fault) = self.random.choice(FAULTS) else { return Ok(()) };
        *self.counts.entry(format!("{fault:?}")).or_default() += 1;
        let tasks: Vec<usize> = (0..FREED).map(|_| self.random.usize(..crowd.count())).collect();
        match fault {
            Fault::RedisFrozen => {
                crowd.redis.freeze().await?;
                sleep(FROZEN_FOR).await;
                crowd.redis.thaw().await
            }
            Fault::ConnectionsKilled => {
                crowd
                    .hand
                    .send(pipe().cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]))
                    .await
            }
            Fault::ClientsPaused => {
                crowd.hand.send(pipe().cmd("CLIENT").arg("PAUSE").arg(PAUSED_MS)).await
            }
            Fault::LocksFreed => {
                for at in &tasks {
                    crowd.free(*at).await?;
                }
                sleep(FREE_FOR).await;
                self.hand_over(crowd, &tasks).await
            }
            Fault::Handovers => {
                let all: Vec<usize> = (0..crowd.count()).collect();
                self.hand_over(crowd, &all).await
            }
            Fault::Reload => crowd.agent.signal(Signal::Hangup).await,
            Fault::AgentStopped => {
                crowd.agent.signal(Signal::Stop).await?;
                sleep(STOPPED_FOR).await;
                crowd.agent.signal(Signal::Continue).await
            }
        }
    }

    async fn hand_over(&mut self, crowd: &Crowd, tasks: &[usize]) -> anyhow::Result<()> {
        let worker = if self.random.bool() { "c" } else { "d" };
        for at in tasks {
            crowd.hand_over(*at, worker).await?;
        }
        Ok(())
    }

    /// The number of faults of each kind.
    pub(super) fn told(&self) -> String {
        let all: Vec<String> =
            self.counts.iter().map(|(fault, count)| format!("{count} × {fault}")).collect();
        all.join(", ")
    }
}
