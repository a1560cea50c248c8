//! The runs of a task's script, as guards state them, in words.

use lockwatch_judge::snapshot::{Run, Runs};
use lockwatch_judge::time::ServerTime;

use super::describe;
use crate::api::{self, At, EndedRun, PresentRun};
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
    describe::runs(&written(runs))
}

/// The same for programs.
pub(super) fn written(runs: &Runs) -> api::Runs {
    let at = |at: ServerTime| At(Some(at.ms()));
    let ended = |run: &Run| EndedRun {
        host: escape(&run.host).into(),
        from: at(run.end.from),
        to: at(run.end.to),
        exit_code: exit_code(run),
        asked: run.end.asked,
    };
    let present = runs.present.iter();
    api::Runs {
        ended: runs.ended.iter().map(ended).collect(),
        present: present
            .map(|(_, host, from)| PresentRun { host: escape(host).into(), from: at(*from) })
            .collect(),
        failing: runs.fails,
        unreadable: runs.unreadable,
    }
}
