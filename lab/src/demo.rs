//! The stories of the demo: what can happen to a task, told step by step and checked against what the
//! agent reports. `make demo ARGS=--story` plays one.

mod exposition;
mod narrator;
mod queue;
mod scene;
mod story;
mod turns;
mod zookeeper;

use std::path::PathBuf;

use lockwatch::commands::demo::{Reach, Stage, WebArguments};

use crate::stack::Program;
use narrator::Narrator;
use scene::Scene;

/// What to play.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// The story, of about 90 seconds: of a lock (start, renewals, crash, dead thread, switch-off,
    /// on again), of tasks that take turns, of a queue of delayed tasks, or of a lock in ZooKeeper,
    /// where that is installed
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_value = "lock", default_missing_value = "lock")]
    story: StoryKind,
    /// The redis-server program to start [default: the one on PATH]
    #[arg(long, value_name = "PROGRAM")]
    redis_server: Option<PathBuf>,
    /// Where and how the agent serves.
    #[command(flatten)]
    web: WebArguments,
    /// How many times faster than a reader the story goes on
    #[arg(long, hide = true, value_name = "TIMES", default_value = "1")]
    pace: u16,
}

/// What a story is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StoryKind {
    /// A task that a lock guards.
    Lock,
    /// Tasks that take turns.
    #[value(alias = "turn")]
    Turns,
    /// A queue of delayed tasks.
    Queue,
    /// A task that a lock in ZooKeeper guards.
    #[value(name = "zookeeper")]
    ZooKeeper,
}

/// Plays the story until it is over, or until `stop` is, and stops everything that it started.
///
/// # Errors
/// When a part cannot be started, or when the story does not go as expected.
pub async fn run<T>(args: DemoArgs, stop: impl Future<Output = T>) -> anyhow::Result<()> {
    let (program, reach) = (Program::Lockwatch.find()?, Reach::new(&args.web)?);
    let server = args.redis_server.as_deref();
    tokio::pin!(stop);
    let (task, configuration) = match args.story {
        StoryKind::Lock => {
            let set_up = tokio::select! {
                // Dropping the unfinished set-up kills the parts that were already started.
                _ = &mut stop => return Ok(()),
                set_up = Stage::set_up(program, server, &reach) => set_up,
            };
            let mut stage = set_up?;
            stage.introduce();
            let outcome = tokio::select! {
                _ = &mut stop => Ok(()),
                outcome = story::play(&mut stage, args.pace) => outcome,
            };
            stage.tear_down().await;
            return outcome;
        }
        StoryKind::ZooKeeper => {
            let set_up = tokio::select! {
                _ = &mut stop => return Ok(()),
                set_up = zookeeper::Scene::set_up(&program, &reach) => set_up,
            };
            let scene = set_up?;
            let narrator = Narrator::new(scene.agent.asked().clone(), zookeeper::TASK, args.pace);
            let outcome = tokio::select! {
                _ = &mut stop => Ok(()),
                outcome = zookeeper::play(&scene, &narrator) => outcome,
            };
            scene.tear_down().await;
            return outcome;
        }
        StoryKind::Turns => (turns::TASK, turns::CONFIGURATION),
        StoryKind::Queue => (queue::TASK, queue::CONFIGURATION),
    };
    let set_up = tokio::select! {
        _ = &mut stop => return Ok(()),
        set_up = Scene::set_up(&program, server, &reach, configuration) => set_up,
    };
    let mut scene = set_up?;
    let narrator = Narrator::new(scene.agent.asked().clone(), task, args.pace);
    let play = async {
        match args.story {
            StoryKind::Queue => queue::play(&mut scene, &narrator).await,
            _ => turns::play(&mut scene, &narrator).await,
        }
    };
    let outcome = tokio::select! {
        _ = &mut stop => Ok(()),
        outcome = play => outcome,
    };
    scene.tear_down().await;
    outcome
}
