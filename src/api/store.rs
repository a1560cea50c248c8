//! A store: its servers, its Sentinels, and what went wrong.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::tests::words::{self, Counted};
use super::values::{At, Count, Histogram, Problem, Seconds, Text, Unknown};

/// A store: one server, or several that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Store {
    /// As configured.
    pub name: Text,
    /// How its servers belong together.
    #[cfg_attr(test, schemars(with = "words::StoreKind"))]
    pub kind: Text,
    /// The number of the database.
    pub db: u32,
    /// Whether the newest sweep of every server that decides was accepted; `null` before the first.
    pub readable: Option<bool>,
    /// Why it was not.
    pub unknown: Option<Unknown>,
    /// How long one of the servers that decide has not been read, or not been known.
    pub blind_seconds: Seconds,
    /// There is fresh evidence that it can be read.
    pub clear: bool,
    /// What is seen to deserve an alert.
    pub problems: Vec<Problem>,
    /// Servers that reported the role master in the newest batch.
    pub masters: Option<u64>,
    /// Its servers as far as they are known.
    pub nodes: Vec<Node>,
    /// The configured Sentinels.
    pub sentinels: Vec<Sentinel>,
    /// Slots of a cluster that no master serves.
    pub uncovered_slots: u32,
    /// Connections made after the first.
    pub reconnects: u64,
    /// Ticks that found the previous sweep still under way.
    pub skipped_ticks: u64,
    /// Times it may have lost data.
    pub generation_changes: u64,
    /// Locks that were held before such a change, by what became of them; all of them.
    #[cfg_attr(test, schemars(with = "Vec<Counted<words::Fate>>"))]
    pub locks_after_change: Vec<Count>,
    /// Failed batches and refused tasks by reason, where there were any.
    #[cfg_attr(test, schemars(with = "Vec<Counted<words::UnknownReason>>"))]
    pub errors: Vec<Count>,
    /// Round trips of batches.
    pub sample_duration: Histogram,
}

/// One server of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Node {
    /// `host:port`; escaped.
    pub address: Text,
    /// If not, its replies are evidence only.
    pub decides: bool,
    /// Whether the newest batch was accepted; `null` before the first.
    pub up: Option<bool>,
    /// Why it was not.
    pub unknown: Option<Unknown>,
    /// The role that it reports.
    #[cfg_attr(test, schemars(with = "Option<words::Role>"))]
    pub role: Option<Text>,
    /// Whether it reported the role itself.
    pub role_verified: Option<bool>,
    /// As it reports; escaped.
    pub version: Option<Text>,
    /// At the newest accepted batch, by the server's clock.
    pub last_success: At,
    /// The code of the error with which it refuses writes, if it is known to.
    #[cfg_attr(test, schemars(with = "Option<words::Refusal>"))]
    pub refuses_writes: Option<Text>,
    /// Its clock minus the agent's.
    pub clock_offset_seconds: Option<f64>,
    /// Of a replica: watched locks whose newest deadline it does not have yet.
    pub locks_behind: Option<u64>,
    /// Of a replica: how far the deadline that is farthest behind is behind.
    pub deadline_lag_seconds: Option<Seconds>,
    /// `null` where it is not asked to announce changes.
    pub wake_ups: Option<WakeUps>,
}

/// Whether a server announces changed keys, and what came of that. Where it does not, changes are
/// found by polling alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WakeUps {
    /// `on`: it announces them. `connecting`: not tried yet. `refused`: it will not or cannot.
    /// `lost`: it does not reply. `flooded`: there were so many that it is not asked for a while.
    #[cfg_attr(test, schemars(with = "words::WakeUpState"))]
    pub state: Text,
    /// Times that change notifications were resubscribed.
    pub reconnects: u64,
    /// Changed keys by what came of them: `read` caused a read, `coalesced` found the task to be
    /// read already, `foreign` is no task's.
    #[cfg_attr(test, schemars(with = "Vec<Counted<words::Hint>>"))]
    pub hints: Vec<Count>,
}

/// The last report of one configured Sentinel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sentinel {
    /// `host:port`; escaped.
    pub address: Text,
    /// `host:port`; escaped.
    pub master: Option<Text>,
    /// Why it names none.
    pub unknown: Option<Unknown>,
}
