//! The agent: starts a sampler per redis, the engine and the HTTP server, reloads on request, and
//! drains when told to stop.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::event::Event;
use lockwatch_model::input::Input;
use lockwatch_model::spec::{RedisIndex, TaskIndex, TaskSpec};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::apart::apart;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::{Engine, INPUTS, Now, Observer, Observers};
use crate::output::events::EventLog;
use crate::output::history::History;
use crate::published::{ReloadRequest, ReloadStatus, Snapshots};
use crate::record::Recorder;
use crate::sampler::{self, Assignment};
use crate::trace::Traces;

/// How long clients may take to finish after the agent was told to stop.
const DRAIN: Duration = Duration::from_secs(4);
/// What a process is sent that makes a file longer than it may (`ulimit -f`); unless it is caught,
/// that ends it.
const SIGXFSZ: i32 = 25;

/// What the HTTP server needs of the agent.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// What the engine publishes.
    pub snapshots: Snapshots,
    /// How the configuration was last loaded.
    pub reload_status: watch::Receiver<ReloadStatus>,
    /// Where a reload is asked for.
    pub reload: mpsc::Sender<ReloadRequest>,
    /// Where those wait who want to see what is said about a task.
    pub traces: Traces,
}

/// What the agent is made of.
pub struct Parts<L, H> {
    /// The configuration to begin with.
    pub config: Config,
    /// Loads the configuration anew; the error is for a person.
    pub load: L,
    /// Who follows what goes in and what happens.
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
    // A recording, or a log, that is as long as the system lets a file be shall be an error of
    // writing and not the end.
    let _too_long = signal(SignalKind::from_raw(SIGXFSZ))?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let Parts { config, load, observers, http } = parts;
    let load = Arc::new(load);
    let clock = Clock::start();
    let (inputs, engine_inputs) = mpsc::channel(INPUTS);
    let (engine, snapshots) = Engine::new(clock, config.watch_spec(0));
    let (reload, mut reloads) = mpsc::channel::<ReloadRequest>(1);
    let (status, reload_status) =
        watch::channel(ReloadStatus { successful: true, success_at: clock.wall() });
    let traces = Traces::default();
    let mut watching = Watching {
        samplers: BTreeMap::new(),
        tasks: config.tasks.clone(),
        epoch: 0,
        inputs,
        clock,
        traces: traces.clone(),
    };
    watching.assign(&config);
    let outlets = Outlets { snapshots, reload_status, reload, traces };
    let http = AbortOnDropHandle::new(tokio::spawn(http(outlets, stop.clone())));
    let control = async {
        loop {
            let request = tokio::select! {
                () = told_to_end(&stop, &mut terminate, &mut interrupt) => break,
                _ = hangup.recv() => None,
                Some(request) = reloads.recv() => Some(request),
            };
            // What is read may be on a disk that hangs, which must not keep the agent from ending.
            let outcome = tokio::select! {
                outcome = reload_with(&mut watching, Arc::clone(&load), &status) => outcome,
                () = told_to_end(&stop, &mut terminate, &mut interrupt) => break,
            };
            if let Some(request) = request {
                let _nobody_waits = request.send(outcome);
            }
        }
        tracing::info!("stopping");
        stop.cancel();
        // Nobody is asked any more, but the engine goes on: those who are being answered still look
        // at what it knows.
        watching.samplers.clear();
        if tokio::time::timeout(DRAIN, http).await.is_err() {
            tracing::info!("clients took too long to finish");
        }
    };
    // Here and not as a task of its own, so that all that is known is on one thread: on that which
    // read the configuration, and what this left of its memory is used again.
    tokio::select! {
        () = control => {}
        () = engine.run(engine_inputs, observers) => {}
    }
    Ok(())
}

/// Returns when the agent is to end, whoever says so.
async fn told_to_end(stop: &CancellationToken, terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        () = stop.cancelled() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Loads the configuration anew and puts it in force, or keeps the old one.
async fn reload_with<L>(
    watching: &mut Watching,
    load: Arc<L>,
    status: &watch::Sender<ReloadStatus>,
) -> Result<(), String>
where
    L: Fn() -> Result<Config, String> + Send + Sync + 'static,
{
    let loaded = apart(move || load()).await.unwrap_or_else(|error| Err(error.to_string()));
    match loaded {
        Ok(config) => {
            watching.configure(config).await;
            status
                .send_replace(ReloadStatus { successful: true, success_at: watching.clock.wall() });
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

/// The samplers, and the configuration that they follow.
struct Watching {
    samplers: BTreeMap<Arc<str>, Sampler>,
    tasks: Vec<Arc<TaskSpec>>,
    epoch: u32,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
    traces: Traces,
}

struct Sampler {
    assignments: watch::Sender<Arc<Assignment>>,
    _task: AbortOnDropHandle<()>,
}

impl Watching {
    /// Puts `config` in force: first the engine learns of it, then the samplers, which keep what
    /// they can.
    async fn configure(&mut self, mut config: Config) {
        config.share(&self.tasks);
        self.tasks.clone_from(&config.tasks);
        self.epoch = self.epoch.wrapping_add(1);
        if self.inputs.send(Input::Config(Arc::new(config.watch_spec(self.epoch)))).await.is_err() {
            return; // The engine is gone: the agent is stopping.
        }
        self.assign(&config);
    }

    /// Gives each redis of `config` its sampler.
    fn assign(&mut self, config: &Config) {
        let mut old = std::mem::take(&mut self.samplers);
        for assignment in assignments(config, self.epoch) {
            let name = Arc::clone(&assignment.config.name);
            let assignment = Arc::new(assignment);
            let sampler = match old.remove(&name) {
                Some(sampler) => {
                    sampler.assignments.send_replace(assignment);
                    sampler
                }
                None => self.start(assignment),
            };
            self.samplers.insert(name, sampler);
        }
    }

    fn start(&self, assignment: Arc<Assignment>) -> Sampler {
        let (assignments, receiver) = watch::channel(assignment);
        let task = tokio::spawn(sampler::run(
            receiver,
            self.inputs.clone(),
            self.clock,
            self.traces.clone(),
        ));
        Sampler { assignments, _task: AbortOnDropHandle::new(task) }
    }
}

/// Which sampler has to do what.
fn assignments(config: &Config, epoch: u32) -> impl Iterator<Item = Assignment> {
    config.redises.iter().zip(0..).map(move |(redis, index)| {
        let redis_index = RedisIndex(index);
        let tasks = config.tasks.iter().zip(0..).filter(|(task, _)| task.redis == redis_index);
        let tasks = tasks.map(|(task, index)| (TaskIndex(index), Arc::clone(task))).collect();
        Assignment { epoch, redis: redis_index, config: redis.clone(), tasks }
    })
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
