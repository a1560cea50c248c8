//! The command `lockwatch guard`: runs a script under a lock while it is wanted.

mod beside;
mod drive;
mod fence;
mod last;
mod listen;
mod notify;
mod options;
mod plan;
mod rights;
mod script;
mod signals;
mod words;

use std::process::ExitCode;

use anyhow::Context as _;

use crate::exit::Exit;
use crate::keeper::say;
use crate::telemetry;
pub use fence::{FenceOptions, run as run_fence};
pub use options::GuardOptions;
use plan::Plan;
pub(super) use rights::{rights, words as rights_words};

/// Runs the guard until it is told to end, or until its script has ended for good. The exit code is
/// the script's own, or one of [`Exit`].
///
/// # Errors
/// When the guard cannot begin.
pub fn run(options: GuardOptions) -> anyhow::Result<ExitCode> {
    let _logging = telemetry::start(options.log).context("cannot start to log")?;
    let plan = match Plan::of(options) {
        Ok(plan) => plan,
        Err(message) => {
            say(format_args!("lockwatch: {message}"));
            return Ok(Exit::GuardUsage.into());
        }
    };
    // One thread is enough, and less memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let code = runtime.block_on(drive::run(plan));
    runtime.shutdown_background();
    code.map(ExitCode::from)
}
