//! The command `lockwatch fence`: whether a script may still write under its token.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueHint};

use super::plan::store_of;
use crate::commands::source::ConfigSource;
use crate::exit::Exit;
use crate::hold::{Client, Holder};
use crate::keeper::say;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct FenceOptions {
    /// Which task of the configuration
    #[arg(value_name = "TASK", value_hint = ValueHint::Other, conflicts_with = "redis")]
    pub task: Option<String>,
    /// Where the task is configured.
    #[command(flatten)]
    pub source: ConfigSource,
    /// The token that the script got [default: that of the environment, LOCKWATCH_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<u64>,
    /// The holder that the script got [default: that of the environment, LOCKWATCH_HOLDER]
    #[arg(long, value_name = "HOLDER")]
    pub holder: Option<String>,
}

/// Succeeds only if the holder has the lock and the token is the newest one.
///
/// # Errors
/// None; what is wrong is printed.
pub async fn run(options: FenceOptions) -> anyhow::Result<ExitCode> {
    match check(options).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err((exit, message)) => {
            say(format_args!("lockwatch: {message}"));
            Ok(exit.into())
        }
    }
}

async fn check(options: FenceOptions) -> Result<(), (Exit, String)> {
    let of_environment = |name| std::env::var(name).ok();
    let usage = |message: String| (Exit::GuardUsage, message);
    let token = match options.token {
        Some(token) => token,
        None => of_environment("LOCKWATCH_TOKEN")
            .and_then(|token| token.parse().ok())
            .context("no token: name it with --token, or run this under `lockwatch guard`")
            .map_err(|error| usage(error.to_string()))?,
    };
    let holder = options
        .holder
        .or_else(|| of_environment("LOCKWATCH_HOLDER"))
        .and_then(|field| Holder::of_field(&field))
        .context("no holder: name it with --holder, or run this under `lockwatch guard`")
        .map_err(|error| usage(error.to_string()))?;
    let (spec, store) = store_of(&options.source, options.task.as_deref()).map_err(usage)?;
    let mut client = Client::new(store, spec.kind.key().clone(), holder, 0, false);
    let (is_held, newest) =
        client.fence().await.map_err(|trouble| (Exit::Unavailable, trouble.to_string()))?;
    if !is_held {
        return Err((Exit::Lost, "this holder does not have the lock any more".to_owned()));
    }
    if newest != token {
        return Err((Exit::Lost, format!("the newest token is {newest}, not {token}")));
    }
    Ok(())
}
