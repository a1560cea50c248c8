//! The one clock of a run: all its parts are on one machine, so `CLOCK_MONOTONIC` is the same for
//! all of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// An instant or a duration in microseconds; instants are the monotonic clock's.
pub(super) type Micros = u64;

/// A second.
pub(super) const SECOND: Micros = 1_000_000;

/// Now.
pub(super) fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}

/// How far the wall clock is ahead of the monotonic one.
pub(super) fn wall_ahead() -> Micros {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    micros(wall).saturating_sub(now())
}

/// A duration as a number.
pub(super) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Sleeps until the clock shows `at`.
pub(super) async fn sleep_until(at: Micros) {
    sleep(Duration::from_micros(at.saturating_sub(now()))).await;
}
