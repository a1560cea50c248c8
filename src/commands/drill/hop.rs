//! The hops between the agent and a person, and what becomes of each.

use crate::chain::Trouble;

/// A hop, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hop {
    /// The agent began the drill.
    Agent,
    /// Its series is on the agent's /metrics.
    Metrics,
    /// Prometheus has the series.
    Scraped,
    /// The recording rules have it.
    Rule,
    /// The alert fires.
    Firing,
    /// Alertmanager has the alert.
    Alertmanager,
    /// Nothing holds it back, and a receiver notifies somebody.
    Receiver,
    /// The notification was delivered.
    Notified,
    /// It is over in Prometheus and in Alertmanager.
    Resolved,
}

impl Hop {
    pub(super) fn name(self) -> &'static str {
        match self {
            Hop::Agent => "agent",
            Hop::Metrics => "metrics",
            Hop::Scraped => "scraped",
            Hop::Rule => "rule",
            Hop::Firing => "firing",
            Hop::Alertmanager => "alertmanager",
            Hop::Receiver => "receiver",
            Hop::Notified => "notified",
            Hop::Resolved => "resolved",
        }
    }
}

/// What one look says of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing yet. Never once it is late.
    Wait,
    /// It was passed; the words say how.
    Passed(String),
    /// It will not be passed.
    Failed(Trouble),
    /// Whether it was passed cannot be seen; the words say why.
    Unseen(String),
}

impl Step {
    pub(super) fn failed(saw: impl Into<String>, remedy: impl Into<String>) -> Step {
        Step::Failed(Trouble::new(saw, remedy))
    }
}

/// Names in a sentence.
pub(super) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    const LISTED_MAX: usize = 5;
    let mut names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}
