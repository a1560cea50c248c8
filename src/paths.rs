//! The paths of the HTTP server, in one table: the routes answer them, and the pages and the
//! commands ask for them.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// The page of all tasks.
pub const LANDING: &str = "/";
/// The style sheet of the pages.
pub const STYLE: &str = "/style.css";
/// The icon of the pages.
pub const ICON: &str = "/icon.svg";
/// The script of the pages.
pub const SCRIPT: &str = "/app.js";
/// What changes, for the script.
pub const LIVE: &str = "/live";
/// The exposition.
pub const METRICS: &str = "/metrics";
/// All tasks as JSON.
pub const TASKS: &str = "/api/v1/tasks";
/// The events as JSON, or as a stream.
pub const EVENTS: &str = "/api/v1/events";
/// The description of the API.
pub const OPENAPI: &str = "/api/v1/openapi.json";
/// The drill that runs; begins one.
pub const DRILL: &str = "/api/v1/drill";
/// The runbooks; each has its alert's name behind a slash.
pub const RUNBOOKS: &str = "/runbooks";
/// Whether the engine is running.
pub const HEALTHY: &str = "/-/healthy";
/// Whether every Redis store was tried.
pub const READY: &str = "/-/ready";
/// Loads the configuration again.
pub const RELOAD: &str = "/-/reload";

/// The paths of one task: what stands before and after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfTask {
    before: &'static str,
    after: &'static str,
}

/// Why a task has its verdict, as JSON.
pub const EXPLANATION: OfTask = OfTask { before: "/api/v1/tasks/", after: "/explain" };
/// The own switch of whoever has logged in.
pub const WANT: OfTask = OfTask { before: "/api/v1/tasks/", after: "/want" };
/// A task as JSON.
pub const TASK: OfTask = OfTask { before: "/api/v1/tasks/", after: "" };
/// The page of a task.
pub const PAGE: OfTask = OfTask { before: "/tasks/", after: "" };
/// A task as a picture.
pub const BADGE: OfTask = OfTask { before: "/badge/", after: ".svg" };
/// A drill by its id, to renew or stop it.
pub const DRILL_BY_ID: OfTask = OfTask { before: "/api/v1/drill/", after: "" };

/// The runbook of an alert.
pub const RUNBOOK: OfTask = OfTask { before: "/runbooks/", after: "" };

impl OfTask {
    /// The path of this task.
    pub fn of(self, task: &str) -> String {
        format!("{}{}{}", self.before, segment(task), self.after)
    }

    /// The name in `path`, still encoded, if the path is one of these.
    pub fn name_in(self, path: &str) -> Option<&str> {
        path.strip_prefix(self.before)?.strip_suffix(self.after)
    }
}

/// Encodes `text` as one segment of a path, or as a name or value of a query.
pub fn segment(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}

/// Where people reach what alerts point to: addresses without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Grafana.
    pub grafana: Option<Arc<str>>,
    /// The agent's pages.
    pub lockwatch: Option<Arc<str>>,
    /// Where there is a page for each alert, by its name.
    pub runbooks: Option<Arc<str>>,
}

impl Links {
    /// None is configured.
    pub const NONE: Links = Links { grafana: None, lockwatch: None, runbooks: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_one_segment() {
        assert_eq!(segment("a/b?c#d%é&=+ ~.").to_string(), "a%2Fb%3Fc%23d%25%C3%A9%26%3D%2B%20~.");
    }

    #[test]
    fn a_path_names_its_task() {
        assert_eq!(BADGE.of("a b"), "/badge/a%20b.svg");
        assert_eq!(BADGE.name_in("/badge/a%20b.svg"), Some("a%20b"));
        assert_eq!(BADGE.name_in("/badge/a"), None);
    }
}
