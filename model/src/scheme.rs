//! How lock libraries lay out their locks: one file per scheme, one line each in [`of`].

use alloc::vec::Vec;

use crate::reading::{Extras, Holder, Mode, Unknown};
use crate::reply::{Command, Reply};
use crate::spec::SchemeKind;

mod redisson;
mod string;

/// One library's layout.
pub trait Scheme: Sync {
    /// The one command that reads holders: bounded, whatever the key holds.
    fn value(&self, key: &[u8]) -> Command;

    /// The reply to [`Scheme::value`]; `exists` is what the deadlines around it say.
    fn decode(&self, reply: &Reply, exists: bool) -> Value;

    /// Commands for waiters and fencing token; `sharded` where messages go to the server of the
    /// channel's slot only.
    fn extras(&self, key: &[u8], sharded: bool) -> Vec<Command>;

    /// The replies to [`Scheme::extras`].
    fn decode_extras(&self, replies: &[Reply]) -> Extras;

    /// For each holder of a shared lock, a command whose positive integer reply proves that this
    /// holder lives.
    fn liveness(&self, key: &[u8], holders: &[Holder]) -> Vec<Command>;

    /// The instance that a field of the claims or hosts names.
    fn instance(&self, field: &[u8]) -> Vec<u8> {
        field.to_vec()
    }

    /// Whoever calls itself `instance` in the claims. It may have named itself by what only a
    /// holder knows.
    fn claimant(&self, instance: &[u8]) -> Holder;

    /// The library's own rule for the pause between two renewals of a lease.
    fn renewal_period_ms(&self, lease_ms: u64) -> Option<u64>;
}

/// What a lock's value says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// There is none.
    Absent,
    /// It is held.
    Present {
        /// Whether holders exclude each other.
        mode: Mode,
        /// Who holds it, sorted.
        holders: Vec<Holder>,
    },
    /// It is no lock of this scheme, or may not be read.
    Unknown(Unknown),
}

/// The registry.
pub fn of(kind: SchemeKind) -> &'static dyn Scheme {
    match kind {
        SchemeKind::Redisson => &redisson::Redisson,
        SchemeKind::String => &string::Token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimant_gives_nothing_away_that_releases_a_lock() {
        let by = |kind, instance: &[u8]| of(kind).claimant(instance);
        assert!(by(SchemeKind::String, b"a token").secret);
        let named = by(SchemeKind::Redisson, b"8743c9c0-0795-4907-87fd-6c719a6b4586");
        assert_eq!(
            (&*named.client, named.secret),
            (&b"8743c9c0-0795-4907-87fd-6c719a6b4586"[..], false)
        );
        let field = by(SchemeKind::Redisson, b"8743c9c0-0795-4907-87fd-6c719a6b4586:47");
        assert_eq!((field.client, field.entries), (named.client, None));
        assert_eq!(by(SchemeKind::Redisson, b"srv-1").client, b"srv-1");
    }
}
