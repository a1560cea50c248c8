//! The rate limit: a bucket that holds `burst` tokens and gets one more each interval.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::web::RateLimit;

#[derive(Debug)]
pub(super) struct Bucket {
    limit: RateLimit,
    level: Mutex<Level>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(limit: RateLimit) -> Bucket {
        let level = Level { tokens: f64::from(limit.burst), at: Instant::now() };
        Bucket { limit, level: Mutex::new(level) }
    }

    /// Takes one token, if there is one.
    pub(super) fn take(&self) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, taken) = level.take(self.limit, Instant::now());
        *level = next;
        taken
    }
}

impl Level {
    fn take(self, limit: RateLimit, now: Instant) -> (Level, bool) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let gained = passed / limit.interval.as_secs_f64();
        let tokens = (self.tokens + gained).min(f64::from(limit.burst));
        let taken = tokens >= 1.0;
        (Level { tokens: if taken { tokens - 1.0 } else { tokens }, at: now }, taken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_answered_and_then_one_each_interval() {
        let limit = RateLimit { interval: Duration::from_secs(1), burst: 2 };
        let start = Instant::now();
        let mut level = Level { tokens: 2.0, at: start };
        let mut take = |after_ms| {
            let (next, taken) = level.take(limit, start + Duration::from_millis(after_ms));
            level = next;
            taken
        };
        assert_eq!(
            [0, 0, 0, 900, 1_000, 1_100].map(&mut take),
            [true, true, false, false, true, false]
        );
        assert_eq!([99_000, 99_000, 99_000].map(&mut take), [true, true, false], "at most a burst");
    }

    #[test]
    fn without_a_burst_nothing_is_answered() {
        let bucket = Bucket::new(RateLimit { interval: Duration::from_nanos(1), burst: 0 });
        assert!(!bucket.take());
    }
}
