//! What the user configured, and whether it can be kept.

use core::fmt;

/// How many renewals are sent per lease, as Redisson's watchdog does it.
const RENEWALS: u64 = 3;
/// Part of the lease that is left when the script is dead.
const MARGIN_PARTS: u64 = 10;
/// The least of that, in milliseconds.
const MARGIN_MIN_MS: u64 = 500;
/// Round trips that may pass before a renewal that was due is known to have failed.
const ROUND_TRIPS: u64 = 3;

/// When a script that ended by itself is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// As long as it is wanted.
    Always,
    /// Only after a failure.
    OnFailure,
    /// Never: the guard ends with it.
    Never,
}

/// The terms of a guard. All in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Full lifetime of a hold after an acquisition or a renewal.
    pub lease_ms: u64,
    /// How long the script may take to end after it was asked to.
    pub stop_after_ms: u64,
    /// The first pause before a restart, and the longest one.
    pub backoff_ms: (u64, u64),
    /// After so many failures in a row another server shall have the lock.
    pub give_up_after: Option<u32>,
    /// When to start again.
    pub restart: Restart,
    /// How long to wait for the lock for the first time; it is tried once in any case.
    pub wait_ms: Option<u64>,
    /// How long the lock is kept after the script first started, although its work is done; 0: no
    /// longer than that. Not with [`Restart::Always`].
    pub at_least_ms: u64,
    /// How long a hold keeps its lease in full before that is shortened: agents must have seen it,
    /// to tell a shortened lease from a short one that ran out.
    pub shown_ms: u64,
}

impl Terms {
    /// Default of [`Terms::lease_ms`]: Redisson's.
    pub const LEASE_MS: u64 = 30_000;
    /// Default of [`Terms::stop_after_ms`]: shorter than the 10 seconds after which Docker kills
    /// what it stops, so that a script that ignores TERM is killed, and the lock given back, before
    /// that.
    pub const STOP_AFTER_MS: u64 = 8_000;
    /// Default of [`Terms::backoff_ms`].
    pub const BACKOFF_MS: (u64, u64) = (1_000, 30_000);
    /// A script that ran for so long did not fail at its start.
    pub const GOOD_MS: u64 = 60_000;

    /// The pause between two renewals.
    pub fn period_ms(&self) -> u64 {
        self.lease_ms / RENEWALS
    }

    /// What is left of the lease when the script is certainly dead.
    pub fn margin_ms(&self) -> u64 {
        (self.lease_ms / MARGIN_PARTS).max(MARGIN_MIN_MS)
    }

    /// Whether a renewal that fails still leaves time to stop the script.
    ///
    /// # Errors
    /// The lease is too short for that.
    pub fn check(&self, round_trip_ms: u64) -> Result<(), TooShort> {
        let too_short = TooShort { terms: *self, round_trip_ms };
        if self.lease_ms >= too_short.needed_ms() { Ok(()) } else { Err(too_short) }
    }
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            lease_ms: Terms::LEASE_MS,
            stop_after_ms: Terms::STOP_AFTER_MS,
            backoff_ms: Terms::BACKOFF_MS,
            give_up_after: None,
            restart: Restart::Always,
            wait_ms: None,
            at_least_ms: 0,
            shown_ms: 0,
        }
    }
}

/// The lease is too short. Displayed with the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    terms: Terms,
    round_trip_ms: u64,
}

impl TooShort {
    fn needed_ms(&self) -> u64 {
        let Terms { stop_after_ms, .. } = self.terms;
        let round_trips_ms = ROUND_TRIPS.saturating_mul(self.round_trip_ms);
        [self.terms.period_ms(), round_trips_ms, stop_after_ms, self.terms.margin_ms()]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The shortest lease that is long enough. The renewal period is a part of it, and so may the
    /// margin be.
    fn enough_ms(&self) -> u64 {
        let round_trips_ms = ROUND_TRIPS.saturating_mul(self.round_trip_ms);
        let fixed_ms = self.terms.stop_after_ms.saturating_add(round_trips_ms);
        let with_least = fixed_ms.saturating_add(MARGIN_MIN_MS).saturating_mul(3).div_ceil(2);
        let with_part = fixed_ms.saturating_mul(30).div_ceil(17);
        // One more for the thirds and tenths that are rounded down.
        with_least.max(with_part).saturating_add(1)
    }
}

impl core::error::Error for TooShort {}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (terms, trip) = (&self.terms, self.round_trip_ms);
        write!(
            f,
            "a lease of {} ms is too short: lease / 3 ({} ms until a renewal) + 3 round trips of \
             {trip} ms + stop_after ({} ms) + margin ({} ms) = {} ms; use a lease of at least {} \
             ms, or a shorter stop_after",
            terms.lease_ms,
            terms.period_ms(),
            terms.stop_after_ms,
            terms.margin_ms(),
            self.needed_ms(),
            self.enough_ms(),
        )
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_lease_that_is_proposed_is_enough_and_hardly_more() {
        for stop_after_ms in [0, 1, 100, 830, 10_000, 3_600_000] {
            for round_trip_ms in [0, 1, 37, 3_000] {
                let terms = Terms { lease_ms: 3, stop_after_ms, ..Terms::default() };
                let Err(short) = terms.check(round_trip_ms) else { panic!("{terms:?}") };
                let lease_ms = short.enough_ms();
                let with = |lease_ms| Terms { lease_ms, ..terms }.check(round_trip_ms);
                assert_eq!(with(lease_ms), Ok(()), "{short}");
                assert!(with(lease_ms - 8).is_err(), "{short}");
            }
        }
    }

    #[test]
    fn the_message_has_the_arithmetic() {
        let terms = Terms { lease_ms: 2_000, stop_after_ms: 1_000, ..Terms::default() };
        assert_eq!(
            terms.check(2).unwrap_err().to_string(),
            "a lease of 2000 ms is too short: lease / 3 (666 ms until a renewal) + 3 round trips \
             of 2 ms + stop_after (1000 ms) + margin (500 ms) = 2172 ms; use a lease of at least \
             2260 ms, or a shorter stop_after"
        );
        assert_eq!(Terms::default().check(5), Ok(()));
    }
}
