//! What a recording looks like in a file: a mirror of the model's inputs, line by line, in JSON.
//!
//! The first line of a file is a [`Begin`], every other one a [`Line`]. Both directions of each
//! conversion take the model's types apart completely, so that a new field or variant does not
//! compile before the format knows it. A reader refuses what it does not know.

mod config;
mod news;
mod reading;
mod sample;
mod scalar;

use serde::{Deserialize, Serialize};

pub(crate) use config::*;
pub(crate) use news::*;
pub(crate) use reading::*;
pub(crate) use sample::*;
pub(crate) use scalar::Word;

/// The version of the format; any other one is refused.
pub(crate) const FORMAT: u32 = 1;

/// Just enough of a file's first line to know whether the rest can be understood.
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
    /// The same in all files of one process, and in no other.
    pub(crate) run: String,
    /// Counts the run's files from 0.
    pub(crate) file: u64,
    /// The instant, on the agent's clock.
    pub(crate) at: u64,
    /// The same instant on the agent's wall clock.
    pub(crate) wall: i64,
    /// Nothing is missing between the file before and this one.
    pub(crate) continues: bool,
    /// So many of the lines that follow repeat what was in force when the file began: new only for
    /// who lacks the file before.
    pub(crate) context: u32,
}

/// Any other line: the instant on the agent's clock, and what it brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line(pub(crate) u64, pub(crate) What);

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Config(Config),
    Sample(Box<Sample>),
    Node(News),
    Topology(Topology),
    Tick,
    /// Inputs before this line could not be kept.
    Missing(Missing),
    /// The agent's wall clock at this line's instant; told when it does not follow from the one
    /// told before.
    Wall(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Missing {
    /// How many.
    pub(crate) inputs: u64,
    /// The instant of the first of them.
    pub(crate) since: u64,
}
