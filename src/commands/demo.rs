//! `lockwatch demo`: a private Redis, two guards that contend for one lock, the switches of three
//! users, and the agent that watches them. Everything runs on this machine as real processes, and
//! ends with the demo.

mod agent;
mod board;
mod look;
mod narrator;
mod process;
mod queue;
mod scene;
mod scratch;
mod script;
mod server;
mod stage;
mod story;
mod supervise;
mod turns;
mod web;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::commands::stop::Stop;
pub use agent::configuration;
pub use board::{Board, Position};
use narrator::Narrator;
pub use process::WorkerProcess;
use scene::Scene;
pub use script::{ScriptArgs, run as run_script};
pub use server::PrivateRedis;
use stage::{LEASE, Stage};
use web::Reach;
pub use web::WebArguments;

/// The task's name.
const TASK: &str = "outbound";
/// The key of the lock that guards the task.
const LOCK: &str = "outbound:lock";
/// The key of the hash with one switch per user.
const USERS: &str = "outbound:users";
/// The key and field to which the script writes its progress.
const PROGRESS: (&str, &str) = ("outbound:stats", "last_run");
/// The key of the workers' claims that they run the task: instance id to an increasing number.
const CLAIMS: &str = "lockwatch:claims:outbound";
/// The key that maps instance ids to host names.
const HOSTS: &str = "lockwatch:hosts";
/// The key with the name of the worker whose script is to die silently.
const HANG: &str = "demo:hang";

/// What `lockwatch demo` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Play a story in about 90 seconds and exit: of a lock (start, renewals, crash, dead thread,
    /// switch-off, on again), of tasks that take turns, or of a queue of delayed tasks
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "lock")]
    pub story: Option<StoryKind>,
    /// The redis-server program to start [default: the one on PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub redis_server: Option<PathBuf>,
    /// Where and how the agent serves.
    #[command(flatten)]
    pub web: WebArguments,
    /// How many times faster than a reader the story goes on
    #[arg(long, hide = true, value_name = "TIMES", default_value = "1")]
    pub pace: u16,
}

/// What a story is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoryKind {
    /// A task that a lock guards.
    Lock,
    /// Tasks that take turns.
    #[value(alias = "turn")]
    Turns,
    /// A queue of delayed tasks.
    Queue,
}

/// Runs the demo until it is over, or until SIGINT, SIGTERM or SIGHUP, and stops everything that it
/// started.
///
/// # Errors
/// When a part cannot be started or ends by itself, or when the story does not go as expected.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let program = std::env::current_exe()
        .context("cannot find the running program, which the workers need")?;
    let reach = Reach::new(&args.web)?;
    let mut stop = Stop::listen()?;
    let of_another_kind = match args.story {
        Some(StoryKind::Turns) => Some((turns::TASK, turns::CONFIGURATION)),
        Some(StoryKind::Queue) => Some((queue::TASK, queue::CONFIGURATION)),
        Some(StoryKind::Lock) | None => None,
    };
    if let Some((task, configuration)) = of_another_kind {
        return tell(&args, &reach, &program, (task, configuration), &mut stop).await;
    }
    let set_up = tokio::select! {
        // Dropping the unfinished set-up kills the parts that were already started.
        () = stop.requested() => return Ok(()),
        set_up = Stage::set_up(program, args.redis_server.as_deref(), &reach) => set_up,
    };
    let mut stage = set_up?;
    stage.introduce();
    let outcome = tokio::select! {
        () = stop.requested() => Ok(()),
        outcome = play(&mut stage, &args) => outcome,
    };
    stage.tear_down().await;
    outcome
}

async fn play(stage: &mut Stage, args: &DemoArgs) -> anyhow::Result<()> {
    match args.story {
        Some(_) => story::play(stage, args.pace).await,
        None => supervise::run(stage).await,
    }
}

/// Tells the story of a task of another kind than a lock.
async fn tell(
    args: &DemoArgs,
    reach: &Reach,
    program: &Path,
    (task, configuration): (&'static str, &'static str),
    stop: &mut Stop,
) -> anyhow::Result<()> {
    let server = args.redis_server.as_deref();
    let set_up = tokio::select! {
        () = stop.requested() => return Ok(()),
        set_up = Scene::set_up(program, server, reach, configuration) => set_up,
    };
    let mut scene = set_up?;
    let narrator = Narrator::new(scene.agent.asked().clone(), task, args.pace);
    let play = async {
        match args.story {
            Some(StoryKind::Turns) => turns::play(&mut scene, &narrator).await,
            _ => queue::play(&mut scene, &narrator).await,
        }
    };
    let outcome = tokio::select! {
        () = stop.requested() => Ok(()),
        outcome = play => outcome,
    };
    scene.tear_down().await;
    outcome
}

/// Prints a line. A closed pipe is ignored, because a panic would leave processes behind.
fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
