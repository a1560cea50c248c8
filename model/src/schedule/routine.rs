//! Which changes of a lock are routine: those that come when its holder renews its lease again, as
//! it has been doing at an even pace. Nothing of interest is behind nearly all of them, and where
//! there are many locks nearly all changes are such.
//!
//! What is expected may be wrong, and nothing is concluded from it: whoever is told of such a
//! change may wait a moment, so that many are followed together.

use core::num::NonZeroU64;

use crate::reading::{Deadline, LockReading};
use crate::time::{Mono, ServerTime};

/// Whoever renews more often than this is not waited for.
const PERIOD_MIN_MS: u64 = 1_000;
/// A pace is even if periods differ by no more than one part in so many, within these bounds. The
/// more is allowed, the more changes are taken for a renewal that are none.
const UNEVEN: u64 = 400;
const UNEVEN_MS: (u64, u64) = (10, 50);
/// The whole lease may be given off the pace so often in a row: by a new holder, and by whoever
/// renews in between.
const OFF_PACE_MAX: u8 = 2;

/// How the lease of one lock was renewed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Routine {
    deadline: Option<ServerTime>,
    /// The time between two renewals: by how much the deadline moved.
    period_ms: u64,
    /// It moved as far before, or as far as some renewals that were not seen explain.
    is_even: bool,
    /// How often in a row the whole lease was given off the pace, and how far the deadline moved
    /// with the last of these.
    off_pace: (u8, u64),
    /// What a renewal gives: the most that was ever seen to be left since the pace changed.
    lease_ms: u64,
    /// When the newest renewal was.
    renewed_at: Mono,
}

/// When a lock is renewed, by the pace so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    renewed_at: Mono,
    period_ms: NonZeroU64,
}

impl Expected {
    /// Each `period_ms`, and so at `renewed_at`.
    pub fn new(renewed_at: Mono, period_ms: NonZeroU64) -> Expected {
        Expected { renewed_at, period_ms }
    }

    /// Whether a renewal is expected about `now`. One that was not told of is no reason not to
    /// expect the next.
    pub fn is_about(self, now: Mono) -> bool {
        let since_ms = now.since_ms(self.renewed_at);
        let uneven_ms = uneven_ms(self.period_ms.get());
        since_ms > uneven_ms && (since_ms + uneven_ms) % self.period_ms <= 2 * uneven_ms
    }
}

impl Routine {
    /// When the lock is renewed, if it is held, and that is at an even pace.
    pub(super) fn expected(&self) -> Option<Expected> {
        let period_ms =
            NonZeroU64::new(self.period_ms).filter(|_| self.is_even && self.deadline.is_some())?;
        Some(Expected::new(self.renewed_at, period_ms))
    }

    /// Takes in what was read of the lock: asked at `sent`, when the server's clock stood at
    /// `server`.
    pub(super) fn observe(&mut self, sent: Mono, server: ServerTime, lock: &LockReading) {
        let deadline = match lock {
            LockReading::Held(held) => match held.deadline {
                Deadline::At(deadline) => deadline,
                Deadline::Never => return *self = Routine::default(),
                Deadline::Torn => return,
            },
            // Whoever takes it next probably renews at the same pace.
            LockReading::Free => return self.deadline = None,
            LockReading::Unknown(_) => return,
        };
        let before = self.deadline.replace(deadline);
        if before == Some(deadline) {
            return;
        }
        let left_ms = u64::try_from(deadline.since_ms(server)).unwrap_or(0);
        let step_ms =
            before.map_or(0, |before| u64::try_from(deadline.since_ms(before)).unwrap_or(0));
        let (times, last_ms) = self.off_pace;
        if continues(self.period_ms, step_ms) {
            (self.is_even, self.off_pace) = (true, (0, 0));
            self.lease_ms = self.lease_ms.max(left_ms);
        } else if self.is_even
            && times < OFF_PACE_MAX
            && left_ms.abs_diff(self.lease_ms) <= uneven_ms(self.period_ms)
        {
            self.off_pace = (times + 1, step_ms);
        } else {
            self.is_even =
                last_ms >= PERIOD_MIN_MS && step_ms.abs_diff(last_ms) <= uneven_ms(last_ms);
            (self.period_ms, self.lease_ms, self.off_pace) = (step_ms, left_ms, (0, 0));
        }
        self.renewed_at = Mono((sent.0 + left_ms).saturating_sub(self.lease_ms));
    }
}

/// Whether a deadline that moved by `step_ms` moved by one period, or by several.
fn continues(period_ms: u64, step_ms: u64) -> bool {
    let uneven_ms = uneven_ms(period_ms);
    period_ms >= PERIOD_MIN_MS
        && step_ms > uneven_ms
        && (step_ms + uneven_ms) % period_ms <= 2 * uneven_ms
}

fn uneven_ms(period_ms: u64) -> u64 {
    (period_ms / UNEVEN).clamp(UNEVEN_MS.0, UNEVEN_MS.1)
}
