//! The immutable view that every output reads. Unknown values are `None`, and outputs leave them
//! out.

mod tasks;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(crate) use self::tasks::Changed;
pub use self::tasks::{Iter, TaskViews};
use crate::event::{End, Fate, Party, SplitKind};
pub use crate::grounds::{Grounds, Rare, ShortHolds, Since, StoreGrounds};
use crate::histogram::Histogram;
use crate::input::{Announcer, Generation, Refusal, Role, WakeUps};
pub use crate::kinds::KindView;
pub use crate::kinds::lock::view::{
    HeldBy, HoldView, LastHold, LockView, RENEWALS_KEPT, WitnessView,
};
pub use crate::kinds::queue::{ExecutionView, MemberView, OrphanView, QueueView};
pub use crate::kinds::turn::{Taken, TurnView};
use crate::limit::Limit;
use crate::reading::{Holder, Unknown, User};
pub use crate::runs::{Run, Runs};
use crate::spec::Moves;
use crate::spec::{Codec, StoreSpec, TaskSpec};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, Rule, Verdict, Wanted};

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

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its configuration.
    pub spec: Arc<TaskSpec>,
    /// Name of its store.
    pub store: Arc<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that gave the verdict.
    pub rule: &'static Rule,
    /// When the present verdict was first given.
    pub verdict_since: Mono,
    /// The facts that the verdict is based on; `None` before the first judgement.
    pub judged: Option<Judged>,
    /// Whether users want the task.
    pub wanted: Wanted,
    /// All existing switches; `None` when unknown or unset, or when there are too many to read.
    pub switches: Option<Box<[SwitchView]>>,
    /// Number of users that want the task; `None` when unknown or unset, or when there are too many
    /// switches to read.
    pub wanting_users: Option<u64>,
    /// Whether the switches' key was ever seen to exist; `None` when there is no such key to check.
    pub switch_key_seen: Option<bool>,
    /// Users whose "on" was lost.
    pub lost_users: Box<[User]>,
    /// Why the newest reading of the switches is no answer.
    pub switches_unknown: Option<Unknown>,
    /// Whether its key, the lock's or the queue's, was ever seen to exist by this process.
    pub key_seen: bool,
    /// The newest reading: `Some(true)` somebody has it, `Some(false)` nobody (confirmed or not),
    /// `None` unknown.
    pub held: Option<bool>,
    /// Why the newest reading is no answer.
    pub unknown: Option<Unknown>,
    /// The words that came with that, or else with what is unknown of the switches.
    pub said: Option<Arc<str>>,
    /// The server that the newest accepted reading came from.
    pub node: Option<Arc<str>>,
    /// Why that server refuses writes, if it is known to.
    pub refuses_writes: Option<Refusal>,
    /// When the request of the newest accepted reading was sent.
    pub last_reading: Option<Mono>,
    /// What is specific to the kind of guard.
    pub kind: KindView,
    /// The progress, if one is configured.
    pub progress: Option<Box<ProgressView>>,
    /// Instances whose claim is alive.
    pub live_claims: Box<[Holder]>,
    /// Why the newest reading of the claims is no answer. If set, it is unknown which claims are
    /// alive.
    pub claims_unknown: Option<Unknown>,
    /// The runs of its script, as guards state them; `None` without claims, or before they were
    /// read.
    pub runs: Option<Arc<Runs>>,
    /// Why the newest reading of the hosts is no answer.
    pub hosts_unknown: Option<Unknown>,
    /// Splits in force, at most one of each kind, sorted by kind.
    pub splits: Box<[SplitView]>,
    /// Alerts of this task shall wait; `None` when no pause is configured or it cannot be read.
    pub paused: Option<bool>,
    /// Current durations.
    pub durations: Durations,
    /// Sums and counts since the task was configured. Views share one copy while it is unchanged.
    pub totals: Arc<Totals>,
    /// What problems are judged by beside the other fields.
    pub grounds: Grounds,
}

/// The progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressView {
    /// When it was last seen to move, on the server's clock.
    pub moved: Option<ServerTime>,
    /// Why there is none to judge by (`Some(None)`: it is absent).
    pub missing: Option<Option<Unknown>>,
    /// It is gone because its deadline passed, which is a standstill.
    pub expired: bool,
    /// What counts as a movement; `None` while that is not known.
    pub by: Option<Moves>,
    /// Whether it has a TTL; `None` while it is not there.
    pub has_ttl: Option<bool>,
    /// The shortest time between two changes of its bytes, in milliseconds.
    pub shortest_ms: Option<u64>,
}

impl TaskView {
    /// When the progress was last seen to move, on the server's clock.
    pub fn progress_moved(&self) -> Option<ServerTime> {
        self.progress.as_ref().and_then(|progress| progress.moved)
    }

    /// What has lasted of what `limit` limits, in milliseconds.
    pub fn measured_ms(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Grace => self.durations.down_ms,
            Limit::WindDown => self.durations.unwanted_ms,
            Limit::BlindAfter => self.durations.blind_ms,
            Limit::StaleAfter => self.durations.stalled_ms,
            Limit::MaxLate => match &self.kind {
                KindView::Lock(_) => 0,
                KindView::Turn(turn) => turn.late_ms,
                KindView::Queue(queue) => queue.late_ms,
            },
            Limit::Settle | Limit::MaxHold => self.hold().map_or(0, |hold| hold.held_ms),
        }
    }

    /// The lock, if one guards the task.
    pub fn lock(&self) -> Option<&LockView> {
        match &self.kind {
            KindView::Lock(lock) => Some(lock),
            KindView::Turn(_) | KindView::Queue(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn lock_mut(&mut self) -> Option<&mut LockView> {
        match &mut self.kind {
            KindView::Lock(lock) => Some(lock),
            KindView::Turn(_) | KindView::Queue(_) => None,
        }
    }

    /// The present hold of the lock, if it is held by the newest reading.
    pub fn hold(&self) -> Option<&HoldView> {
        self.lock()?.hold.as_ref()
    }

    /// The runs of its script, if it is seen to fail again and again while it is wanted.
    pub fn failing(&self) -> Option<&Runs> {
        let runs = self.runs.as_deref().filter(|runs| runs.fails == Some(true))?;
        (self.claims_unknown.is_none() && !self.is_known_unwanted()).then_some(runs)
    }

    /// Whether it is known that nobody wants it.
    pub fn is_known_unwanted(&self) -> bool {
        self.wanted == Wanted::No && self.switch_key_seen != Some(false)
    }

    /// The tasks that take turns, if it is of that kind.
    pub fn turn(&self) -> Option<&TurnView> {
        if let KindView::Turn(turn) = &self.kind { Some(turn) } else { None }
    }

    /// The queue, if it is of that kind.
    pub fn queue(&self) -> Option<&QueueView> {
        if let KindView::Queue(queue) = &self.kind { Some(queue) } else { None }
    }
}

/// The basis of a verdict. [`crate::verdict::trace`] lists the rules that were considered for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// All facts that the verdict depends on.
    pub facts: Facts,
    /// The previous verdict.
    pub previous: Option<Verdict>,
}

/// A period that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// When its end became known.
    pub at: Mono,
    /// Its length in milliseconds.
    pub ms: u64,
}

/// Evidence for two holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitView {
    /// The kind of evidence.
    pub kind: SplitKind,
    /// The instances concerned.
    pub parties: Vec<Party>,
    /// When it was first seen.
    pub since: Mono,
    /// Its duration as of the newest evidence, in milliseconds.
    pub lasted_ms: u64,
}

/// A switch and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchView {
    /// The user.
    pub user: User,
    /// `Some(true)` on, `Some(false)` off, `None` undecodable.
    pub on: Option<bool>,
    /// The codec that would decode an undecodable value.
    pub fits: Option<Codec>,
}

/// Durations of present conditions, as of the newest evidence. 0 when the condition does not hold;
/// the value is kept while blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Wanted without a holder.
    pub down_ms: u64,
    /// Two holders.
    pub split_ms: u64,
    /// Held without progress.
    pub stalled_ms: u64,
    /// Held though no user wants it.
    pub unwanted_ms: u64,
    /// No trustworthy reading of the lock, or of "wanted" while it is free.
    pub blind_ms: u64,
    /// Switches lost.
    pub switches_lost_ms: u64,
}

/// Sums and counts since the task was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Time during which the task was wanted.
    pub wanted_ms: u64,
    /// Time wanted without a holder (confirmed gaps).
    pub down_ms: u64,
    /// Outages.
    pub outage_ms: u64,
    /// Time with two holders.
    pub split_ms: u64,
    /// Time without a trustworthy reading.
    pub blind_ms: u64,
    /// Splits by [`SplitKind::ALL`].
    pub splits: [u64; SplitKind::ALL.len()],
    /// Renewals.
    pub renewals: u64,
    /// Deadlines moved back.
    pub shortened: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Ends of holds by [`End::ALL`].
    pub ends: [u64; End::ALL.len()],
    /// Holds that were lost although the holder lived.
    pub holds_lost: u64,
    /// Fencing tokens that went backwards.
    pub token_resets: u64,
    /// Holds too short to end a gap.
    pub phantom_holds: u64,
    /// Renewal latencies.
    pub renewal_latency: Histogram,
    /// Take-overs; `None` before the first.
    pub take_overs: Option<Box<TakeOvers>>,
}

/// How long it took until another holder, or the same again, had the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOvers {
    /// Gaps that ended.
    pub handovers: Histogram,
    /// Outages that ended.
    pub outages: Histogram,
    /// The gap that ended last.
    pub last_handover: Option<Past>,
    /// The outage that ended last.
    pub last_outage: Option<Past>,
}

impl TakeOvers {
    /// None so far.
    const NONE: TakeOvers = TakeOvers {
        handovers: Histogram::new(&HANDOVER_BOUNDS_MS),
        outages: Histogram::new(&OUTAGE_BOUNDS_MS),
        last_handover: None,
        last_outage: None,
    };

    /// Another gap ended, or there was none.
    pub(crate) fn handed_over(&mut self, past: Past) {
        self.handovers.observe(past.ms);
        self.last_handover = Some(past);
    }

    /// Another outage ended.
    pub(crate) fn outage_ended(&mut self, past: Past) {
        self.outages.observe(past.ms);
        self.last_outage = Some(past);
    }
}

impl Totals {
    /// The take-overs so far.
    pub fn take_overs(&self) -> &TakeOvers {
        static NONE: TakeOvers = TakeOvers::NONE;
        self.take_overs.as_deref().unwrap_or(&NONE)
    }

    /// The same, to be changed.
    pub fn take_overs_mut(&mut self) -> &mut TakeOvers {
        self.take_overs.get_or_insert_with(|| Box::new(TakeOvers::NONE))
    }
}

/// Bounds of handovers: a release is taken over in milliseconds, a crash costs a lease.
pub const HANDOVER_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [500, 2_000, 5_000, 15_000, 60_000, 300_000];
/// Bounds of outages: around the usual leases.
pub const OUTAGE_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [2_000, 10_000, 30_000, 60_000, 120_000, 600_000];
/// Bounds of renewal latencies: healthy ones are 5 to 60 ms.
pub const RENEWAL_LATENCY_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [25, 100, 500, 2_000, 10_000, 30_000];
/// Bounds of batch round trips.
pub const SAMPLE_BOUNDS_MS: [u64; Histogram::BUCKETS] = [1, 5, 20, 100, 500, 2_000];

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            wanted_ms: 0,
            down_ms: 0,
            outage_ms: 0,
            split_ms: 0,
            blind_ms: 0,
            splits: [0; SplitKind::ALL.len()],
            renewals: 0,
            shortened: 0,
            acquisitions: 0,
            ends: [0; End::ALL.len()],
            holds_lost: 0,
            token_resets: 0,
            phantom_holds: 0,
            renewal_latency: Histogram::new(&RENEWAL_LATENCY_BOUNDS_MS),
            take_overs: None,
        }
    }
}

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
    /// What problems are judged by beside the other fields.
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

impl TaskView {
    /// The words that came with what is unknown, if that is because of `why`.
    pub fn words(&self, why: Unknown) -> Option<&str> {
        self.said.as_deref().filter(|_| self.unknown.or(self.switches_unknown) == Some(why))
    }
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
