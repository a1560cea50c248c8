//! Events, in the words of the log.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::tests::words;
use super::values::{At, Text};

/// Something that happened, in the words of the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Event {
    /// Which one.
    #[cfg_attr(test, schemars(with = "words::EventId"))]
    pub id: Text,
    /// When, by the agent's clock.
    pub at: At,
    /// The same by the server's clock, where the evidence came from a server.
    #[cfg_attr(test, schemars(with = "At"))]
    pub server_time: Option<Text>,
    /// What kind of event.
    #[cfg_attr(test, schemars(with = "words::EventKind"))]
    pub kind: Text,
    /// How much it matters.
    #[cfg_attr(test, schemars(with = "words::Level"))]
    pub level: Text,
    /// The task that it happened to; `null` if to a store.
    pub task: Option<Text>,
    /// The store that it happened to; `null` if to a task.
    pub store: Option<Text>,
    /// The server whose reply shows it; escaped.
    pub node: Option<Text>,
    /// The event in a sentence; escaped.
    pub message: Text,
    /// Holders, instances or users concerned; escaped.
    pub who: Option<Text>,
    /// A closed word that distinguishes events of this kind.
    pub reason: Option<Text>,
    /// How long it took or lasted.
    pub seconds: Option<f64>,
    /// What a person can do about it.
    pub remedy: Option<Text>,
}

/// Events, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventList {
    /// Those that were requested.
    pub events: Vec<Event>,
    /// What to send as `since` to go on after these.
    #[cfg_attr(test, schemars(with = "words::EventId"))]
    pub next: Text,
    /// The newest event of all, whatever was requested.
    #[cfg_attr(test, schemars(with = "words::EventId"))]
    pub newest: Text,
    /// The oldest event that is kept.
    #[cfg_attr(test, schemars(with = "Option<words::EventId>"))]
    pub oldest: Option<Text>,
    /// Events after `since` may be missing: the agent was restarted, or had to drop them.
    pub gap: bool,
}
