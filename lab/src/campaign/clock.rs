//! The clock of a run: all parts run on one machine, so `CLOCK_MONOTONIC` is the same for all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// An instant of the monotonic clock or a duration, in microseconds.
pub(super) type Micros = u64;

/// A second.
pub(super) const SECOND: Micros = 1_000_000;

/// The current instant.
pub(super) fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}

/// Wall clock minus monotonic clock.
pub(super) fn wall_ahead() -> Micros {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    micros(wall).saturating_sub(now())
}

/// A duration in microseconds.
pub(super) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Sleeps until the instant `at`.
pub(super) async fn sleep_until(at: Micros) {
    sleep(Duration::from_micros(at.saturating_sub(now()))).await;
}
