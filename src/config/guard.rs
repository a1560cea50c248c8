//! The block `guard` of a task: how `lockwatch guard` runs its script.

use std::path::{Path, PathBuf};

use lockwatch_guard::{Restart, Terms};
use lockwatch_judge::limit::Limit;
use lockwatch_judge::spec::{ProgressSource, ProgressSpec};
use serde_yaml::Value;

use super::block::{Block, choice};
use super::login::{self, Login};
use super::mistake::Reported;
use super::schema::GUARD;
use super::threshold;
use super::values::{count, duration_ms, kind, text};

/// Most failures in a row that may be configured.
const FAILURES_MAX: usize = 1_000;

/// How a guard runs a task's script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardConfig {
    /// Durations, and when to start again.
    pub terms: Terms,
    /// Credentials of the guard; `None`: those of the store.
    pub login: Option<Login>,
    /// What the guard writes as the task's progress.
    pub progress: Option<Heartbeat>,
}

/// What a guard takes for progress of its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// That it runs.
    Runs,
    /// That it touched this file.
    Touches(PathBuf),
}

/// Reads the block of a task with this lease and progress. `dir` is the base of relative paths.
pub(super) fn read(
    task: &Block<'_>,
    lease_ms: Option<u64>,
    progress: Option<&ProgressSpec>,
    dir: &Path,
) -> Result<Option<GuardConfig>, Reported> {
    let Some(block) = task.child("guard", &GUARD)? else { return Ok(None) };
    let lease_ms = threshold::or(Limit::Lease, &block, lease_ms.unwrap_or(Terms::LEASE_MS));
    let stop_after_ms = block.or("stop_after", Terms::STOP_AFTER_MS, duration_ms(0));
    let backoff_ms = block.or("backoff", Terms::BACKOFF_MS.0, duration_ms(1));
    let longest_ms = block.or("backoff_max", Terms::BACKOFF_MS.1, duration_ms(1));
    let give_up_after = block.optional("give_up_after", |value| count(value, FAILURES_MAX));
    let restart = block.or("restart", Restart::Always, restart);
    let heartbeat = block.optional("progress", |value| heartbeat(value, dir));
    let login = login::read(&block, dir)?;
    let heartbeat = heartbeat?;
    let can_be_written = progress.is_some_and(|spec| {
        matches!(spec.source, ProgressSource::HashField { .. } | ProgressSource::Key(_))
    });
    if heartbeat.is_some() && !can_be_written {
        let message = "has no place to be written to; configure the task's own `progress` with \
                       `hash` or `key`";
        return Err(block.report("progress", message));
    }
    let (backoff_ms, longest_ms) = (backoff_ms?, longest_ms?);
    let terms = Terms {
        lease_ms: lease_ms?,
        stop_after_ms: stop_after_ms?,
        backoff_ms: (backoff_ms, longest_ms),
        give_up_after: give_up_after?.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        restart: restart?,
        wait_ms: None,
        at_least_ms: 0,
        shown_ms: 0,
    };
    if backoff_ms > longest_ms {
        return Err(block.report("backoff", "is longer than `backoff_max`; make it shorter"));
    }
    // What a round trip takes is known when the guard runs.
    if let Err(too_short) = terms.check(0) {
        return Err(block.report("lease", too_short.to_string()));
    }
    let login = (login != Login::default()).then_some(login);
    Ok(Some(GuardConfig { terms, login, progress: heartbeat }))
}

/// The names of [`Restart`].
pub const RESTARTS: [(&str, Restart); 3] =
    [("always", Restart::Always), ("on_failure", Restart::OnFailure), ("never", Restart::Never)];

fn restart(value: &Value) -> Result<Restart, String> {
    let name = |restart: Restart| {
        let named = RESTARTS.iter().find(|(_, other)| *other == restart);
        named.map_or("", |(name, _)| *name)
    };
    choice(value, "restart", &RESTARTS.map(|(_, restart)| restart), name)
}

fn heartbeat(value: &Value, dir: &Path) -> Result<Heartbeat, String> {
    const SHAPE: &str = "write `heartbeat`, or `{file: …}` with a file that the script touches";
    match value {
        Value::String(word) if word == "heartbeat" => Ok(Heartbeat::Runs),
        Value::Mapping(map) if map.len() == 1 => {
            let path = map.get("file").ok_or(format!("has no `file`; {SHAPE}"))?;
            let path = text(path)?;
            if path.is_empty() || path.contains('\0') {
                return Err(format!("has a `file` that is no path; {SHAPE}"));
            }
            Ok(Heartbeat::Touches(dir.join(path)))
        }
        Value::String(_) | Value::Mapping(_) => Err(format!("is neither; {SHAPE}")),
        other => Err(format!("is {}; {SHAPE}", kind(other))),
    }
}
