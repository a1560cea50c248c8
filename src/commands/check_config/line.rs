//! What `check-config --connect` says of one server, Sentinel or task.

use lockwatch_judge::reading::Unknown;

use crate::outputs::cause::message;

/// Maximum number of tasks of a store that are listed with a reason of their own.
pub(super) const TASKS_MAX: usize = 20;

/// What is said of one server, Sentinel or task.
pub(super) struct Line {
    pub(super) of: String,
    pub(super) says: String,
    pub(super) is_good: bool,
}

impl Line {
    pub(super) fn good(of: String, says: String) -> Line {
        Line { of, says, is_good: true }
    }

    pub(super) fn bad(of: String, why: Unknown, said: Option<&str>) -> Line {
        Line { of, says: format!("{}: {}", why.name(), message(why, said)), is_good: false }
    }
}
