//! The configuration of a queue of delayed tasks.

use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::spec::{Claimants, Key, LibraryName, Unit, ValuePath};

/// Delayed tasks: a sorted set of ids, scored by the instant at which each is due. Who executes one
/// holds its lock, if there are locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct QueueSpec {
    /// The sorted set.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub zset: Key,
    /// The unit of its scores.
    pub unit: Unit,
    /// Where in a member its id lies; `None`: the member is the id.
    pub id: Option<ValuePath>,
    /// The keys of the locks; `None`: nothing shows who executes a member.
    pub lock: Option<KeyPattern>,
    /// The library whose layout the locks have.
    pub library: LibraryName,
    /// How often that library renews a lease by its own rule; `None`: it has none.
    pub renewals_per_lease: Option<u32>,
    /// How holders name themselves in the claims.
    pub claimants: Claimants,
    /// A due member that nobody executes may wait for so long, in milliseconds.
    pub max_late_ms: u64,
}

impl QueueSpec {
    /// Number of members that are looked at: those that have been due for longest.
    pub const FIRST: usize = 100;
    /// Default of [`QueueSpec::max_late_ms`].
    pub const MAX_LATE_MS: u64 = 60_000;
    /// One member that is passed over for so many times `max_late` is late, whatever others do.
    pub const PASSED_OVER: u64 = 10;

    /// A queue with default settings. Its library has no rules of its own.
    pub fn new(zset: &[u8], lock: impl Into<Option<KeyPattern>>, library: &str) -> QueueSpec {
        QueueSpec {
            zset: zset.to_vec(),
            unit: Unit::Seconds,
            id: None,
            lock: lock.into(),
            library: LibraryName::new(library),
            renewals_per_lease: None,
            claimants: Claimants::Secret,
            max_late_ms: QueueSpec::MAX_LATE_MS,
        }
    }

    /// The key of the lock of this id; `None` if there are no locks.
    pub fn lock_of(&self, id: &[u8]) -> Option<Key> {
        self.lock.as_ref().map(|lock| lock.key(id))
    }
}

/// A key with an id in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct KeyPattern {
    /// What stands before the id.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub before: Vec<u8>,
    /// What stands behind it.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub after: Vec<u8>,
}

impl KeyPattern {
    /// What stands for the id.
    pub const ID: &'static [u8] = b"{id}";

    /// The pattern that is written with `{id}` in it; `None` if that is not there just once.
    pub fn parse(text: &[u8]) -> Option<KeyPattern> {
        let mut found = text.windows(Self::ID.len()).enumerate();
        let at = found.find(|(_, window)| *window == Self::ID)?.0;
        let again = found.any(|(_, window)| window == Self::ID);
        let (before, rest) = text.split_at_checked(at)?;
        let after = rest.get(Self::ID.len()..)?;
        (!again).then(|| KeyPattern { before: before.to_vec(), after: after.to_vec() })
    }

    /// The key for `id`.
    pub fn key(&self, id: &[u8]) -> Key {
        [&self.before, id, &self.after].concat()
    }

    /// As it is written.
    pub fn text(&self) -> Vec<u8> {
        self.key(Self::ID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_its_id_once() {
        let pattern = KeyPattern::parse(b"lock_{id}").unwrap();
        assert_eq!(pattern.key(b"7"), b"lock_7");
        assert_eq!(pattern.text(), b"lock_{id}");
        let pattern = KeyPattern::parse(b"{q}:{id}:lock").unwrap();
        assert_eq!(pattern.key(b"{id}"), b"{q}:{id}:lock", "an id may be any bytes");
        for wrong in [&b"lock"[..], b"{id}{id}", b"lock_{ID}", b""] {
            assert_eq!(KeyPattern::parse(wrong), None, "{wrong:?}");
        }
    }
}
