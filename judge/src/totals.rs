//! Sums and counts of a task.

use crate::event::{End, SplitKind};
use crate::histogram::Histogram;
use crate::seldom::{Absent, Seldom};
use crate::time::Mono;

/// A period that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// When its end became known.
    pub at: Mono,
    /// Its length in milliseconds.
    pub ms: u64,
}

/// Sums and counts since the task was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Renewals.
    pub renewals: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Ends of holds by [`End::ALL`].
    pub ends: [u64; End::ALL.len()],
    /// Time without a trustworthy reading.
    pub blind_ms: u64,
    /// Renewal latencies.
    pub renewal_latency: Histogram,
    /// What most locks never show.
    pub rare: Seldom<RareTotals>,
}

/// What is counted of tasks that users want, and of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RareTotals {
    /// Time during which the task was wanted.
    pub wanted_ms: u64,
    /// Time wanted without a holder (confirmed gaps).
    pub down_ms: u64,
    /// Outages.
    pub outage_ms: u64,
    /// Time with two holders.
    pub split_ms: u64,
    /// Splits by [`SplitKind::ALL`].
    pub splits: [u64; SplitKind::ALL.len()],
    /// Deadlines moved back.
    pub shortened: u64,
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
    /// The gap that ended last.
    pub last_handover: Option<Past>,
    /// The outage that ended last.
    pub last_outage: Option<Past>,
}

impl Absent for RareTotals {
    const ABSENT: &'static RareTotals = &RareTotals {
        wanted_ms: 0,
        down_ms: 0,
        outage_ms: 0,
        split_ms: 0,
        splits: [0; SplitKind::ALL.len()],
        shortened: 0,
        holds_lost: 0,
        token_resets: 0,
        phantom_holds: 0,
        handovers: Histogram::new(&HANDOVER_BOUNDS_MS),
        outages: Histogram::new(&OUTAGE_BOUNDS_MS),
        last_handover: None,
        last_outage: None,
    };
}

impl RareTotals {
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

/// Bounds of handovers: a release is taken over in milliseconds, a crash costs a lease.
pub const HANDOVER_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [500, 2_000, 5_000, 15_000, 60_000, 300_000];
/// Bounds of outages: around the usual leases.
pub const OUTAGE_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [2_000, 10_000, 30_000, 60_000, 120_000, 600_000];
/// Bounds of renewal latencies: healthy ones are 5 to 60 ms.
pub const RENEWAL_LATENCY_BOUNDS_MS: [u64; Histogram::BUCKETS] =
    [25, 100, 500, 2_000, 10_000, 30_000];

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            renewals: 0,
            acquisitions: 0,
            ends: [0; End::ALL.len()],
            blind_ms: 0,
            renewal_latency: Histogram::new(&RENEWAL_LATENCY_BOUNDS_MS),
            rare: Seldom::default(),
        }
    }
}
