//! The HTML pages: all tasks, and one task. All markup is rendered here: the script only inserts
//! rendered parts.

mod drawing;
mod facts;
#[cfg(test)]
pub(crate) mod fixture;
pub(super) mod html;
mod list;
mod moving;
pub(super) mod pulse;
pub(crate) mod query;
pub(super) mod row;
mod runbooks;
mod settings;
mod shell;
pub(super) mod stores;
mod task;
mod timeline;
mod words;

use std::sync::Arc;

use crate::outputs::history::Kept;
use crate::published::Published;
use crate::text::identity::escape;
use query::{ListQuery, TaskQuery};
pub(crate) use runbooks::{runbook, runbooks};
use shell::Shell;
pub(crate) use shell::{Around, drill_of};

/// The style sheet.
pub(crate) const STYLE: &str = include_str!("page/style.css");
/// The icon that browsers show beside the title.
pub(crate) const ICON: &str = include_str!("page/icon.svg");
/// The script of the pages.
pub(crate) const SCRIPT: &str = include_str!("page/app.js");
/// Maximum number of events that a timeline is derived from.
pub(crate) const EVENTS_MAX: usize = 1_000;

/// The page of all tasks in pieces, so that a long one is never in memory as a whole.
pub(crate) fn of_all(
    published: Arc<Published>,
    query: &ListQuery,
    around: Around<'_>,
) -> impl Iterator<Item = String> + Send + use<> {
    list::pieces(published, query, around)
}

/// The page of one task, or only its contents. `events`: those of the task and of its store,
/// oldest first.
pub(crate) fn of_task(
    published: &Published,
    name: &str,
    events: &[Arc<Kept>],
    query: TaskQuery,
    around: Around<'_>,
) -> String {
    let main = match published.snapshot.tasks.find(name) {
        Some(view) => task::main(published, view, events, query.window_ms, around.switcher),
        None => task::missing(name),
    };
    if query.fragment {
        return main;
    }
    let title = format!("{} · lockwatch", escape(name.as_bytes()));
    let shell = Shell { published, around, task: Some(name), title: &title, main: "task" };
    [shell.before(), main, shell.after()].concat()
}
