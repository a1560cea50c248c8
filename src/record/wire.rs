//! The file format of a recording: JSON, one line for each input, compressed by gzip.
//!
//! The first line of a file is a [`Begin`], every other line a [`Line`]. A reader refuses unknown
//! formats, so a change to an input of the state must raise [`FORMAT`].

use lockwatch_judge::input::Input;
use serde::{Deserialize, Serialize};

/// The version of the format. The reader refuses any other.
pub(crate) const FORMAT: u32 = 8;

/// The part of a file's first line that says whether the rest can be parsed.
#[derive(Debug, Deserialize)]
pub(crate) struct Version {
    pub(crate) lockwatch_recording: u32,
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Begin {
    /// [`FORMAT`].
    pub(crate) lockwatch_recording: u32,
    /// The version of the program that wrote it.
    pub(crate) lockwatch: String,
    /// The id of the run: the same in all files of one process, and unique to it.
    pub(crate) run: String,
    /// Counts the run's files from 0.
    pub(crate) file: u64,
    /// The instant on the agent's monotonic clock, in milliseconds.
    pub(crate) at: u64,
    /// The same instant on the agent's wall clock, in milliseconds since the Unix epoch.
    pub(crate) wall: i64,
    /// Whether nothing is missing between the previous file and this one.
    pub(crate) continues: bool,
    /// Number of following lines that repeat what was in force when the file began. A reader needs
    /// them only if it lacks the previous file.
    pub(crate) context: u32,
}

/// Any other line: the instant on the agent's monotonic clock, and its content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line(pub(crate) u64, pub(crate) What);

/// The content of a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one line at a time, nearly always an input"
)]
pub(crate) enum What {
    /// An input of the state.
    Input(Input),
    /// Inputs before this line that were dropped.
    Missing(Missing),
    /// The agent's wall clock at this line's instant. Written only when it does not follow from the
    /// previous offset.
    Wall(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Missing {
    /// How many.
    pub(crate) inputs: u64,
    /// The instant of the first of them, in milliseconds.
    pub(crate) since: u64,
}
