//! The common parts of both pages: head, header and footer.

use std::fmt::Write as _;

use super::html::{Exact, Text};
use crate::outputs::{describe, json};
use crate::paths;
use crate::published::Published;
use crate::text::instants::rfc3339;

/// What is said of the drill that runs.
pub(crate) fn drill_of(published: &Published) -> Option<String> {
    published.drill.as_deref().map(|drill| describe::drill(&json::drill(drill)))
}

/// The agent around a page.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// Identifies the process that answers.
    pub(crate) boot: &'a str,
    /// Why the page must not be taken as current, if so.
    pub(crate) stopped: Option<&'a str>,
    /// The user that may flip the own switch of the task that is shown.
    pub(crate) switcher: Option<&'a str>,
}

/// A page around its contents.
pub(super) struct Shell<'a> {
    pub(super) published: &'a Published,
    pub(super) around: Around<'a>,
    /// The task of the page.
    pub(super) task: Option<&'a str>,
    /// Its title, escaped for terminals but not for HTML.
    pub(super) title: &'a str,
    /// The id of its `<main>`.
    pub(super) main: &'static str,
}

impl Shell<'_> {
    /// Everything before `<main>`.
    pub(super) fn before(&self) -> String {
        let Published { snapshot, wall, .. } = self.published;
        let task =
            self.task.map(|task| format!(" data-task=\"{}\"", Exact(task))).unwrap_or_default();
        let mut html = format!(
            "<!doctype html><html lang=\"en\" data-at=\"{}\" data-sequence=\"{}\" \
             data-boot=\"{}\" data-live=\"{}\"{task}>",
            wall.0,
            snapshot.sequence,
            Text(self.around.boot),
            paths::LIVE,
        );
        // Writing to a `String` cannot fail.
        let _ = write!(html, "<head><meta charset=\"utf-8\"><title>{}</title>", Text(self.title));
        let _ = write!(
            html,
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"stylesheet\" \
             href=\"{}\">\
             <link rel=\"icon\" type=\"image/svg+xml\" href=\"{}\">\
             <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
             <script src=\"{}\" defer></script></head><body>",
            paths::STYLE,
            paths::ICON,
            paths::SCRIPT,
        );
        let _ = write!(html, "<a class=\"skip\" href=\"#{}\">Skip to the contents</a>", self.main);
        let _ = write!(
            html,
            "<header><p class=\"brand\"><a href=\"{}\">lockwatch</a> <small>{}</small></p>",
            paths::LANDING,
            env!("CARGO_PKG_VERSION")
        );
        let _ = write!(
            html,
            "<nav aria-label=\"Site\"><a href=\"{}\">All tasks</a> <a href=\"{}\">JSON</a> \
             <a href=\"{}\">Events</a> <a href=\"{}\">Metrics</a> <a href=\"{}\">Health</a></nav>",
            paths::LANDING,
            paths::TASKS,
            paths::EVENTS,
            paths::METRICS,
            paths::HEALTHY,
        );
        let sentence = self.around.stopped.unwrap_or_default();
        let _ = write!(
            html,
            "<p id=\"connection\" role=\"status\" aria-live=\"polite\">{}</p>\
             <p id=\"drill\" role=\"status\" aria-live=\"polite\">{}</p></header>",
            Text(sentence),
            Text(&drill_of(self.published).unwrap_or_default())
        );
        html
    }

    /// Everything after `<main>`.
    pub(super) fn after(&self) -> String {
        let made = rfc3339(self.published.wall.0).unwrap_or_default();
        format!(
            "<footer><p>As of <time id=\"as-of\" datetime=\"{made}\">{made}</time>. \
             lockwatch shows the lock, not mutual exclusion itself.</p></footer></body></html>"
        )
    }
}
