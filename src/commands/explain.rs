//! The command `lockwatch explain`.

mod once;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, ValueHint};
use serde::Deserialize;

use super::ask::AgentArguments;
use super::source::ConfigSource;
use crate::api::Error;
use crate::exit::Exit;
use crate::http::client::{Answer, PATIENCE};
use crate::outputs::explanation::{Explanation, text};
use crate::paths;
use crate::text::identity::harmless;
use crate::text::nearest::which_task;
use crate::text::terminal;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExplainOptions {
    /// Which task [default: the only one]
    #[arg(value_name = "TASK", value_hint = ValueHint::Other)]
    pub task: Option<String>,
    /// How the agent is reached.
    #[command(flatten)]
    pub agent: AgentArguments,
    /// Ask no agent: read Redis once, with this configuration
    #[arg(long)]
    pub once: bool,
    /// What is configured, for a look without an agent.
    #[command(flatten)]
    pub source: ConfigSource,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Explains a task and prints it. The exit code is that of [`Exit::Unknown`] if there is no such
/// task, or if it cannot be read.
///
/// # Errors
/// Text for a person.
pub async fn run(options: ExplainOptions) -> anyhow::Result<ExitCode> {
    if options.once {
        return without_agent(&options).await;
    }
    if let Some(warning) = options.agent.access.warning() {
        eprintln!("warning: {warning}");
    }
    match ask(&options).await {
        Ok(answer) => by_agent(&options, &answer),
        Err(error) if is_configured(&options.source) => {
            eprintln!("lockwatch: {error:#}: reading Redis once instead");
            without_agent(&options).await
        }
        Err(error) => {
            eprintln!(
                "lockwatch: {error:#}; without an agent, name the configuration with --config.file"
            );
            Ok(Exit::Unknown.into())
        }
    }
}

/// Asks the agent about the task, or about its only one.
async fn ask(options: &ExplainOptions) -> anyhow::Result<Answer> {
    // Names as they are: they go into a path.
    #[derive(Deserialize)]
    struct Tasks {
        tasks: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let name = match &options.task {
        Some(name) => name.clone(),
        None => {
            let answer = options.agent.get(paths::TASKS, PATIENCE).await?;
            let Ok(Tasks { tasks }) = serde_json::from_slice(&answer.body) else {
                return Ok(answer);
            };
            let names: Vec<&str> = tasks.iter().map(|task| &*task.name).collect();
            let [only] = names[..] else { bail!(which_task(&names)) };
            only.to_owned()
        }
    };
    options.agent.get(&paths::EXPLANATION.of(&name), PATIENCE).await
}

/// Whether there is a configuration with which to read Redis.
fn is_configured(source: &ConfigSource) -> bool {
    match source {
        ConfigSource::File(path) => path.exists(),
        ConfigSource::SingleLock(_) => true,
    }
}

fn by_agent(options: &ExplainOptions, answer: &Answer) -> anyhow::Result<ExitCode> {
    if answer.status != 200 {
        let sentence = match serde_json::from_slice::<Error>(&answer.body) {
            Ok(refused) => refused.error.to_string(),
            Err(_) => {
                format!(
                    "the agent at {} answered with status {}",
                    options.agent.agent_url, answer.status
                )
            }
        };
        eprintln!("lockwatch: {}", harmless(&sentence));
        return Ok(Exit::Unknown.into());
    }
    let explanation: Explanation = serde_json::from_slice(&answer.body)
        .with_context(|| format!("what {} answered is no explanation", options.agent.agent_url))?;
    print(options, &explanation)?;
    Ok(ExitCode::SUCCESS)
}

async fn without_agent(options: &ExplainOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    let look = match once::look(&config, options.task.as_deref()).await {
        Ok(look) => look,
        Err(no_such_task) => {
            eprintln!("lockwatch: {no_such_task}");
            return Ok(Exit::Unknown.into());
        }
    };
    print(options, &look.explanation)?;
    Ok(if look.is_read { ExitCode::SUCCESS } else { Exit::Unknown.into() })
}

fn print(options: &ExplainOptions, explanation: &Explanation) -> anyhow::Result<()> {
    let shown = match options.json {
        true => serde_json::to_string(explanation)? + "\n",
        false => text(explanation),
    };
    terminal::print(shown).context("cannot write")?;
    Ok(())
}
