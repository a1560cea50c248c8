//! Watches without an agent, for as long as a command needs: the same watchers and the same state.

use std::sync::Arc;

use lockwatch_judge::spec::StoreIndex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::Config;
use crate::engine::{Engine, INPUTS};
use crate::io::{self, StoreAssignment};
use crate::published::Snapshots;
use crate::trace::Traces;

/// Ends when it is dropped.
pub(super) struct Momentary {
    pub(super) snapshots: Snapshots,
    _engine: AbortOnDropHandle<()>,
    _watchers: Vec<io::Watching>,
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
    let engine = AbortOnDropHandle::new(tokio::spawn(engine.run(engine_inputs, ())));
    let stores = StoreAssignment::all(config, 0).into_iter();
    let watchers = stores.filter(|store| is_watched(store.index())).map(|mut store| {
        if let StoreAssignment::Redis(redis) = &mut store {
            Arc::make_mut(redis).config.wake_ups = false;
        }
        io::Watching::begin(store, (&inputs, clock, traces))
    });
    Momentary { snapshots, _engine: engine, _watchers: watchers.collect() }
}
