//! The agent: starts one watcher per Redis store, the engine and the HTTP server, reloads the
//! configuration on request, and drains connections on shutdown.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::event::Event;
use lockwatch_judge::input::Input;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::first;
use crate::blocking;
use crate::clock::Clock;
use crate::config::Config;
use crate::drill::Drill;
use crate::engine::{Engine, INPUTS, Now, Observer, Observers};
use crate::io::{self, StoreAssignment};
use crate::outputs::events::EventLog;
use crate::outputs::history::History;
use crate::patterns::Patterns;
use crate::published::{ReloadRequest, ReloadStatus, Snapshots};
use crate::record::Recorder;
use crate::text::identity::tasks_fingerprint;
use crate::trace::Traces;

/// How long HTTP clients may take to finish after shutdown began.
const DRAIN: Duration = Duration::from_secs(4);
/// The signal that the kernel sends to a process that writes past its file size limit (`ulimit
/// -f`). Its default action ends the process.
const SIGXFSZ: i32 = 25;

/// What the HTTP server needs from the agent.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// The snapshots that the engine publishes.
    pub snapshots: Snapshots,
    /// The result of the newest load of the configuration.
    pub reload_status: watch::Receiver<ReloadStatus>,
    /// Accepts requests for a reload.
    pub reload: mpsc::Sender<ReloadRequest>,
    /// Where callers register for the commands and replies about a task.
    pub traces: Traces,
    /// The configuration that is in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// The agent's clock.
    pub clock: Clock,
    /// The drill that is published with the snapshots.
    pub drill: watch::Sender<Option<Arc<Drill>>>,
}

/// What the agent is built from.
pub struct Parts<L, H> {
    /// The initial configuration.
    pub config: Config,
    /// Loads the configuration again. Its error text is meant for people.
    pub load: L,
    /// Receive every input of the engine and every event.
    pub observers: Observers,
    /// Serves HTTP until the token is cancelled.
    pub http: H,
}

/// Runs the agent until `stop` is cancelled or a SIGTERM or SIGINT arrives. SIGHUP reloads.
///
/// # Errors
/// Signals cannot be received.
pub async fn run<L, H, F>(parts: Parts<L, H>, stop: CancellationToken) -> std::io::Result<()>
where
    L: Fn() -> Result<Config, String> + Send + Sync + 'static,
    H: FnOnce(Outlets, CancellationToken) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    // With a handler installed, a recording or log that reaches the file size limit fails with a
    // write error instead of ending the process.
    let _too_long = signal(SignalKind::from_raw(SIGXFSZ))?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    first::reap_orphans()?;
    let Parts { config, load, observers, http } = parts;
    let load = Arc::new(load);
    let clock = Clock::start();
    let (inputs, engine_inputs) = mpsc::channel(INPUTS);
    let (engine, snapshots) = Engine::new(clock, config.watch_spec(0));
    let (mut patterns, mut reports) = Patterns::new(snapshots.clone(), clock);
    let drill = watch::Sender::new(None);
    let engine = engine.with_patterns(patterns.views()).with_drill(drill.subscribe());
    patterns.configure(&config);
    let (reload, mut reloads) = mpsc::channel::<ReloadRequest>(1);
    let (status, reload_status) = watch::channel(loaded(&config, clock));
    let traces = Traces::default();
    let mut watching = Watching {
        watchers: BTreeMap::new(),
        patterns,
        epoch: 0,
        inputs,
        clock,
        traces: traces.clone(),
        config: watch::Sender::new(Arc::new(config.clone())),
    };
    watching.assign(&config);
    let now = watching.config.subscribe();
    let outlets = Outlets { snapshots, reload_status, reload, traces, config: now, clock, drill };
    let http = AbortOnDropHandle::new(tokio::spawn(http(outlets, stop.clone())));
    let control = async {
        loop {
            let due = watching.patterns.due();
            let request = tokio::select! {
                () = asked_to_stop(&stop, &mut terminate, &mut interrupt) => break,
                _ = hangup.recv() => None,
                Some(request) = reloads.recv() => Some(request),
                Some(report) = reports.recv() => {
                    watching.patterns.take(report);
                    continue;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    watching.expand().await;
                    continue;
                }
            };
            // The configuration may be on a disk that hangs. That must not keep the agent from
            // stopping.
            let outcome = tokio::select! {
                outcome = reload_with(&mut watching, Arc::clone(&load), &status) => outcome,
                () = asked_to_stop(&stop, &mut terminate, &mut interrupt) => break,
            };
            if let Some(request) = request {
                let _nobody_waits = request.send(outcome);
            }
        }
        tracing::info!("stopping");
        stop.cancel();
        // Sampling stops, but the engine continues: requests in progress still read its state.
        watching.watchers.clear();
        watching.patterns.stop();
        if tokio::time::timeout(DRAIN, http).await.is_err() {
            tracing::info!("clients took too long to finish");
        }
    };
    // The engine runs here and not in a task of its own. So all state stays on the thread that
    // parsed the configuration, and its allocator reuses the memory that parsing freed.
    tokio::select! {
        () = control => {}
        () = engine.run(engine_inputs, observers) => {}
    }
    Ok(())
}

/// Returns when the agent has to stop, because of the token or a signal.
async fn asked_to_stop(stop: &CancellationToken, terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        () = stop.cancelled() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// What is said of a configuration that was loaded just now.
fn loaded(config: &Config, clock: Clock) -> ReloadStatus {
    let patterns = config.patterns.iter();
    let patterns = patterns.map(|pattern| (&**pattern.name(), pattern.store(), pattern.glob()));
    let tasks = match config.tasks.is_empty() && config.patterns.is_empty() {
        true => 0,
        false => tasks_fingerprint(&config.watch_spec(0), patterns),
    };
    let links = config.links.clone();
    ReloadStatus { successful: true, success_at: clock.wall(), tasks, links }
}

/// Loads the configuration again and applies it. If that fails, the old one stays in force.
async fn reload_with<L>(
    watching: &mut Watching,
    load: Arc<L>,
    status: &watch::Sender<ReloadStatus>,
) -> Result<(), String>
where
    L: Fn() -> Result<Config, String> + Send + Sync + 'static,
{
    match blocking::run(move || load()).await.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(config) => {
            let loaded = loaded(&config, watching.clock);
            watching.configure(config).await;
            status.send_replace(loaded);
            tracing::info!("configuration reloaded");
            Ok(())
        }
        Err(error) => {
            status.send_modify(|status| status.successful = false);
            tracing::error!(error, "configuration not reloaded: the old one stays in force");
            Err(error)
        }
    }
}

/// The watchers and the configuration that they follow.
struct Watching {
    watchers: BTreeMap<Arc<str>, io::Watching>,
    patterns: Patterns,
    epoch: u32,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
    traces: Traces,
    /// The configuration that is in force, as it was written: without the tasks of its patterns.
    config: watch::Sender<Arc<Config>>,
}

impl Watching {
    /// Puts `config` in force.
    async fn configure(&mut self, mut config: Config) {
        config.share(&self.config.borrow().tasks);
        self.patterns.configure(&config);
        self.config.send_replace(Arc::new(config));
        self.expand().await;
    }

    /// Applies the configuration in force with the tasks that its patterns found: first to the
    /// engine, then to the watchers. Watchers keep the connections and state that are still valid.
    async fn expand(&mut self) {
        let written = Arc::clone(&self.config.borrow());
        let config = self.patterns.expand(&written);
        self.epoch = self.epoch.wrapping_add(1);
        if self.inputs.send(Input::Config(Arc::new(config.watch_spec(self.epoch)))).await.is_err() {
            return; // The engine is gone: the agent is stopping.
        }
        self.assign(&config);
    }

    /// Gives each store of `config` its watcher.
    fn assign(&mut self, config: &Config) {
        let mut old = std::mem::take(&mut self.watchers);
        for assignment in StoreAssignment::all(config, self.epoch) {
            let name = assignment.name();
            let begin = |it| io::Watching::begin(it, (&self.inputs, self.clock, &self.traces));
            let watcher = match old.remove(&name) {
                Some(watcher) => match watcher.assign(assignment) {
                    Ok(()) => watcher,
                    Err(assignment) => begin(assignment),
                },
                None => begin(assignment),
            };
            self.watchers.insert(name, watcher);
        }
    }
}

impl Observer for EventLog {
    fn event(&mut self, now: Now, event: &Event) {
        self.write(now.mono, event);
    }

    fn tick(&mut self, now: Now) {
        EventLog::tick(self, now.mono);
    }
}

impl Observer for History {
    fn event(&mut self, now: Now, event: &Event) {
        self.keep(now.mono, now.wall, event);
    }
}

impl Observer for Recorder {
    fn input(&mut self, now: Now, input: &Input) {
        self.keep(now.mono, now.wall, input);
    }

    fn event(&mut self, _now: Now, _event: &Event) {}
}
