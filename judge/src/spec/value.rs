//! Where in a value the part lies that says who or what it is about.

use alloc::sync::Arc;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A value path. It is only carried here: `watch` knows how to follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum ValuePath {
    /// A JSON Pointer to a text or a whole number, `/owner`.
    Json(Arc<str>),
    /// A pattern with one group, `^[0-9]+:(.*)$`.
    Regex(Arc<str>),
}

impl ValuePath {
    /// The name of its form in the configuration, and the path.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            ValuePath::Json(pointer) => ("json", pointer),
            ValuePath::Regex(pattern) => ("regex", pattern),
        }
    }
}
