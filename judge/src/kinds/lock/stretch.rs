//! How long somebody has held a lock without a break.
//!
//! A break is a free reading that is confirmed, a free reading of a lock whose lease ran out, or a
//! new holder that surely took the lock after the old lease ran out. Any other new holder between
//! two readings is none, and neither is one whose token identifies nobody.

use crate::time::Mono;

/// The first and the newest reading of a stretch in which somebody held it without a break.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) first: Mono,
    pub(super) newest: Mono,
}

impl Stretch {
    /// Its duration by its readings, in milliseconds.
    pub(super) fn ms(self) -> u64 {
        self.newest.since_ms(self.first)
    }

    /// It is over since `end`; `expired`: for a lease ran out.
    pub(super) fn broken_at(self, end: Mono, expired: bool) -> Break {
        Break { held_ms: end.max(self.newest).since_ms(self.first), expired }
    }
}

/// The end of a stretch in which somebody held the lock without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    /// From the first reading that showed somebody until the lease ran out, or until the first
    /// reading that showed nobody, in milliseconds.
    pub(crate) held_ms: u64,
    /// A lease ran out whose end the holder had not set.
    pub(crate) expired: bool,
}
