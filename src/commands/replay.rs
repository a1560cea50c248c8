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

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use lockwatch_judge::input::{Input, Outcome};
use lockwatch_judge::time::{AgentWall, Mono};
use serde_json::json;

use crate::exit::Exit;
use crate::record::reader::{self, Entry, Run};
use crate::text::identity::escape;
use changes::Change;
use chronicle::{Chronicle, Story};
use pager::When;

/// Maximum number of holes that are reported.
const HOLES_MAX: usize = 1_000;

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

/// The results of replaying one run.
struct Section {
    run: String,
    lockwatch: String,
    files: Vec<String>,
    begins_in_the_middle: bool,
    from: Option<AgentWall>,
    to: Option<AgentWall>,
    readings: u64,
    torn: u64,
    holes: Vec<Hole>,
    as_configured: Chronicle,
    /// The pass with the changed thresholds.
    changed: Option<Chronicle>,
    set: Vec<String>,
}

/// A period without recorded inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    from: AgentWall,
    to: AgentWall,
    /// Number of missing inputs; `None`: unknown.
    inputs: Option<u64>,
}

impl Section {
    fn play(run: &Run, changes: &[Change]) -> anyhow::Result<Section> {
        let mut section = Section {
            run: run.id.clone(),
            lockwatch: run.lockwatch.clone(),
            files: run.files().map(|path| path.display().to_string()).collect(),
            begins_in_the_middle: run.begins_in_the_middle(),
            from: None,
            to: None,
            readings: 0,
            torn: 0,
            holes: Vec::new(),
            as_configured: Chronicle::new(),
            changed: (!changes.is_empty()).then(Chronicle::new),
            set: changes.iter().map(|change| change.text.clone()).collect(),
        };
        let mut newest = Mono(0);
        run.each(|instant, entry| {
            // The state's instants must not go back, whatever a file says.
            newest = newest.max(instant.at);
            let when = When { at: newest, wall: instant.wall(newest) };
            section.from.get_or_insert(when.wall);
            section.to = Some(when.wall);
            match entry {
                Entry::Input(input) | Entry::Context(input) => section.step(when, input, changes),
                Entry::Missing { inputs, since } if section.holes.len() < HOLES_MAX => {
                    section.holes.push(Hole { from: instant.wall(since), to: when.wall, inputs });
                }
                Entry::Missing { .. } => {}
                Entry::Torn => section.torn += 1,
            }
            Ok(())
        })?;
        Ok(section)
    }

    fn step(&mut self, when: When, input: Input, changes: &[Change]) {
        self.readings += readings(&input);
        if let Some(changed) = &mut self.changed {
            let input = match &input {
                Input::Config(config) => Input::Config(Arc::new(changes::apply(changes, config))),
                other => other.clone(),
            };
            changed.step(when, input);
        }
        self.as_configured.step(when, input);
    }

    /// Pairs the stories of both passes for each task and Redis.
    fn pairs<'a>(
        &'a self,
        changed: &'a Chronicle,
    ) -> impl Iterator<Item = (String, &'a Story, &'a Story)> {
        static NOTHING: std::sync::LazyLock<Story> = std::sync::LazyLock::new(Story::default);
        let sides = [
            ("store", &self.as_configured.redises, &changed.redises),
            ("task", &self.as_configured.tasks, &changed.tasks),
        ];
        sides.into_iter().flat_map(|(kind, was, would_be)| {
            let names: BTreeSet<&Arc<str>> = was.keys().chain(would_be.keys()).collect();
            names.into_iter().map(move |name| {
                let story = |stories: &'a std::collections::BTreeMap<Arc<str>, Story>| {
                    stories.get(name).unwrap_or(&NOTHING)
                };
                (format!("{kind} {}", escape(name.as_bytes())), story(was), story(would_be))
            })
        })
    }
}

fn readings(input: &Input) -> u64 {
    let Input::Sample(sample) = input else { return 0 };
    match &sample.outcome {
        Outcome::Read { readings, .. } => readings.len() as u64,
        Outcome::Parts { .. } | Outcome::Failed { .. } => 0,
    }
}
