//! Redisson: the hash of a lock, and the keys beside it.

use lockwatch_judge::reading::Mode;
use lockwatch_watch::redis::libraries::{self, Value};

use super::{Content, Guess, Laid, Role, Seen};
use crate::discover::shape::{is_number, is_uuid, split_last};

const QUEUE: &[u8] = b"redisson_lock_queue:";
const TIMEOUTS: &[u8] = b"redisson_lock_timeout:";
const TOKEN: &[u8] = b"redisson_lock_token:";
const LATCH: &[u8] = b"redisson_unlock_latch:";

/// Whether the fields of a hash are named like a lock's, so that its values are worth reading.
pub(in crate::discover) fn may_be_lock(names: &[Vec<u8>]) -> bool {
    !names.is_empty() && names.iter().all(|name| name == b"mode" || begins_with_client(name))
}

/// The key of a lock's queue.
pub(in crate::discover) fn queue(lock: &[u8]) -> Vec<u8> {
    beside(QUEUE, lock)
}

/// The key with the timeouts of the queue's waiters.
pub(in crate::discover) fn timeouts(lock: &[u8]) -> Vec<u8> {
    beside(TIMEOUTS, lock)
}

/// The key of a fenced lock's counter.
pub(in crate::discover) fn token(lock: &[u8]) -> Vec<u8> {
    beside(TOKEN, lock)
}

/// The lock itself.
pub(super) fn hash(seen: &Seen) -> Option<Guess> {
    let Content::Hash { names, scanned, .. } = &seen.content else { return None };
    if names.iter().any(|name| is_of_faster_multi_lock(name)) {
        return Some(Guess::Unreadable(
            "Redisson's getMultiLock(group, values): several locks in one hash, which lockwatch \
             does not read yet",
        ));
    }
    let value = libraries::named("redisson")?.decode(scanned.as_ref()?, true);
    let Value::Present { mode, holders } = value else { return None };
    // Other hashes of counters look the same, but only a lock's client ids are UUIDs.
    if !holders.iter().all(|holder| is_uuid(&holder.client)) {
        return None;
    }
    let what = match mode {
        Mode::Exclusive => "Redisson RLock",
        Mode::Read => "Redisson RReadWriteLock (read by its holders)",
        Mode::Write => "Redisson RReadWriteLock (written by its holder)",
    };
    let laid = Laid { library: "redisson", what };
    match mode {
        Mode::Exclusive if holders.len() > 1 => Some(Guess::Doubtful(
            laid,
            "several holders in a lock that has room for one: data of another kind, or a lock that \
             is split",
        )),
        _ => Some(Guess::Lock(laid)),
    }
}

/// Recognises the keys beside locks.
pub(super) fn companion(seen: &Seen) -> Option<Guess> {
    let key = seen.key.as_slice();
    let (role, inner) = match &seen.content {
        Content::List => (Role::Queue, key.strip_prefix(QUEUE)?),
        Content::Sorted { .. } => (Role::Timeouts, key.strip_prefix(TIMEOUTS)?),
        Content::Text { .. } => match (key.strip_prefix(TOKEN), key.strip_prefix(LATCH)) {
            (Some(inner), _) => (Role::Token, inner),
            (None, Some(rest)) => {
                (Role::Latch, split_last(rest, b':').filter(|(_, id)| id.len() == 32)?.0)
            }
            (None, None) => (Role::Reader, read_by(key)?),
        },
        _ => return None,
    };
    Some(Guess::Companion(role, locks_of(inner)))
}

/// The permits of an `RPermitExpirableSemaphore` that are in use.
pub(super) fn permits(seen: &Seen) -> Option<Guess> {
    let inner = seen.key.strip_suffix(b":timeout")?;
    let is_it = matches!(seen.content, Content::Sorted { .. })
        && inner.starts_with(b"{")
        && inner.ends_with(b"}");
    is_it.then_some(Guess::Unreadable(
        "Redisson RPermitExpirableSemaphore: its permits name no holder that lockwatch reads",
    ))
}

/// Maps `{name}:<uuid>:<thread>:rwlock_timeout:<n>` to `{name}`.
fn read_by(key: &[u8]) -> Option<&[u8]> {
    let (rest, entry) = split_last(key, b':')?;
    let (rest, thread) = split_last(rest.strip_suffix(b":rwlock_timeout")?, b':')?;
    let (inner, client) = split_last(rest, b':')?;
    (is_number(entry) && is_integer(thread) && is_uuid(client)).then_some(inner)
}

/// The possible names of the lock whose side keys contain `inner`: Redisson adds braces if the
/// lock's name has none.
pub(in crate::discover) fn locks_of(inner: &[u8]) -> Vec<Vec<u8>> {
    let bare = inner.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}"));
    let bare = bare.filter(|bare| !bare.is_empty() && !bare.contains(&b'{'));
    bare.into_iter().chain([inner]).map(<[u8]>::to_vec).collect()
}

fn beside(prefix: &[u8], lock: &[u8]) -> Vec<u8> {
    if lock.contains(&b'{') { [prefix, lock].concat() } else { [prefix, b"{", lock, b"}"].concat() }
}

fn begins_with_client(name: &[u8]) -> bool {
    name.get(..36).is_some_and(is_uuid) && name.get(36) == Some(&b':')
}

fn is_of_faster_multi_lock(name: &[u8]) -> bool {
    let Some((rest, suffix)) = split_last(name, b':') else { return false };
    let thread = split_last(rest, b':').map(|(_, thread)| thread);
    matches!(suffix, b"expire_time" | b"lock_count") && thread.is_some_and(is_integer)
}

fn is_integer(bytes: &[u8]) -> bool {
    is_number(bytes.strip_prefix(b"-").unwrap_or(bytes))
}
