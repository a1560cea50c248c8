//! A lock that is a field of a hash: `HSETNX` takes it, `HDEL` releases it, and the hash stays.
//!
//! Redis has no command that returns the beginning of a field. So a round of its own first asks
//! how long the value is, and the value is read only if it is short. From then on it is read at
//! once, until a reading fails: one that grew beyond what a reply may have costs its batch once.

use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::expiry::Expiry;
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use crate::redis::value::VALUE_BYTES_MAX;
use lockwatch_judge::reading::{LockReading, Unknown};

/// Asks whether the field is there, and how long its value is.
pub(super) fn size_asks(key: &[u8], field: &[u8]) -> [Ask; 2] {
    [command!("HEXISTS", key, field), command!("HSTRLEN", key, field)]
        .map(|command| Ask::new(Class::Number, command))
}

/// Decodes the replies to [`size_asks`]: the lock, if they say what it is; `None` if the value is
/// to be read.
pub(super) fn sized(replies: &mut Replies<'_>) -> Option<LockReading> {
    match (replies.next(), replies.next()) {
        // One reply, and so true at one instant.
        (Reply::Int(0), _) => Some(LockReading::Free),
        (Reply::Int(1), Reply::Int(length)) => {
            let is_short = usize::try_from(*length).is_ok_and(|length| length <= VALUE_BYTES_MAX);
            (!is_short).then_some(LockReading::Unknown(Unknown::TooLarge))
        }
        (Reply::Error(error), _) | (_, Reply::Error(error)) => {
            Some(LockReading::Unknown(error.into()))
        }
        _ => Some(LockReading::Unknown(Unknown::Protocol)),
    }
}

/// Whether a reply to [`value_ask`] is more than a lock's value may be.
pub(super) fn is_too_long(reply: &Reply) -> bool {
    matches!(reply, Reply::Bytes(value) if value.len() > VALUE_BYTES_MAX)
}

/// Reads the value.
pub(super) fn value_ask(key: &[u8], field: &[u8]) -> Ask {
    Ask::new(Class::Holders, command!("HGET", key, field))
}

/// When a field ends that may have a TTL of its own: with its hash, or earlier.
pub(super) fn ends(hash: Expiry, field: Expiry) -> Expiry {
    match (hash, field) {
        (Expiry::Absent, _) | (_, Expiry::Absent) => Expiry::Absent,
        (Expiry::Never, other) | (other, Expiry::Never) => other,
        (Expiry::At(hash), Expiry::At(field)) => Expiry::At(hash.min(field)),
        // Servers without `PEXPIRETIME` have no TTLs of fields.
        (Expiry::Reckoned { .. }, _) | (_, Expiry::Reckoned { .. }) => hash,
    }
}
