//! The immutable view that every output reads. Unknown values are `None`, and outputs leave them
//! out.

mod task;
mod tasks;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::task::{Durations, TaskView, WantingView};
pub(crate) use self::tasks::Changed;
pub use self::tasks::{Iter, TaskViews};
use crate::event::Fate;
pub use crate::grounds::{Grounds, Rare, ShortHolds, Since, StoreGrounds};
use crate::histogram::Histogram;
use crate::input::{Announcer, Generation, Refusal, Role, WakeUps};
pub use crate::kinds::kind::KindView;
pub use crate::kinds::lock::view::{
    HeldBy, HoldView, LastHold, LockView, RENEWALS_KEPT, RareLockView, Renewals, StoreShows,
};
pub use crate::kinds::queue::view::{ExecutionView, MemberView, OrphanView, QueueView};
pub use crate::kinds::runs::view::{Over, PeriodicRun, RunsView};
pub use crate::kinds::turn::view::{Taken, TurnView};
use crate::reading::Unknown;
pub use crate::shared::Judged;
pub use crate::shared::progress::ProgressView;
pub use crate::shared::runs::{Run, Runs};
pub use crate::shared::splits::SplitView;
pub use crate::shared::splits::witnesses::WitnessView;
pub use crate::shared::switches::SwitchView;
use crate::spec::StoreSpec;
use crate::time::{Mono, ServerTime};
pub use crate::totals::{
    HANDOVER_BOUNDS_MS, OUTAGE_BOUNDS_MS, Past, RENEWAL_LATENCY_BOUNDS_MS, RareTotals, Totals,
};

/// The state at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When the snapshot was made.
    pub at: Mono,
    /// Sequence number of the snapshot.
    pub sequence: u64,
    /// The tasks, sorted by name.
    pub tasks: TaskViews,
    /// The stores, in the order of the configuration.
    pub stores: Vec<Arc<StoreView>>,
}

/// Bounds of batch round trips.
pub const SAMPLE_BOUNDS_MS: [u64; Histogram::BUCKETS] = [1, 5, 20, 100, 500, 2_000];

/// One store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreView {
    /// Its configuration.
    pub spec: StoreSpec,
    /// Whether the newest sweep of every server that decides was accepted; `None` before the first.
    pub readable: Option<bool>,
    /// Why it was not accepted.
    pub unknown: Option<Unknown>,
    /// How long one of the deciding servers has been unread or unknown, in milliseconds; 0 while
    /// all are read.
    pub blind_ms: u64,
    /// Number of servers that reported as master in the newest batch; `None` while none is read.
    pub masters: Option<u64>,
    /// Its known servers, sorted by address.
    pub nodes: Vec<NodeView>,
    /// The last report of each configured Sentinel.
    pub announcers: Vec<Announcer>,
    /// The newest words that came with failures.
    pub said: Arc<Vec<Said>>,
    /// Slots of a cluster that no master serves.
    pub uncovered: u32,
    /// The generations of the deciding servers; empty until all of them have reported theirs.
    pub generations: Vec<Arc<Generation>>,
    /// Sums and counts.
    pub totals: StoreTotals,
    /// What problems are judged by in addition to the other fields.
    pub grounds: StoreGrounds,
}

impl StoreView {
    /// The words that came with the failure `why` of a server or Sentinel. They say nothing of
    /// whether that failure lasts.
    pub fn words(&self, why: Unknown, server: &str) -> Option<&str> {
        let said = self.said.iter().rev().find(|said| said.why == why && *said.server == *server);
        said.map(|said| &*said.words).filter(|words| !words.is_empty())
    }

    /// The words that came with the failure `why`: of a server that decides, else of any.
    pub fn words_of_any(&self, why: Unknown) -> Option<Arc<str>> {
        let decides =
            |server: &str| self.nodes.iter().any(|node| node.decides && *node.address == *server);
        let words = newest_words(&self.said, why, decides).cloned();
        let nodes = self.nodes.iter().map(|node| (&node.address, node.decides, node.unknown));
        unreached(&self.announcers, nodes, why, words.as_deref()).or(words)
    }
}

/// The words for a server that cannot be reached, and that Sentinels name. Nobody configured it. Of
/// each server: its address, whether it decides, and why it is not read.
pub(crate) fn unreached<'a>(
    announcers: &[Announcer],
    nodes: impl Iterator<Item = (&'a Arc<str>, bool, Option<Unknown>)>,
    why: Unknown,
    said: Option<&str>,
) -> Option<Arc<str>> {
    if !matches!(why, Unknown::Connect | Unknown::Timeout | Unknown::Dns) {
        return None;
    }
    let (mut master, mut others) = (None, 0);
    for (address, decides, unknown) in nodes {
        match decides && unknown == Some(why) {
            true => master = Some(address),
            false => others += 1,
        }
    }
    let names = |one: &Announcer| matches!(&one.master, Some(Ok(named)) if Some(named) == master);
    let master = master.filter(|_| announcers.iter().any(names))?;
    let said = said.map_or(String::new(), |said| format!(" ({said})"));
    let others = match others {
        0 => "they know no other".to_owned(),
        others => format!("they know {others} more"),
    };
    Some(format!("the Sentinels name {master}, which cannot be reached{said}; {others}").into())
}

/// The newest words for a reason: of a server that decides, else of any.
pub(crate) fn newest_words(
    said: &[Said],
    why: Unknown,
    decides: impl Fn(&str) -> bool,
) -> Option<&Arc<str>> {
    let all = || said.iter().rev().filter(|said| said.why == why && !said.words.is_empty());
    all().find(|said| decides(&said.server)).or_else(|| all().next()).map(|said| &said.words)
}

/// The words that came with a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The server or Sentinel, `host:port`.
    pub server: Arc<str>,
    /// The reason that they led to.
    pub why: Unknown,
    /// What the server, or the system, said.
    pub words: Arc<str>,
}

/// One server of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// `host:port`.
    pub address: Arc<str>,
    /// Whether the server decides; a witness does not.
    pub decides: bool,
    /// Whether the newest batch was accepted; `None` before the first.
    pub up: Option<bool>,
    /// Why the newest batch was not accepted.
    pub unknown: Option<Unknown>,
    /// The role that it reports.
    pub role: Option<Role>,
    /// Whether the server itself reported the role; `None` before the first accepted batch.
    pub role_verified: Option<bool>,
    /// Its clock at the newest accepted batch.
    pub last_success: Option<ServerTime>,
    /// Why it refuses writes, if it is known to.
    pub refuses_writes: Option<Refusal>,
    /// Its clock minus the agent's, in milliseconds.
    pub clock_offset_ms: Option<i64>,
    /// For a replica: number of watched locks whose newest deadline it lacks; `None` when nothing
    /// was compared.
    pub locks_behind: Option<u64>,
    /// For a replica: the largest lag of a deadline, in milliseconds.
    pub deadline_lag_ms: Option<u64>,
    /// The version that it reports.
    pub version: Option<Arc<str>>,
    /// State and totals of its change notifications; `None` if they are not requested.
    pub wake_ups: Option<WakeUps>,
}

/// Sums and counts of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTotals {
    /// Failed batches and refused tasks by [`Unknown::ALL`].
    pub errors: [u64; Unknown::ALL.len()],
    /// Connections made after the first.
    pub reconnects: u64,
    /// Ticks that found the previous sweep still in progress.
    pub skipped_ticks: u64,
    /// Number of events in which it may have lost data.
    pub generation_changes: u64,
    /// Fates of locks that were held before a change of generation, by [`Fate::ALL`].
    pub fates: [u64; Fate::ALL.len()],
    /// Round trips of batches.
    pub sample_duration: Histogram,
}

impl Default for StoreTotals {
    fn default() -> StoreTotals {
        StoreTotals {
            errors: [0; Unknown::ALL.len()],
            reconnects: 0,
            skipped_ticks: 0,
            generation_changes: 0,
            fates: [0; Fate::ALL.len()],
            sample_duration: Histogram::new(&SAMPLE_BOUNDS_MS),
        }
    }
}
