//! The runs of a task's script, as guards state them, in words.

use lockwatch_judge::reading::Ended;
use lockwatch_judge::snapshot::Runs;

use crate::text::identity::escape;
use crate::text::instants::seconds;

/// Why a script counts as failing: it says nothing that grows with time.
pub(super) fn failing(runs: &Runs) -> Option<String> {
    let newest = runs.ended.last()?;
    Some(format!(
        "Its script fails: the three newest runs ended with an error, the last one with exit code \
         {} on {}.",
        newest.end.code,
        escape(&newest.host)
    ))
}

/// How the newest runs ended, oldest first, and what runs now; empty without any.
pub(super) fn newest(runs: &Runs) -> String {
    let ended = runs.ended.iter().map(|run| {
        let Ended { code, asked, .. } = run.end;
        let by = if asked { ", ended by its guard" } else { "" };
        let lasted = seconds(run.end.lasted_ms());
        format!("exit code {code} after {lasted} s on {}{by}", escape(&run.host))
    });
    let present = runs.present.iter().map(|(_, host, _)| format!("runs on {}", escape(host)));
    let unreadable = (runs.unreadable > 0)
        .then(|| format!("{} fields of the claims cannot be read as runs", runs.unreadable));
    ended.chain(present).chain(unreadable).collect::<Vec<_>>().join("; ")
}
