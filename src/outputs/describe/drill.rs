//! A drill in words.

use crate::api::Drill;
use crate::text::instants::rfc3339;

/// That a drill runs, of what, and how it can be ended.
pub fn drill(drill: &Drill) -> String {
    let Drill { task, store, by, began_at, .. } = drill;
    let since = began_at.0.and_then(rfc3339).map(|since| format!(" since {since}"));
    let by = by.as_ref().map(|by| format!(", by {by}"));
    let [since, by] = [since, by].map(Option::unwrap_or_default);
    format!(
        "Drill{since}{by}: an alert is tried with the labels of task {task} (store {store}). \
         Nothing is wrong. `lockwatch drill --stop` ends it."
    )
}
