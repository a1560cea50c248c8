//! The immutable view that every output reads. What is not known is `None`; outputs leave it out.

mod tasks;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub(crate) use self::tasks::Changed;
pub use self::tasks::{Iter, TaskViews};
use crate::event::{End, Fate, Party, SplitKind};
use crate::histogram::Histogram;
use crate::input::{Generation, Role, SentinelWord, WakeUps};
use crate::reading::{Holder, Mode, Unknown, User};
use crate::spec::{Codec, RedisSpec, TaskSpec};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, LockFact, Rule, Verdict, Wanted};

/// Everything that is known at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was made.
    pub at: Mono,
    /// Counts snapshots.
    pub sequence: u64,
    /// The tasks, sorted by name.
    pub tasks: TaskViews,
    /// The redises, in the order of the configuration.
    pub redises: Vec<Arc<RedisView>>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its configuration.
    pub spec: Arc<TaskSpec>,
    /// Name of its redis.
    pub redis: Arc<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that gave it.
    pub rule: Rule,
    /// When the verdict was given first.
    pub verdict_since: Mono,
    /// What the verdict was judged by; `None` before the first judgement.
    pub judged: Option<Judged>,
    /// Whether users want it.
    pub wanted: Wanted,
    /// Every switch that exists; `None` when unknown or unset, or when there are too many to read
    /// them all.
    pub switches: Option<Vec<SwitchView>>,
    /// How many users want it; `None` when unknown or unset, or when there are too many switches to
    /// read them all.
    pub wanting_users: Option<u64>,
    /// Whether the switches' key was ever seen to exist; `None` when there is none to see.
    pub switch_key_seen: Option<bool>,
    /// Users whose "on" was lost.
    pub lost_users: Vec<User>,
    /// Why the newest reading of the switches is no answer.
    pub switches_unknown: Option<Unknown>,
    /// What is known of the lock, after confirmation.
    pub lock_fact: LockFact,
    /// The newest reading: `Some(true)` held, `Some(false)` free (confirmed or not), `None`
    /// unknown.
    pub held: Option<bool>,
    /// Why the newest reading is no answer.
    pub unknown: Option<Unknown>,
    /// The server that the newest accepted reading came from.
    pub node: Option<Arc<str>>,
    /// What the other servers show; evidence only.
    pub witnesses: Vec<WitnessView>,
    /// When the newest accepted reading was asked for.
    pub last_reading: Option<Mono>,
    /// The present hold; `None` unless `held` is true.
    pub hold: Option<HoldView>,
    /// Waiters, where known.
    pub waiters: Option<u64>,
    /// The fencing token last given out, where known.
    pub fencing_token: Option<i64>,
    /// Full lifetime of a hold, where configured or learned.
    pub lease_ms: Option<u64>,
    /// Pause between two renewals, where configured, learned or the library's rule.
    pub renewal_period_ms: Option<u64>,
    /// When the progress was last seen to move, server's clock.
    pub progress_moved: Option<ServerTime>,
    /// Why there is no progress to judge by (`Some(None)`: it is absent).
    pub progress_missing: Option<Option<Unknown>>,
    /// Instances whose claim is alive.
    pub live_claims: Vec<Holder>,
    /// Why the newest reading of the claims is no answer: whose is alive is not known.
    pub claims_unknown: Option<Unknown>,
    /// Why the newest reading of the hosts is no answer.
    pub hosts_unknown: Option<Unknown>,
    /// Splits in force, at most one of each kind, sorted by kind.
    pub splits: Vec<SplitView>,
    /// Pages of this task shall wait; `None` when no pause is configured or it cannot be read.
    pub paused: Option<bool>,
    /// When the newest renewals of this lock landed, by any holder, oldest first; at most
    /// [`RENEWALS_KEPT`].
    pub renewals: Arc<[Mono]>,
    /// The gap that ended last.
    pub last_handover: Option<Past>,
    /// The outage that ended last.
    pub last_outage: Option<Past>,
    /// Current durations.
    pub durations: Durations,
    /// Sums and counts since the task was configured; one copy for all views between which they did
    /// not change.
    pub totals: Arc<Totals>,
}

/// What a verdict was judged by: [`crate::verdict::trace`] of it tells every rule that was
/// considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Everything that the verdict depends on.
    pub facts: Facts,
    /// The verdict before.
    pub previous: Option<Verdict>,
}

/// Something that lasted and is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// When its end became known.
    pub at: Mono,
    /// How long it was.
    pub ms: u64,
}

/// Evidence for two holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitView {
    /// What kind of evidence.
    pub kind: SplitKind,
    /// The instances concerned.
    pub parties: Vec<Party>,
    /// When it was seen first.
    pub since: Mono,
    /// How long it has lasted, as of the newest evidence.
    pub lasted_ms: u64,
}

/// What a server that does not decide shows of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessView {
    /// The server.
    pub node: Arc<str>,
    /// What it says it is.
    pub role: Role,
    /// When it was asked.
    pub at: Mono,
    /// Its holders; `None` when it shows none.
    pub holders: Option<Vec<Holder>>,
    /// Of a replica: how far its deadline is behind; `None` when that cannot be told.
    pub behind_ms: Option<u64>,
}

/// A switch and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchView {
    /// Whose.
    pub user: User,
    /// `Some(true)` on, `Some(false)` off, `None` undecodable.
    pub on: Option<bool>,
    /// The codec that would read an undecodable value.
    pub fits: Option<Codec>,
}

/// Holders, each with its host where that is known.
pub type HeldBy = Arc<[(Holder, Option<Vec<u8>>)]>;

/// The present hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// Whether holders exclude each other.
    pub mode: Mode,
    /// Who holds it, and on which host, where that is known; one copy for all views of the hold.
    pub holders: HeldBy,
    /// Readers that died but still block writers.
    pub ghosts: u32,
    /// When it was acquired, server's clock; `None` when its start was not seen.
    pub acquired: Option<ServerTime>,
    /// Held for at least so long.
    pub held_ms: u64,
    /// When it was last renewed, server's clock.
    pub last_renewal: Option<ServerTime>,
    /// When the lease ends, server's clock.
    pub deadline: Option<ServerTime>,
    /// What was left of the lease at the newest reading.
    pub ttl_ms: Option<u64>,
    /// Held without any TTL; `None` when the deadline was torn.
    pub persistent: Option<bool>,
    /// How late the newest renewal was.
    pub last_renewal_latency_ms: Option<u64>,
    /// TTL that was left when the newest renewal landed.
    pub last_renewal_margin_ms: Option<u64>,
    /// How late the next renewal is by now; 0 when it is not, or when this hold is not renewed.
    pub renewal_overdue_ms: u64,
}

/// How long something has been so, as of the newest evidence; 0 when it is not so; kept while
/// blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Wanted without a holder.
    pub down_ms: u64,
    /// Two holders.
    pub split_ms: u64,
    /// Held without progress.
    pub stalled_ms: u64,
    /// Held though nobody wants it.
    pub unwanted_ms: u64,
    /// No trustworthy reading of what matters.
    pub blind_ms: u64,
    /// Switches lost.
    pub switches_lost_ms: u64,
}

/// Sums and counts since the task was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Gaps that ended.
    pub handovers: Histogram,
    /// Outages that ended.
    pub outages: Histogram,
    /// Renewal latencies.
    pub renewal_latency: Histogram,
}

/// Most instants of renewals that are kept of a task: enough for a drawing of some minutes.
pub const RENEWALS_KEPT: usize = 48;

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
            handovers: Histogram::new(&HANDOVER_BOUNDS_MS),
            outages: Histogram::new(&OUTAGE_BOUNDS_MS),
            renewal_latency: Histogram::new(&RENEWAL_LATENCY_BOUNDS_MS),
        }
    }
}

/// One redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisView {
    /// Its configuration.
    pub spec: RedisSpec,
    /// Whether the newest sweep of every server that decides was accepted; `None` before the first.
    pub readable: Option<bool>,
    /// Why it was not.
    pub unknown: Option<Unknown>,
    /// How long one of the servers that decide has not been read, or not been known; 0 while all
    /// are read.
    pub blind_ms: u64,
    /// Servers that said they are master in the newest batch; `None` while none is read.
    pub masters: Option<u64>,
    /// Its servers as far as they are known, sorted by address.
    pub nodes: Vec<NodeView>,
    /// What the configured Sentinels said last.
    pub sentinels: Vec<SentinelWord>,
    /// Slots of a cluster that no master serves.
    pub uncovered_slots: u32,
    /// What the data of the servers that decide live in; empty as long as one of them has not told
    /// it.
    pub generations: Vec<Arc<Generation>>,
    /// Sums and counts.
    pub totals: RedisTotals,
}

/// One server of a redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// `host:port`.
    pub address: Arc<str>,
    /// Whether it decides; a witness does not.
    pub decides: bool,
    /// Whether the newest batch was accepted; `None` before the first.
    pub up: Option<bool>,
    /// Why the newest batch was not.
    pub unknown: Option<Unknown>,
    /// What it says it is.
    pub role: Option<Role>,
    /// Whether it said so itself; `None` before the first accepted batch.
    pub role_verified: Option<bool>,
    /// Its clock at the newest accepted batch.
    pub last_success: Option<ServerTime>,
    /// Its clock minus the agent's.
    pub clock_offset_ms: Option<i64>,
    /// Of a replica: watched locks whose newest deadline it does not have yet; `None` where nothing
    /// was compared.
    pub locks_behind: Option<u64>,
    /// Of a replica: how far the deadline that is farthest behind is behind.
    pub deadline_lag_ms: Option<u64>,
    /// Its version, as it says.
    pub version: Option<Arc<str>>,
    /// Whether it tells of changes, and what came of that in all; `None` where it is not asked to.
    pub wake_ups: Option<WakeUps>,
}

/// Sums and counts of one redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisTotals {
    /// Failed batches and refused tasks by [`Unknown::ALL`].
    pub errors: [u64; Unknown::ALL.len()],
    /// Connections made after the first.
    pub reconnects: u64,
    /// Ticks that found the previous sweep still under way.
    pub skipped_ticks: u64,
    /// Times it may have lost data.
    pub generation_changes: u64,
    /// Locks that were held before a change of generation, by [`Fate::ALL`].
    pub fates: [u64; Fate::ALL.len()],
    /// Round trips of batches.
    pub sample_duration: Histogram,
}

impl Default for RedisTotals {
    fn default() -> RedisTotals {
        RedisTotals {
            errors: [0; Unknown::ALL.len()],
            reconnects: 0,
            skipped_ticks: 0,
            generation_changes: 0,
            fates: [0; Fate::ALL.len()],
            sample_duration: Histogram::new(&SAMPLE_BOUNDS_MS),
        }
    }
}
