//! Tasks that take turns.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::tests::words;
use super::values::{At, Seconds, Text, Unknown};

/// Tasks that take turns. Instants are of the server's clock; figures are `null` when unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Turn {
    /// The hash; escaped.
    pub hash: Text,
    /// The unit of its value.
    #[cfg_attr(test, schemars(with = "Option<words::Unit>"))]
    pub unit: Option<Text>,
    /// Whether it is somebody's turn by the newest reading; `null` when that gave no answer.
    pub held: Option<bool>,
    /// The same after confirmation.
    #[cfg_attr(test, schemars(with = "words::TurnFact"))]
    pub fact: Text,
    /// Why the newest reading gave no answer.
    pub unknown: Option<Unknown>,
    /// Whose turn it is; escaped.
    pub task: Option<Text>,
    /// From when on that task may run; `null` also for "at once".
    pub due: At,
    /// How long the turn has waited to be taken, or lasted, since it was due and wanted.
    pub overdue_seconds: Seconds,
    /// It may be overdue for this long.
    pub max_late_seconds: Seconds,
    /// Two fields for longer are no passing of the turn.
    pub handover_seconds: Option<Seconds>,
    /// A turn lasts at least this long; `null`: order is not judged.
    pub min_turn_seconds: Option<Seconds>,
    /// Fields of the hash.
    pub fields: Option<u64>,
    /// How often each task had the turn and passed it on, in the order of the configuration.
    pub taken: Vec<Taken>,
    /// Turns that came to another task than the next one; `null` if order is not judged.
    pub out_of_order: Option<u64>,
    /// Names that appeared and are none of the configured tasks.
    pub unknown_names: u64,
}

/// The turns of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Taken {
    /// Its name; escaped.
    pub task: Text,
    /// How often it passed the turn on.
    pub turns: u64,
}
