//! The input of an explanation: one task in one snapshot, and how its instants are shown.

use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::time::{Mono, ServerTime};

use super::Trace;
pub(super) use crate::outputs::cause::unknown as not_known;
use crate::published::Published;
use crate::text::durations::duration_text;
use crate::text::identity::escape;
use crate::text::instants::{rfc3339, seconds};

/// Durations up to this many milliseconds are shown with tenths of a second.
const FINE_MS: u64 = 120_000;

/// Whether there is a history of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// An agent has observed it.
    Agent,
    /// It is a single reading: anything that takes time to observe is not known.
    Once,
}

/// One task and its context.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The snapshot.
    pub published: &'a Published,
    /// The task in it.
    pub view: &'a TaskView,
    /// The commands and replies while the explanation was prepared.
    pub trace: &'a Trace,
    /// Whether there is a history.
    pub watched: Watched,
}

impl<'a> Seen<'a> {
    /// Its Redis store.
    pub(super) fn redis(&self) -> Option<&'a StoreView> {
        self.published.store(self.view.spec.store)
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.redis().is_some_and(|redis| redis.spec.authority.divided)
    }

    pub(super) fn is_once(&self) -> bool {
        self.watched == Watched::Once
    }

    pub(super) fn age_ms(&self, at: Mono) -> u64 {
        self.published.snapshot.at.since_ms(at)
    }

    pub(super) fn age_seconds(&self, at: Mono) -> f64 {
        seconds(self.age_ms(at))
    }

    /// An instant of the agent, for people.
    pub(super) fn wall(&self, at: Mono) -> String {
        rfc3339(self.published.wall_at(at).0).unwrap_or_else(|| "an unknown instant".to_owned())
    }

    /// The newest trustworthy reading of the lock, in words.
    pub(super) fn newest(&self) -> String {
        let from = self.view.node.as_ref().map(|node| format!(" from {}", escape(node.as_bytes())));
        match self.view.last_reading {
            Some(at) => format!("{} ago{}", span(self.age_ms(at)), from.unwrap_or_default()),
            None => "never".to_owned(),
        }
    }
}

/// A duration, for people.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{ms} ms"),
        1_000..FINE_MS => format!("{:.1} s", seconds(ms)),
        _ => duration_text(ms / 1_000 * 1_000),
    }
}

/// An instant of a server's clock, for people.
pub(super) fn server(at: ServerTime) -> String {
    rfc3339(at.ms()).unwrap_or_else(|| "an instant beyond the calendar".to_owned())
}
