//! The configuration of tasks that take turns.

use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::spec::{Key, Unit};

/// Tasks that take turns: the only field of a hash names the one that may run next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct TurnSpec {
    /// The hash.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub hash: Key,
    /// Whether it is the JSON object that one value is, where a store has no hashes.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub in_value: bool,
    /// The unit of its value, the instant from which that task may run.
    pub unit: Unit,
    /// The tasks, in the order of their turns.
    pub tasks: Vec<Name>,
    /// How long a turn may wait to be taken, and last, in milliseconds.
    pub max_late_ms: u64,
    /// Two fields for longer than this are no passing of the turn, in milliseconds.
    pub handover_ms: u64,
    /// The shortest time that a turn lasts, in milliseconds. If it is known, the order of turns is
    /// judged.
    pub min_turn_ms: Option<u64>,
}

impl TurnSpec {
    /// The most tasks that may take turns: each is a series.
    pub const TASKS_MAX: usize = 8;
    /// Default of [`TurnSpec::max_late_ms`].
    pub const MAX_LATE_MS: u64 = 30_000;
    /// Default of [`TurnSpec::handover_ms`].
    pub const HANDOVER_MS: u64 = 1_000;
    /// The least of [`TurnSpec::handover_ms`] where values count whole seconds.
    pub const HANDOVER_OF_SECONDS_MS: u64 = 1_250;

    /// Tasks that take turns in this order, with default settings.
    pub fn new(hash: &[u8], tasks: &[&str]) -> TurnSpec {
        TurnSpec {
            hash: hash.to_vec(),
            in_value: false,
            unit: Unit::Milliseconds,
            tasks: tasks.iter().map(|task| Name(task.as_bytes().to_vec())).collect(),
            max_late_ms: TurnSpec::MAX_LATE_MS,
            handover_ms: TurnSpec::HANDOVER_MS,
            min_turn_ms: None,
        }
    }

    /// The position of the task called `name`.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        self.tasks.iter().position(|task| task.0 == name)
    }
}

/// The name of a task that takes turns, as the hash has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Name(#[cfg_attr(feature = "serde", serde(with = "crate::bytes"))] pub Vec<u8>);
