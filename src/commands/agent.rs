//! The agent: what it takes, and what it is put together from.

mod drilling;
mod first;
mod options;
mod switching;
pub mod wiring;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::commands::check_config;
use crate::commands::source::ConfigSource;
use crate::config::{Config, ConfigErrors};
use crate::engine::Observers;
use crate::http::{self, HttpContext, Limits};
use crate::outputs::events::EventLog;
use crate::outputs::history::History;
use crate::published::{Drilling, Switches};
use crate::record::Recorder;
use crate::telemetry;
use crate::want;
pub(crate) use options::RunArguments;
pub use options::{DEFAULT_LISTEN, RunOptions, WebOptions};
use switching::Switching;

/// How many requests to flip a switch may wait.
const SWITCHES: usize = 16;
/// How many requests about drills may wait.
const DRILLS: usize = 16;

/// Runs the agent until a signal ends it.
///
/// # Errors
/// Why it cannot start.
pub async fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    let config = load(&options.source)?;
    let web = options.web.as_ref().map(WebOptions::load).transpose()?;
    let has_login = web.as_ref().is_some_and(|web| !web.door().config.users.is_empty());
    let is_local = check_config::only_this_machine(&options.listen);
    config.check_login(&options.source.name(), has_login, is_local)?;
    let listen = |address: &SocketAddr| {
        http::listen(*address).with_context(|| format!("cannot listen on {address}"))
    };
    let listeners = options.listen.iter().map(listen).collect::<anyhow::Result<Vec<_>>>()?;
    let bound = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string()));
    let bound = bound.collect::<anyhow::Result<Vec<String>>>()?.join(",");
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %bound, "lockwatch started");
    let RunOptions { source, enable_lifecycle, frame_ancestors, record, .. } = options;
    let recorder = record.as_ref().map(Recorder::start).transpose()?;
    let history = History::default();
    let mut observers: Observers = vec![Box::new(EventLog::default()), Box::new(history.clone())];
    if let Some(recorder) = recorder {
        observers.push(Box::new(recorder));
    }
    let parts = wiring::Parts {
        config,
        load: move || {
            let config = load(&source).map_err(|mistakes| mistakes.to_string())?;
            let checked = config.check_login(&source.name(), has_login, is_local);
            checked.map(|()| config).map_err(|mistakes| mistakes.to_string())
        },
        observers,
        http: move |outlets: wiring::Outlets, stop: CancellationToken| {
            let (requests, asked) = mpsc::channel(SWITCHES);
            let (config, clock) = (outlets.config, outlets.clock);
            let tasks = watch::Sender::new(Arc::new(want::on_page(&config.borrow())));
            let switches = Switches { tasks: tasks.subscribe(), requests };
            let (drills, drilled) = mpsc::channel(DRILLS);
            let drills = Drilling { requests: drills, needs_login: has_login || !is_local };
            let drilling = drilling::Parts {
                config: config.clone(),
                clock,
                history: history.clone(),
                snapshots: outlets.snapshots.clone(),
                shown: outlets.drill,
            };
            let switching = Switching { config: config.clone(), clock, history: history.clone() };
            let context = HttpContext {
                snapshots: outlets.snapshots,
                reload_status: outlets.reload_status,
                log_lines_lost: telemetry::lines_lost,
                reload: outlets.reload,
                enable_lifecycle,
                history,
                traces: outlets.traces,
                frame_ancestors: frame_ancestors.into(),
                web: web.clone(),
                switches: Some(switches),
                drills: Some(drills),
                limits: Limits::of_process(),
            };
            async move {
                let following = web.map(|web| AbortOnDropHandle::new(tokio::spawn(web.follow())));
                let switching = AbortOnDropHandle::new(tokio::spawn(switching.serve(asked)));
                let drilling = tokio::spawn(drilling::serve(drilling, drilled, stop.clone()));
                let drilling = AbortOnDropHandle::new(drilling);
                let renewing = AbortOnDropHandle::new(tokio::spawn(renew(config, tasks)));
                http::serve(listeners, context, stop).await;
                drop((following, switching, renewing));
                let _it_is_reported = drilling.await;
            }
        },
    };
    wiring::run(parts, CancellationToken::new()).await.context("cannot receive signals")?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps the names of the tasks that have switches on the page up to date.
async fn renew(
    mut config: watch::Receiver<Arc<Config>>,
    tasks: watch::Sender<Arc<BTreeSet<Arc<str>>>>,
) {
    while config.changed().await.is_ok() {
        let names = want::on_page(&config.borrow_and_update());
        tasks.send_replace(Arc::new(names));
    }
}

/// The configuration as it shall be put in force, at the start and by a reload; what is wrong
/// around it is logged.
fn load(source: &ConfigSource) -> Result<Config, ConfigErrors> {
    let config = source.load()?;
    for warning in check_config::warnings(&config) {
        tracing::warn!("{warning}");
    }
    Ok(config)
}
