//! The common parts of both pages: head, header and footer.

use std::fmt::Write as _;

use super::html::{Exact, Text};
use crate::published::Published;
use crate::text::instants::rfc3339;

/// A page around its contents.
pub(super) struct Shell<'a> {
    pub(super) published: &'a Published,
    /// Identifies the process that answers.
    pub(super) boot: &'a str,
    /// Why the page must not be taken as current, if so.
    pub(super) stopped: Option<&'a str>,
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
             data-boot=\"{}\" data-live=\"/live\"{task}>",
            wall.0,
            snapshot.sequence,
            Text(self.boot)
        );
        // Writing to a `String` cannot fail.
        let _ = write!(html, "<head><meta charset=\"utf-8\"><title>{}</title>", Text(self.title));
        html.push_str(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"stylesheet\" \
             href=\"/style.css\">\
             <link rel=\"icon\" type=\"image/svg+xml\" href=\"/icon.svg\">\
             <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
             <script src=\"/app.js\" defer></script></head><body>",
        );
        let _ = write!(html, "<a class=\"skip\" href=\"#{}\">Skip to the contents</a>", self.main);
        let _ = write!(
            html,
            "<header><p class=\"brand\"><a href=\"/\">lockwatch</a> <small>{}</small></p>",
            env!("CARGO_PKG_VERSION")
        );
        html.push_str(
            "<nav aria-label=\"Site\"><a href=\"/\">All tasks</a> <a \
             href=\"/api/v1/tasks\">JSON</a> \
             <a href=\"/api/v1/events\">Events</a> <a href=\"/metrics\">Metrics</a> \
             <a href=\"/-/healthy\">Health</a></nav>",
        );
        let sentence = self.stopped.unwrap_or_default();
        let _ = write!(
            html,
            "<p id=\"connection\" role=\"status\" aria-live=\"polite\">{}</p></header>",
            Text(sentence)
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
