//! The key layouts of lock libraries: one file per scheme, and one line each in [`of`].

use alloc::vec::Vec;

use crate::reading::{Extras, Holder, Mode, Unknown};
use crate::reply::{Command, Reply};
use crate::spec::SchemeKind;

mod redisson;
mod string;

/// One library's layout.
pub trait Scheme: Sync {
    /// The command that reads the holders. Its reply is bounded, whatever the key contains.
    fn value(&self, key: &[u8]) -> Command;

    /// Decodes the reply to [`Scheme::value`]. `exists`: the key existed according to the deadlines
    /// around it.
    fn decode(&self, reply: &Reply, exists: bool) -> Value;

    /// Commands for waiters and fencing token. `sharded`: messages go only to the server of the
    /// channel's slot.
    fn extras(&self, key: &[u8], sharded: bool) -> Vec<Command>;

    /// Decodes the replies to [`Scheme::extras`].
    fn decode_extras(&self, replies: &[Reply]) -> Extras;

    /// One command for each holder of a shared lock. A positive integer reply proves that this
    /// holder lives.
    fn liveness(&self, key: &[u8], holders: &[Holder]) -> Vec<Command>;

    /// The instance named by a field of the claims or hosts.
    fn instance(&self, field: &[u8]) -> Vec<u8> {
        field.to_vec()
    }

    /// The holder that names itself `instance` in the claims. The name may contain a secret that
    /// only a holder knows.
    fn claimant(&self, instance: &[u8]) -> Holder;

    /// The library's own rule for the pause between two renewals of a lease.
    fn renewal_period_ms(&self, lease_ms: u64) -> Option<u64>;
}

/// The decoded value of a lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The key does not exist.
    Absent,
    /// It is held.
    Present {
        /// Whether holders exclude each other.
        mode: Mode,
        /// The holders, sorted.
        holders: Vec<Holder>,
    },
    /// The value is no lock of this scheme, or may not be read.
    Unknown(Unknown),
}

/// The implementation of a scheme.
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
