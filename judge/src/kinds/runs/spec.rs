//! The configuration of periodic runs.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// How often a task runs whose lock exists only while a run lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct RunsSpec {
    /// From the beginning of one run to that of the next, in milliseconds.
    pub every_ms: u64,
    /// How much later than that the next run may begin, in milliseconds.
    pub late_after_ms: u64,
    /// How long a run may last, in milliseconds.
    pub max_ms: Option<u64>,
}

impl RunsSpec {
    /// The least default of [`RunsSpec::late_after_ms`].
    const LATE_AFTER_MS_MIN: u64 = 60_000;

    /// Runs that begin this often, and may last for as long as they like.
    pub fn new(every_ms: u64) -> RunsSpec {
        // What starts them is rarely later than a tenth of their period.
        let late_after_ms = (every_ms / 10).max(RunsSpec::LATE_AFTER_MS_MIN);
        RunsSpec { every_ms, late_after_ms, max_ms: None }
    }
}
