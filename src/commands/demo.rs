//! `lockwatch demo`: a private Redis, two guards that contend for one lock, the switches of three
//! users, and the agent that watches them. Everything runs on this machine as real processes, and
//! ends with the demo.

mod agent;
mod board;
mod names;
mod process;
mod scratch;
mod script;
mod server;
mod stage;
mod supervise;
mod web;

use std::path::PathBuf;

use anyhow::Context;

use crate::commands::stop::Stop;
pub use agent::{Agent, configuration, start_agent};
pub use board::{Board, EVERYBODY, Position};
pub use names::{HOSTS, LOCK, PROGRESS, TASK, say};
pub use process::WorkerProcess;
pub use scratch::Scratch;
pub use script::{ScriptArgs, run as run_script};
pub use server::PrivateRedis;
pub use stage::{LEASE, Stage};
pub use web::{Reach, WebArguments};

/// What `lockwatch demo` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// The redis-server program to start [default: the one on PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub redis_server: Option<PathBuf>,
    /// Where and how the agent serves.
    #[command(flatten)]
    pub web: WebArguments,
}

/// Runs the demo until SIGINT, SIGTERM or SIGHUP, and stops everything that it started.
///
/// # Errors
/// When a part cannot be started or ends by itself.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let program = std::env::current_exe()
        .context("cannot find the running program, which the workers need")?;
    let reach = Reach::new(&args.web)?;
    let mut stop = Stop::listen()?;
    let set_up = tokio::select! {
        // Dropping the unfinished set-up kills the parts that were already started.
        () = stop.told() => return Ok(()),
        set_up = Stage::set_up(program, args.redis_server.as_deref(), &reach) => set_up,
    };
    let mut stage = set_up?;
    stage.introduce();
    let outcome = tokio::select! {
        () = stop.told() => Ok(()),
        outcome = supervise::run(&mut stage) => outcome,
    };
    stage.tear_down().await;
    outcome
}
