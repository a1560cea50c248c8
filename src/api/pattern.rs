//! A pattern: one task for each key that matches a glob.

use serde::{Deserialize, Serialize};

use super::values::{At, Text};

/// A pattern, and how completely its keys were found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Pattern {
    /// As configured.
    pub name: Text,
    /// The store whose keys are meant.
    pub store: Text,
    /// As configured; escaped.
    pub glob: Text,
    /// The keys that are watched, each as a task.
    pub keys: u64,
    /// The most keys that are watched.
    pub max_keys: u64,
    /// Keys that match and are not watched, because there are too many or their names are too long.
    /// Before the first complete scan those found by now, `null` if none.
    pub left_out: Option<u64>,
    /// When the newest complete scan ended, by the agent's clock; `null` before the first.
    pub scanned_at: At,
    /// Why the newest scan was cut short.
    pub trouble: Option<Text>,
}
