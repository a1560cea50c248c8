//! `lockwatch replay`: runs a recording through the state again, as configured and optionally with
//! other thresholds.
//!
//! The replay uses the agent's own state and feeds it the same inputs at the same instants, so both
//! reach the same verdicts.

mod changes;
mod chronicle;
mod difference;
mod pager;
mod report;
mod section;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use serde_json::json;

use crate::exit::Exit;
use crate::record::reader::{self, Run};
use changes::Change;
use section::Section;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ReplayOptions {
    /// Recordings, or folders of them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// What would have been with another threshold: outbound.grace=40s, or *.grace=40s for all
    /// tasks
    #[arg(long, value_name = "TASK.FIELD=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command and returns the exit code of the program.
///
/// # Errors
/// Any failure; the error text is for display.
pub async fn run(options: ReplayOptions) -> anyhow::Result<ExitCode> {
    tokio::task::spawn_blocking(move || write(&options, &mut io::stdout().lock()))
        .await
        .context("cannot replay")?
}

/// Like [`run`], but writes the report to `out`.
///
/// # Errors
/// Any failure; the error text is for display.
pub fn write(options: &ReplayOptions, out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    let changes: Result<Vec<Change>, String> =
        options.set.iter().map(|text| changes::parse(text)).collect();
    let changes = match changes {
        Ok(changes) => changes,
        Err(mistake) => return Ok(usage(&mistake)),
    };
    let (runs, empty) = reader::find(&options.files)?;
    for path in empty {
        eprintln!("lockwatch: {} is empty: nothing was recorded in it", path.display());
    }
    if !changes.is_empty() {
        let configs = runs.iter().map(Run::configs).collect::<anyhow::Result<Vec<_>>>()?.concat();
        if let Err(mistake) = changes::check(&changes, &configs) {
            return Ok(usage(&mistake));
        }
    }
    let mut sections = Vec::new();
    for (position, run) in runs.iter().enumerate() {
        let section = Section::play(run, &changes)?;
        match options.json {
            true => sections.push(report::json(&section)),
            false => {
                let between = if position > 0 { "\n\n" } else { "" };
                put(out, &format!("{between}{}", report::text(&section)))?;
            }
        }
    }
    if options.json {
        put(out, &format!("{:#}\n", json!({"runs": sections})))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn usage(mistake: &str) -> ExitCode {
    eprintln!("lockwatch: {mistake}");
    Exit::Usage.into()
}

/// Writes text. A closed pipe is not an error: its reader has read enough.
fn put(out: &mut impl io::Write, text: &str) -> anyhow::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write")
        }
        _ => Ok(()),
    }
}
