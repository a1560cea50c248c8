//! The agent's clocks: the only place where its monotonic and its wall clock are read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwatch_judge::time::{AgentWall, Mono};
use tokio::time::Instant;

/// Maximum time between the two clock readings of a pair, in milliseconds.
const APART_MS: u64 = 1;
/// Maximum number of attempts to read both clocks within [`APART_MS`]. A machine that fails so
/// often cannot give an exact pair.
const TRIES: usize = 8;

/// Converts instants of the runtime to the state's [`Mono`]: milliseconds since the agent started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now. One agent has one clock.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The instant it is.
    pub fn now(self) -> Mono {
        Mono::at(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// `at` as an instant of the runtime, to sleep until it. Never early: [`Clock::now`] has
    /// reached `at` by then.
    pub fn instant(self, at: Mono) -> Instant {
        let far = Duration::from_secs(86_400 * 365);
        self.origin + Duration::from_millis(at.ms()).min(self.origin.elapsed() + far)
    }

    /// Reads both clocks at one instant, to convert between them.
    pub fn both(self) -> (Mono, AgentWall) {
        let mut pair = (self.now(), self.wall());
        for _ in 0..TRIES {
            // If the thread was preempted between the readings, they are of different instants.
            if self.now().since_ms(pair.0) <= APART_MS {
                break;
            }
            pair = (self.now(), self.wall());
        }
        pair
    }

    /// The wall clock, only for display.
    pub fn wall(self) -> AgentWall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        AgentWall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeping_until_an_instant_reaches_it() {
        let clock = Clock::start();
        tokio::time::sleep_until(clock.instant(Mono::at(23))).await;
        assert!(clock.now() >= Mono::at(23));
        let _no_overflow = clock.instant(Mono::MAX);
    }
}
