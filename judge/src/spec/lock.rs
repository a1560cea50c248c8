//! The configuration of a lock.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::reading::Holder;

/// The lock of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct LockSpec {
    /// The lock's key.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub key: Vec<u8>,
    /// The library whose layout it has.
    #[cfg_attr(feature = "serde", serde(rename = "scheme"))]
    pub library: LibraryName,
    /// Full lifetime of a hold in milliseconds; learned when `None`.
    pub lease_ms: Option<u64>,
    /// Pause between two renewals in milliseconds. When `None`, it follows the library's rule or is
    /// learned.
    pub renew_every_ms: Option<u64>,
    /// How often the library renews a lease by its own rule; `None`: it has none.
    pub renewals_per_lease: Option<u32>,
    /// How holders name themselves in the claims.
    pub claimants: Claimants,
}

impl LockSpec {
    /// A lock of a library without rules of its own. Its lease and renewal period are learned.
    pub fn new(key: &[u8], library: &str) -> LockSpec {
        LockSpec {
            key: key.to_vec(),
            library: LibraryName::new(library),
            lease_ms: None,
            renew_every_ms: None,
            renewals_per_lease: None,
            claimants: Claimants::Secret,
        }
    }
}

/// The name of a lock library. It is only compared here: `watch` knows what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct LibraryName(Arc<str>);

impl LibraryName {
    /// The library called `name`.
    pub(super) fn new(name: &str) -> LibraryName {
        LibraryName(name.into())
    }

    /// As in the configuration.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

named! {
    /// How a worker names itself in the claims and hosts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Claimants {
        /// By a token that only the holder knows: it is enough to release the lock.
        Secret = "secret",
        /// By `<client>:<thread>` as in the lock, or by the client alone.
        Threads = "threads",
    }
}

impl Claimants {
    /// The holder that names itself `instance`.
    pub fn holder(self, instance: &[u8]) -> Holder {
        match self {
            Claimants::Secret => {
                Holder { client: instance.to_vec(), thread: None, entries: None, secret: true }
            }
            Claimants::Threads => Holder::of_thread(instance).unwrap_or_else(|| Holder {
                client: instance.to_vec(),
                thread: None,
                entries: None,
                secret: false,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimant_gives_nothing_away_that_releases_a_lock() {
        assert!(Claimants::Secret.holder(b"a token").secret);
        let named = Claimants::Threads.holder(b"8743c9c0-0795-4907-87fd-6c719a6b4586");
        assert_eq!(
            (&*named.client, named.secret),
            (&b"8743c9c0-0795-4907-87fd-6c719a6b4586"[..], false)
        );
        let field = Claimants::Threads.holder(b"8743c9c0-0795-4907-87fd-6c719a6b4586:47");
        assert_eq!((field.client, field.entries), (named.client, None));
        assert_eq!(Claimants::Threads.holder(b"srv-1").client, b"srv-1");
    }
}
