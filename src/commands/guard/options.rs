//! What `guard` takes.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueHint};
use lockwatch_guard::Restart;

use crate::commands::source::ConfigSource;
use crate::config::RESTARTS;
use crate::telemetry::LogOptions;
use crate::text::durations::parse_duration_ms;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct GuardOptions {
    /// Which task of the configuration [default: the only one]
    #[arg(value_name = "TASK", value_hint = ValueHint::Other, conflicts_with = "redis")]
    pub task: Option<String>,
    /// Where the task is configured.
    #[command(flatten)]
    pub source: ConfigSource,
    /// Full lifetime of a hold [default: the task's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub lease: Option<Duration>,
    /// How long the script may take to end before it is killed [default: the task's, or 8s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub stop_after: Option<Duration>,
    /// Give up, with code 75, if the lock is not acquired within this time; 0s: try once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,
    /// The code to give up with instead of 75: 0 where another server's run is as good
    #[arg(long, value_name = "CODE", requires = "wait")]
    pub busy_code: Option<u8>,
    /// Keep the lock for this time after the script has started, although its work is done: for
    /// cron on several servers
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub at_least: Option<Duration>,
    /// The script reads the standard input [default: its input is empty]
    #[arg(long)]
    pub stdin: bool,
    /// When to start the script again: always, on_failure, never [default: the task's, or always;
    /// without a file: never]
    #[arg(long, value_name = "WHEN", value_parser = restart)]
    pub restart: Option<Restart>,
    /// After so many failures in a row let another server have the lock
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub give_up_after: Option<u32>,
    /// What this server is called, for the agent [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// End when standard input does: the demo's guards end with it.
    #[arg(long, hide = true, conflicts_with = "stdin")]
    pub until_input_ends: bool,
    /// How to log.
    #[command(flatten)]
    pub log: LogOptions,
    /// The script and its arguments, behind `--`; no shell is involved
    #[arg(value_name = "COMMAND", last = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration_ms(text).map(Duration::from_millis)
}

fn restart(text: &str) -> Result<Restart, String> {
    let named = RESTARTS.iter().find(|(name, _)| *name == text).map(|(_, restart)| *restart);
    named.ok_or_else(|| format!("use one of {}", RESTARTS.map(|(name, _)| name).join(", ")))
}
