//! The runs of a task's script, as guards state them, in words.

use lockwatch_judge::snapshot::{Run, Runs};

use crate::text::identity::escape;
use crate::text::instants::seconds;

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
    let ended = runs.ended.iter().map(|run| {
        let by = if run.end.asked { ", ended by its guard" } else { "" };
        let (lasted, host) = (seconds(run.end.lasted_ms()), escape(&run.host));
        match exit_code(run) {
            Some(code) => format!("exit code {code} after {lasted} s on {host}{by}"),
            None => format!(
                "killed together with its guard (no exit code stated) within {lasted} s on {host}"
            ),
        }
    });
    let present = runs.present.iter().map(|(_, host, _)| format!("runs on {}", escape(host)));
    let unreadable = (runs.unreadable > 0)
        .then(|| format!("{} fields of the claims cannot be read as runs", runs.unreadable));
    ended.chain(present).chain(unreadable).collect::<Vec<_>>().join("; ")
}
