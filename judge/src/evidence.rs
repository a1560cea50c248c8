//! The origin of a reading: the server, its clock, and its replication offset. Comparing two
//! origins shows what may have happened to the data between two readings.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::input::Generation;
use crate::reading::Unknown;
use crate::spec::Authority;
use crate::time::{Mono, ServerTime, to_i64};

/// Maximum difference in milliseconds between two readings of one deadline on a server that reports
/// only the remaining time.
pub(crate) const NOISE_MS: i64 = 2;
/// A first "free" must be seen again after at least this time.
pub(crate) const CONFIRM_AFTER_MS: u64 = 250;
/// An instant further away than this was written in another unit, in milliseconds: ten years.
const FAR_MS: i64 = 315_360_000_000;

/// The times of one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When the request was sent.
    pub sent: Mono,
    /// The server's clock before it.
    pub first: ServerTime,
    /// The server's clock after it.
    pub last: ServerTime,
}

impl Seen {
    /// Converts an instant of the agent's clock to the server's, relative to this reading.
    pub(crate) fn server_of(self, instant: Mono) -> ServerTime {
        let (later_ms, earlier_ms) = (instant.since_ms(self.sent), self.sent.since_ms(instant));
        self.first.plus_ms(to_i64(later_ms) - to_i64(earlier_ms))
    }

    /// Converts a server time to the agent's clock, relative to this reading.
    pub(crate) fn mono_of(self, instant: ServerTime) -> Mono {
        let ago_ms = self.first.since_ms(instant);
        match u64::try_from(ago_ms) {
            Ok(ago_ms) => self.sent.minus_ms(ago_ms),
            Err(_) => self.sent.plus_ms(ago_ms.unsigned_abs()),
        }
    }
}

/// What the attempts to read something gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    /// Whether the newest one gave an accepted reading.
    pub(crate) newest: Result<(), Unknown>,
    /// The newest accepted reading.
    pub(crate) last: Option<Seen>,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { newest: Err(Unknown::NotReadYet), last: None }
    }
}

impl Attempts {
    /// An accepted reading.
    pub(crate) fn read(seen: Seen) -> Attempts {
        Attempts { newest: Ok(()), last: Some(seen) }
    }
}

/// The origin of one accepted reading.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) node: Arc<str>,
    /// Number of steps of that server's clock so far.
    pub(crate) clock_steps: u32,
    /// `None` if the server refuses to report it.
    pub(crate) generation: Option<Arc<Generation>>,
    /// All replication histories that this server was seen to follow.
    pub(crate) histories: Arc<Vec<Vec<u8>>>,
    /// Bytes of the generation's history written when the reading ended.
    pub(crate) offset: Option<u64>,
    pub(crate) authority: Authority,
}

impl Origin {
    /// Whether server times of both come from one clock without a step between.
    pub(crate) fn same_clock(&self, other: &Origin) -> bool {
        self.authority.ensemble || self.node == other.node && self.clock_steps == other.clock_steps
    }

    /// Whether the servers are known to share a replication history.
    pub(crate) fn related(&self, other: &Origin) -> bool {
        self.histories.iter().any(|id| other.histories.contains(id))
    }

    /// The previous process at the same address, if `old` comes from it.
    pub(crate) fn process_before<'a>(&self, old: &'a Origin) -> Option<&'a Arc<Generation>> {
        let (before, now) = old.generation.as_ref().zip(self.generation.as_ref())?;
        (!Arc::ptr_eq(before, now) && old.node == self.node && before.process != now.process)
            .then_some(before)
    }
}

/// When a deadline was set, if it was set with this lease. The instant must lie between the two
/// readings.
pub(crate) fn set_between(
    deadline: ServerTime,
    lease_ms: u64,
    before: Seen,
    after: Seen,
) -> Option<ServerTime> {
    let instant = deadline.plus_ms(-to_i64(lease_ms));
    let possible = before.first.plus_ms(-NOISE_MS)..=after.last.plus_ms(NOISE_MS);
    possible.contains(&instant).then_some(instant)
}

/// Whether an instant was written in another unit than the configured one. Zero means "at once".
pub(crate) fn is_far(instant: ServerTime, now: ServerTime) -> bool {
    instant.ms() > 0 && instant.since_ms(now).saturating_abs() > FAR_MS
}
