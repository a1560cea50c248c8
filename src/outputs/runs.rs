//! The runs of a task's script, as guards state them, in words.

use lockwatch_judge::snapshot::{Run, Runs};

use super::{describe, json};
use crate::text::identity::escape;

/// Why a script counts as failing: it says nothing that grows with time.
pub(super) fn failing(runs: &Runs) -> Option<String> {
    let newest = runs.ended.last()?;
    let host = escape(&newest.host);
    let how = match exit_code(newest) {
        Some(code) => format!("with exit code {code} on {host}"),
        None => format!("on {host}, killed together with its guard: no exit code stated"),
    };
    Some(format!(
        "Its script fails: the three newest runs ended with an error, the last one {how}."
    ))
}

/// The exit code, if one was stated.
pub(super) fn exit_code(run: &Run) -> Option<u8> {
    run.is_stated.then_some(run.end.code)
}

/// How the newest runs ended, oldest first, and what runs now; empty without any.
pub(super) fn newest(runs: &Runs) -> String {
    describe::runs(&json::runs(runs))
}
