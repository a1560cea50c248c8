//! What a recording looks like in a file: JSON, a line for each input.
//!
//! The first line of a file is a [`Begin`], every other one a [`Line`]. A reader refuses what it
//! does not know: whoever changes an input of the model raises [`FORMAT`].

use std::sync::Arc;

use lockwatch_model::input::{Input, Standing};
use lockwatch_model::spec::{RedisIndex, TaskIndex};
use lockwatch_model::time::Mono;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format; any other one is refused.
pub(crate) const FORMAT: u32 = 2;

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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line(pub(crate) u64, pub(crate) What);

/// What a line tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// Anything but a sample that was read.
    Input(Input),
    /// A sample that was read.
    Batch(Batch),
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

/// A sample, without what is as in the batch before of the same server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub(crate) epoch: u32,
    pub(crate) redis: RedisIndex,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) standing: Standing,
    pub(crate) sent: Mono,
    pub(crate) took_ms: u64,
    /// What is read beside the locks, not the locks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) beside: bool,
    /// How what the server says of itself differs from before; absent where it says nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) attestation: Option<Value>,
    /// Which tasks; absent: as before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tasks: Option<Runs>,
    /// Of these, whose waiters, fencing token or hosts were read, which happens in turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) extras: Runs,
    /// How those differ that are not as before, in the order of the tasks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) changed: Vec<(TaskIndex, Value)>,
}

/// Tasks: the first of each run, and how many follow each other.
pub(crate) type Runs = Vec<(u32, u32)>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
