//! The configuration of a lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::kinds::runs::spec::RunsSpec;
use crate::spec::{Claimants, LibraryName, Score, StoreIndex, ValuePath};

/// The lock of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct LockSpec {
    /// The lock's key.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub key: Vec<u8>,
    /// The field of the hash at `key` that is the lock; `None`: the key itself is.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::bytes"))]
    pub field: Option<Vec<u8>>,
    /// The library whose layout it has.
    #[cfg_attr(feature = "serde", serde(rename = "scheme"))]
    pub library: LibraryName,
    /// Where in the lock's value the holder is named; `None`: as the library says.
    pub holder: Option<Box<ValuePath>>,
    /// Where in the lock's value its holder's host is named; `None`: nowhere.
    pub host: Option<Box<ValuePath>>,
    /// What the scores of its members mean; `None`: it has no scores.
    pub score: Option<Score>,
    /// How many may hold it at once; `None`: not known, so that several are no split.
    pub limit: Option<u32>,
    /// Full lifetime of a hold in milliseconds; learned when `None`.
    pub lease_ms: Option<u64>,
    /// Pause between two renewals in milliseconds. When `None`, it follows the library's rule or is
    /// learned.
    pub renew_every_ms: Option<u64>,
    /// How often the library renews a lease by its own rule; `None`: it has none.
    pub renewals_per_lease: Option<u32>,
    /// Whether no lock of this library has a deadline, so that none should have one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub never_expires: bool,
    /// How holders name themselves in the claims.
    pub claimants: Claimants,
    /// It exists only while a run lasts, and how often there is one; `None`: no periodic task.
    pub runs: Option<Box<RunsSpec>>,
    /// The independent stores that it stands on; `None`: only on that of the task.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stores: Option<Box<Stores>>,
}

/// The independent stores that a lock stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Stores {
    /// At least two; one of them is the task's own, which has its other keys.
    pub all: Vec<StoreIndex>,
    /// How many of them must show a holder.
    pub mode: Agreement,
}

named! {
    /// How many of the stores of a lock must agree for somebody to have it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Agreement {
        /// A majority of all of them, as with Redlock.
        Quorum = "quorum",
        /// One: clients fail over from one store to another.
        Any = "any",
    }
}

impl LockSpec {
    /// A lock of a library without rules of its own. Its lease and renewal period are learned.
    pub fn new(key: &[u8], library: &str) -> LockSpec {
        LockSpec {
            key: key.to_vec(),
            field: None,
            library: LibraryName::new(library),
            holder: None,
            host: None,
            score: None,
            limit: None,
            lease_ms: None,
            renew_every_ms: None,
            renewals_per_lease: None,
            never_expires: false,
            claimants: Claimants::Secret,
            runs: None,
            stores: None,
        }
    }
}
