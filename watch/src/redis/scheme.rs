//! The key layouts of lock libraries: one file per scheme, and one line each in [`of`].

use alloc::vec::Vec;

use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::{Extras, Holder, Mode, Unknown};
use lockwatch_judge::spec::SchemeKind;

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
