//! Three clocks as three types. Only instants of one type can be subtracted; nothing here can read
//! a clock.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The agent's monotonic clock: milliseconds since an origin that has no meaning outside the
/// process.
///
/// Every duration that a verdict depends on is a difference of two of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Mono(pub u64);

impl Mono {
    /// Milliseconds from `earlier` to `self`, 0 when `earlier` is later.
    pub fn since_ms(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `ms` later.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }

    /// The instant `ms` earlier, but never before the origin.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Mono {
        Mono(self.0.saturating_sub(ms))
    }
}

/// A store server's wall clock: milliseconds since the Unix epoch, as that server reports them
/// (`TIME`, `PEXPIRETIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ServerTime(pub i64);

impl ServerTime {
    /// Milliseconds from `earlier` to `self`; negative when `earlier` is later.
    pub fn since_ms(self, earlier: ServerTime) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `ms` later (earlier when negative).
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> ServerTime {
        ServerTime(self.0.saturating_add(ms))
    }
}

/// The agent's wall clock: milliseconds since the Unix epoch. For display only; no verdict depends
/// on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentWall(pub i64);

pub(crate) fn to_i64(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
