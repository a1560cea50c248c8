//! What only a periodic task has.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::tests::words;
use super::values::{At, Party, Seconds, Text};

/// A task whose lock exists only while a run lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Periodic {
    /// What is known of its runs.
    #[cfg_attr(test, schemars(with = "words::RunFact"))]
    pub run: Text,
    /// The run that goes on.
    pub present: Option<Run>,
    /// The newest run whose work is over.
    pub last: Option<Run>,
    /// When the next run is late, by the agent's clock: `every` and `late_after` after the newest
    /// one began; `null` until this process saw one begin.
    pub due: At,
    /// For how long the next run has been due; 0 if it is not.
    pub late_seconds: Seconds,
    /// The next run may have come and gone unseen, so it is expected a period later.
    pub may_have_run: bool,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Run {
    /// Who ran it; empty if only the progress showed it.
    pub by: Vec<Party>,
    /// When it began, by the server's clock; `null`: before this process began to watch.
    pub began: At,
    /// How long its work took; `null` while it goes on, and where its beginning or its end was not
    /// seen.
    pub lasted_seconds: Option<Seconds>,
    /// How its hold ended; `null` while the lock is held.
    #[cfg_attr(test, schemars(with = "Option<words::End>"))]
    pub end: Option<Text>,
}
