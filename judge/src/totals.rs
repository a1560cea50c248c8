//! Sums and counts of a task.

use alloc::boxed::Box;

use crate::event::{End, SplitKind};
use crate::histogram::Histogram;
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
