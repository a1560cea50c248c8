//! The command `lockwatch want`: one user's switch of a task.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum, ValueHint};

use crate::config::Config;
use crate::exit::Exit;
use crate::text::terminal;
use crate::want::{Asked, Trouble, Wish, want};

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct WantOptions {
    /// Which task
    #[arg(value_name = "TASK", value_hint = ValueHint::Other)]
    pub task: String,
    /// Switch it on or off for the user, or only show who wants it
    #[arg(value_name = "ACTION", value_enum)]
    pub action: Action,
    /// Whose switch; `status` shows all users without it
    #[arg(long, value_name = "USER", value_hint = ValueHint::Other)]
    pub user: Option<OsString>,
    /// The configuration
    #[arg(long = "config.file", value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "lockwatch.yml")]
    pub file: PathBuf,
    /// Print text for people, or JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub output: Output,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// The user wants the task
    On,
    /// The user does not want it
    Off,
    /// Show who wants it, and write nothing
    Status,
}

/// How to print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sentences
    Text,
    /// One line of JSON
    Json,
}

/// Runs the command, and returns its exit code.
///
/// # Errors
/// What is wrong with the configuration, or with the output.
pub async fn run(options: WantOptions) -> anyhow::Result<ExitCode> {
    let config = Config::load(&options.file)?;
    let user = options.user.map(OsString::into_vec);
    let asked = Asked {
        task: &options.task,
        user: user.as_deref(),
        wish: match options.action {
            Action::On => Some(Wish::On),
            Action::Off => Some(Wish::Off),
            Action::Status => None,
        },
    };
    match want(&config, asked).await {
        Ok(outcome) => terminal::show(match options.output {
            Output::Text => outcome.text(),
            Output::Json => outcome.json(),
        }),
        Err(trouble) => {
            eprintln!("lockwatch: {trouble}");
            let exit = match trouble {
                Trouble::Usage(_) => Exit::Usage,
                Trouble::Refused(_) => Exit::Failure,
                Trouble::Unreachable(_) => Exit::Unavailable,
            };
            Ok(exit.into())
        }
    }
}
