//! The terms of a configuration that the specs of several kinds use.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::reading::{Holder, UUID_BYTES, is_uuid};

/// Shortest run of mixed letters and digits that may be a random token. The name of a container is
/// shorter.
const TOKEN_RUN: usize = 16;

/// Position of a store in [`WatchSpec::stores`](crate::spec::WatchSpec::stores).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct StoreIndex(pub u16);

/// A store key: any bytes.
pub type Key = Vec<u8>;

/// Where in a value the part lies that says who or what it is about. It is only carried here:
/// `watch` knows how to follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum ValuePath {
    /// A JSON Pointer to a text or a whole number, `/owner`.
    Json(Arc<str>),
    /// A pattern with one group, `^[0-9]+:(.*)$`.
    Regex(Arc<str>),
}

impl ValuePath {
    /// The name of its form in the configuration, and the path.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            ValuePath::Json(pointer) => ("json", pointer),
            ValuePath::Regex(pattern) => ("regex", pattern),
        }
    }
}

named! {
    /// The unit in which a program writes instants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Unit {
        /// Milliseconds since 1970.
        Milliseconds = "ms",
        /// Seconds since 1970.
        Seconds = "s",
    }
}

named! {
    /// What the scores of a lock's members mean, if it is a sorted set. It is only carried here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Score {
        /// When the member was added, or renewed last.
        Refreshed = "refreshed",
        /// Until when the member holds the lock.
        Deadline = "deadline",
    }
}

/// The name of a lock library. It is only compared here: `watch` knows what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct LibraryName(Arc<str>);

impl LibraryName {
    /// The library called `name`.
    pub(crate) fn new(name: &str) -> LibraryName {
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
        /// By a name that others may know, unless it could be a random token.
        Named = "named",
    }
}

impl Claimants {
    /// The holder that names itself `instance`.
    pub fn holder(self, instance: &[u8]) -> Holder {
        match self {
            Claimants::Secret => of_client(instance, true),
            Claimants::Threads => {
                Holder::of_thread(instance).unwrap_or_else(|| of_client(instance, false))
            }
            Claimants::Named => of_client(instance, may_be_a_token(instance)),
        }
    }
}

fn of_client(client: &[u8], secret: bool) -> Holder {
    Holder { client: client.to_vec(), thread: None, entries: None, secret }
}

/// Whether a name could be a random token: it is no text, or it has a UUID or a run of digits and
/// letters in it that is too long and too mixed for a word.
fn may_be_a_token(name: &[u8]) -> bool {
    let has = |run: &[u8], is: fn(&u8) -> bool| run.iter().any(is);
    let is_random = |run: &[u8]| {
        let is_mixed = has(run, u8::is_ascii_uppercase) && has(run, u8::is_ascii_lowercase);
        run.len() >= TOKEN_RUN && (has(run, u8::is_ascii_digit) || is_mixed)
    };
    let of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    core::str::from_utf8(name).is_err()
        || name.split(|byte| !of_base64(byte)).any(is_random)
        || name.windows(UUID_BYTES).any(is_uuid)
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
        for name in [
            "web-1",
            "vm:9780",
            "ip-10-0-0-12.eu-west-1.compute.internal",
            "outbound-7d9f8b6c5d-x2x9z",
            "a1b2c3d4e5f6",
            "warehousescheduler",
            "WEB01:4711",
        ] {
            assert!(!Claimants::Named.holder(name.as_bytes()).secret, "{name}");
        }
        for token in [
            "8743c9c0-0795-4907-87fd-6c719a6b4586",
            "web-1:8743c9c0-0795-4907-87fd-6c719a6b4586",
            "jbd14nbLFQS1FR2o",
            "WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b",
            "AbCdEfGhIjKlMnOpQrStUv==",
        ] {
            assert!(Claimants::Named.holder(token.as_bytes()).secret, "{token}");
        }
        assert!(Claimants::Named.holder(b"\xff\x01").secret);
    }
}
