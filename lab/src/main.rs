//! The lab's command line.

use std::process::ExitCode;

use clap::Parser;
use lockwatch_lab::stack::{self, WorkerArgs};

/// Trials of lockwatch with real parts.
#[derive(Debug, Parser)]
#[command(name = "lockwatch-lab")]
enum Line {
    /// A worker; the other commands start it
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match Line::parse() {
        Line::Worker(args) => stack::run_worker(args).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lockwatch-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
