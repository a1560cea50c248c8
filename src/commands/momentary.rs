//! Watches without an agent, for as long as a command needs: the same watchers and the same state.

use std::sync::Arc;

use lockwatch_judge::spec::StoreIndex;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::{Config, RedisConfig};
use crate::engine::{Engine, INPUTS};
use crate::io::{self, Assignment};
use crate::published::Snapshots;
use crate::trace::Traces;

/// Ends when it is dropped.
pub(super) struct Momentary {
    pub(super) snapshots: Snapshots,
    _assignments: Vec<watch::Sender<Arc<Assignment>>>,
    _running: Vec<AbortOnDropHandle<()>>,
}

/// Begins to watch the stores of `config` for which `is_watched` holds. A moment needs no
/// announcements of changes.
pub(super) fn begin(
    config: &Config,
    traces: &Traces,
    is_watched: impl Fn(StoreIndex) -> bool,
) -> Momentary {
    let clock = Clock::start();
    let (inputs, engine_inputs) = mpsc::channel(INPUTS);
    let (engine, snapshots) = Engine::new(clock, config.watch_spec(0));
    let mut running = vec![AbortOnDropHandle::new(tokio::spawn(engine.run(engine_inputs, ())))];
    let mut senders = Vec::new();
    for (redis, index) in config.redises.iter().zip(0..).map(|(it, at)| (it, StoreIndex(at))) {
        if !is_watched(index) {
            continue;
        }
        let assignment = Assignment {
            epoch: 0,
            index,
            config: RedisConfig { wake_ups: false, ..redis.clone() },
            tasks: config.tasks_on(index),
        };
        let (sender, assignments) = watch::channel(Arc::new(assignment));
        let watcher = io::run(assignments, inputs.clone(), clock, traces.clone());
        running.push(AbortOnDropHandle::new(tokio::spawn(watcher)));
        senders.push(sender);
    }
    Momentary { snapshots, _assignments: senders, _running: running }
}
