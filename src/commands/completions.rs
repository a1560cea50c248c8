//! `lockwatch completions`: what a shell sources to complete the commands.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::text::terminal;

/// Prints the completions of `grammar`.
///
/// # Errors
/// They cannot be printed.
pub fn run(shell: Shell, mut grammar: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut grammar, "lockwatch", &mut script);
    terminal::show(script)
}
