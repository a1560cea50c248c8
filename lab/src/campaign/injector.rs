//! Injects faults. Kind, target and duration follow from the seed. Each fault is logged with its
//! intent and its verified effect, undone, and followed by a wait until everything is healthy.

mod agents;
mod network;
mod partition;
mod servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::clock::{self, Micros, SECOND, now};
use super::fault::{Kind, Line, Word};
use super::log::Log;
use super::server::breathe;
use super::stage::{Stage, is_settled};

/// Maximum time until everything is healthy after a fault; a Sentinel that detects a pause of the
/// machine waits for 30 s on its own.
const HEALS_WITHIN: Duration = Duration::from_secs(90);
/// Pause after each fault, so that agents that wait before they dial again are seen to recover.
const CALM: Micros = 9 * SECOND;

/// The target of the faults of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// One Redis, and the network to it.
    Redis(usize),
    /// The agents and the worker processes.
    Processes,
}

/// The state that all lanes share.
pub(super) struct Injector {
    stage: Arc<Stage>,
    log: Log,
    next: AtomicU64,
    pub(super) ids: Vec<Arc<std::sync::atomic::AtomicU32>>,
    meant: AtomicUsize,
    verified: AtomicUsize,
}

/// A fault that is about to be injected.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    id: u64,
    kind: Kind,
    redis: Option<usize>,
    agent: Option<usize>,
    lasts: Micros,
}

impl Injector {
    pub(super) fn new(
        stage: Arc<Stage>,
        log: Log,
        ids: Vec<Arc<std::sync::atomic::AtomicU32>>,
    ) -> Arc<Injector> {
        Arc::new(Injector {
            stage,
            log,
            next: AtomicU64::new(1),
            ids,
            meant: 0.into(),
            verified: 0.into(),
        })
    }

    /// Number of intended faults, and of those verified.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.meant.load(Ordering::SeqCst), self.verified.load(Ordering::SeqCst))
    }

    /// Injects faults until `until`; everything is healed when the task ends.
    pub(super) fn start(
        self: &Arc<Self>,
        lane: Lane,
        until: Micros,
        only: Vec<Kind>,
    ) -> JoinHandle<anyhow::Result<()>> {
        let this = Arc::clone(self);
        let number = match lane {
            Lane::Redis(index) => index as u64,
            Lane::Processes => 99,
        };
        let seed =
            this.stage.header.seed.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Parts are started and stopped by futures that are not `Send`.
        spawn_local(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let menu = menu(lane, &this.stage, &only);
            let mut bag: Vec<Kind> = Vec::new();
            while !menu.is_empty() {
                let pause = pause(lane, &mut random);
                // The longest fault and its recovery must fit.
                if now() + pause + 45 * SECOND > until {
                    return Ok(());
                }
                clock::sleep_until(now() + pause).await;
                // Each kind of the menu once in random order, then all again.
                if bag.is_empty() {
                    bag.clone_from(&menu);
                    random.shuffle(&mut bag);
                }
                let Some(kind) = bag.pop() else { continue };
                this.inject(lane, kind, &mut random).await?;
            }
            Ok(())
        })
    }

    async fn inject(
        &self,
        lane: Lane,
        kind: Kind,
        random: &mut fastrand::Rng,
    ) -> anyhow::Result<()> {
        let redis = match lane {
            Lane::Redis(index) => Some(index),
            Lane::Processes => None,
        };
        let agent = (network::is_of_cable(kind)
            || matches!(kind, Kind::AgentKill | Kind::AgentFreeze))
        .then(|| random.usize(0..self.stage.agents.len()));
        let blind_ms = self.stage.header.times.blind_after;
        let tenths = *random.choice(&[3_u64, 3, 9, 13, 20]).unwrap_or(&3);
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let fault = Fault { id, kind, redis, agent, lasts: blind_ms * tenths * 100 };
        self.meant.fetch_add(1, Ordering::SeqCst);
        let done = if network::is_of_cable(kind) {
            network::inject(self, &fault).await
        } else if partition::KINDS.contains(&kind) {
            partition::inject(self, &fault, random).await
        } else if redis.is_some() {
            servers::inject(self, &fault, random).await
        } else {
            agents::inject(self, &fault, random).await
        };
        if let Err(error) = done {
            self.say(id, Word::Unverified { why: format!("{error:#}") });
        }
        self.heal(&fault).await?;
        self.say(id, Word::Healed);
        clock::sleep_until(now() + CALM).await;
        Ok(())
    }

    fn say(&self, id: u64, word: Word) {
        let line = Line { at_us: now(), id, word };
        self.log.line(serde_json::to_string(&line).unwrap_or_default());
    }

    fn mean(&self, fault: &Fault, target: Option<&str>) {
        let word = Word::Meant {
            kind: fault.kind,
            redis: fault.redis,
            agent: fault.agent,
            target: target.map(str::to_owned),
            lasts_ms: fault.lasts / 1_000,
        };
        self.say(fault.id, word);
    }

    fn verify(&self, fault: &Fault, how: impl Into<String>) {
        self.verified.fetch_add(1, Ordering::SeqCst);
        self.say(fault.id, Word::Verified { how: how.into() });
    }

    /// Waits until everything that the fault may have affected is healthy.
    async fn heal(&self, fault: &Fault) -> anyhow::Result<()> {
        if let Some(redis) = fault.redis {
            partition::heal(self, redis).await?;
            servers::heal(self, redis).await?;
            let entry = self.stage.redis(redis)?;
            let settled = async {
                while !is_settled(entry, &self.stage.servers).await {
                    breathe().await;
                }
            };
            if timeout(HEALS_WITHIN, settled).await.is_err() {
                self.say(
                    fault.id,
                    Word::Unverified {
                        why: format!("{} is not well after {HEALS_WITHIN:?}", entry.name),
                    },
                );
            }
        }
        Ok(())
    }
}

fn pause(lane: Lane, random: &mut fastrand::Rng) -> Micros {
    let mean = match lane {
        Lane::Redis(_) => 3.0,
        Lane::Processes => 18.0,
    };
    let seconds = (-mean * (1.0 - random.f64()).ln()).clamp(0.3, 3.0 * mean);
    clock::micros(Duration::from_secs_f64(seconds))
}

/// The kinds of faults of a lane.
fn menu(lane: Lane, stage: &Stage, only: &[Kind]) -> Vec<Kind> {
    let all = match lane {
        Lane::Processes => agents::KINDS.to_vec(),
        Lane::Redis(index) => {
            let has_sentinels = stage.redis(index).is_ok_and(|redis| !redis.sentinels.is_empty());
            let own: &[Kind] = if has_sentinels { &servers::OF_SENTINELS } else { &servers::ALONE };
            let machines = has_sentinels && stage.machines.is_some();
            let partitions: &[Kind] = if machines { &partition::KINDS } else { &[] };
            own.iter().chain(partitions).chain(&network::KINDS).copied().collect()
        }
    };
    all.into_iter().filter(|kind| only.is_empty() || only.contains(kind)).collect()
}
