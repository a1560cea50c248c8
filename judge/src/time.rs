//! Three clocks as three types. Only instants of one type can be subtracted; nothing here can read
//! a clock.

use core::fmt;
use core::num::NonZeroU64;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The agent's monotonic clock: milliseconds since an origin that has no meaning outside the
/// process.
///
/// Every duration that a verdict depends on is a difference of two of these. What is kept is one
/// more than the milliseconds, so that an `Option` of it takes no more memory than itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(from = "u64", into = "u64"))]
pub struct Mono(NonZeroU64);

impl Mono {
    /// The last instant that there is.
    pub const MAX: Mono = Mono::at(u64::MAX);

    /// The instant `ms` milliseconds after the origin. The largest number means the one before it.
    pub const fn at(ms: u64) -> Mono {
        Mono(NonZeroU64::MIN.saturating_add(ms))
    }

    /// Milliseconds from the origin.
    pub const fn ms(self) -> u64 {
        self.0.get() - 1
    }

    /// Milliseconds from `earlier` to `self`, 0 when `earlier` is later.
    pub fn since_ms(self, earlier: Mono) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The instant `ms` later.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }

    /// The instant `ms` earlier, but never before the origin.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Mono {
        Mono::at(self.ms().saturating_sub(ms))
    }
}

/// A store server's wall clock: milliseconds since the Unix epoch, as that server reports them
/// (`TIME`, `PEXPIRETIME`). An `Option` of it takes no more memory than itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(from = "i64", into = "i64"))]
pub struct ServerTime(NonZeroU64);

impl ServerTime {
    /// The highest bit, with which unsigned numbers have the order of signed ones without it.
    const SIGN: u64 = 1 << 63;

    /// The instant `ms` milliseconds after the epoch. The smallest number means the one after it.
    pub const fn at(ms: i64) -> ServerTime {
        match NonZeroU64::new(ms.cast_unsigned() ^ ServerTime::SIGN) {
            Some(kept) => ServerTime(kept),
            None => ServerTime(NonZeroU64::MIN),
        }
    }

    /// Milliseconds since the epoch.
    pub const fn ms(self) -> i64 {
        (self.0.get() ^ ServerTime::SIGN).cast_signed()
    }

    /// Milliseconds from `earlier` to `self`; negative when `earlier` is later.
    pub fn since_ms(self, earlier: ServerTime) -> i64 {
        self.ms().saturating_sub(earlier.ms())
    }

    /// The instant `ms` later (earlier when negative).
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> ServerTime {
        ServerTime::at(self.ms().saturating_add(ms))
    }
}

/// The agent's wall clock: milliseconds since the Unix epoch. For display only; no verdict depends
/// on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentWall(pub i64);

/// How both are shown, and stand in recordings: by their milliseconds.
macro_rules! by_milliseconds {
    ($($clock:ident: $ms:ty),*) => {$(
        impl Default for $clock {
            fn default() -> $clock {
                $clock::at(0)
            }
        }

        impl fmt::Debug for $clock {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, concat!(stringify!($clock), "({})"), self.ms())
            }
        }

        impl From<$ms> for $clock {
            fn from(ms: $ms) -> $clock {
                $clock::at(ms)
            }
        }

        impl From<$clock> for $ms {
            fn from(at: $clock) -> $ms {
                at.ms()
            }
        }
    )*};
}

by_milliseconds!(Mono: u64, ServerTime: i64);

pub(crate) fn to_i64(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_ordered_and_kept_up_to_their_limits() {
        let ms = [0, 1, u64::MAX - 2, u64::MAX - 1];
        assert_eq!(ms.map(|ms| Mono::at(ms).ms()), ms);
        assert_eq!(Mono::MAX.ms(), u64::MAX - 1);
        assert_eq!(
            (Mono::at(7).plus_ms(u64::MAX), Mono::at(7).minus_ms(9)),
            (Mono::MAX, Mono::at(0))
        );
        let ms = [i64::MIN + 1, -1, 0, 1, i64::MAX];
        assert_eq!(ms.map(|ms| ServerTime::at(ms).ms()), ms);
        assert!(ms.map(ServerTime::at).is_sorted());
        assert_eq!(ServerTime::at(i64::MIN), ServerTime::at(i64::MIN + 1));
        assert_eq!(ServerTime::at(-5).plus_ms(i64::MIN), ServerTime::at(i64::MIN));
        assert_eq!(
            alloc::format!("{:?} {:?}", Mono::at(5), ServerTime::at(-5)),
            "Mono(5) ServerTime(-5)"
        );
        assert_eq!((size_of::<Option<Mono>>(), size_of::<Option<ServerTime>>()), (8, 8));
    }
}
