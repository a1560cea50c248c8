//! Which hints about a lock are routine: those that come when its holder renews its lease again, as it has been doing at an even
//! pace. Nothing of interest is behind nearly all of them, and where there are many locks nearly all hints are such.
//!
//! What is expected may be wrong and nothing is concluded from it: such a hint only waits a moment, so that many share a batch.

use crate::reading::{Deadline, LockReading};
use crate::time::{Mono, ServerTime};

/// Routine hints are followed together, at multiples of this.
const GATHER_MS: u64 = 250;
/// Whoever renews more often than this is not waited for.
const PERIOD_MIN_MS: u64 = 1_000;
/// Two periods are even if they differ by no more than one part in so many, and by no more than this.
const UNEVEN: (u64, u64) = (20, 500);

/// How the lease of one lock was renewed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Routine {
    deadline: Option<ServerTime>,
    /// By how much the deadline moved at the newest renewal: the time since the one before.
    period_ms: u64,
    /// The one before was as long.
    is_even: bool,
    /// When the newest renewal was told of.
    renewed_at: Mono,
    /// When it was told of something that has not been read yet.
    told_at: Option<Mono>,
}

impl Routine {
    /// It is told at `now` that something changed. Gives when to look at it, if that can wait.
    pub(super) fn told(&mut self, now: Mono) -> Option<Mono> {
        self.told_at.get_or_insert(now);
        self.expects(now).then(|| Mono((now.0 / GATHER_MS + 1) * GATHER_MS))
    }

    /// Whether a renewal is expected about `now`. One that was not told of is no reason not to expect the next.
    fn expects(&self, now: Mono) -> bool {
        let since_ms = now.since_ms(self.renewed_at);
        let uneven_ms = uneven_ms(self.period_ms);
        self.is_even && (since_ms + uneven_ms) % self.period_ms <= 2 * uneven_ms && since_ms > uneven_ms
    }

    /// Takes in what was read of the lock: asked at `sent`.
    pub(super) fn observe(&mut self, sent: Mono, lock: &LockReading) {
        let deadline = match lock {
            LockReading::Held(held) => match held.deadline {
                Deadline::At(deadline) => deadline,
                Deadline::Never => return *self = Routine::default(),
                Deadline::Torn => return,
            },
            LockReading::Free => return *self = Routine::default(),
            LockReading::Unknown(_) => return,
        };
        let moved_ms = self.deadline.replace(deadline).map_or(0, |old| deadline.since_ms(old));
        if moved_ms != 0 {
            let period_ms = u64::try_from(moved_ms).unwrap_or(0);
            let unlike_ms = period_ms.abs_diff(self.period_ms);
            self.is_even = period_ms >= PERIOD_MIN_MS && unlike_ms <= uneven_ms(period_ms);
            self.period_ms = period_ms;
            self.renewed_at = self.told_at.unwrap_or(sent);
        }
        self.told_at = self.told_at.filter(|told| moved_ms == 0 && *told > sent);
    }
}

fn uneven_ms(period_ms: u64) -> u64 {
    (period_ms / UNEVEN.0).min(UNEVEN.1)
}
