//! Redisson's hash: one field `<client id>:<thread>` per holder, its value the re-entry count.
//! Read/write locks add a field `mode`, and `:write` to the writer's field; fair locks keep their
//! queue in a list beside it, fenced ones a counter. node-redisson makes the same hash; its thread
//! is a UUID.

use alloc::vec::Vec;

use super::library::{Disclosure, Library, Value};
use super::recognise::{Content, Guess, Laid, Role, ScannedKey};
use super::shape::{is_number, is_uuid};
use crate::command;
use crate::redis::ask::{Ask, Class, Keys};
use crate::redis::codec;
use crate::redis::replies::{Pair, scanned_pairs};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Extras, Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;

const CHANNEL: &[u8] = b"redisson_lock__channel";
const SHARED_CHANNEL: &[u8] = b"redisson_rwlock";
const QUEUE: &[u8] = b"redisson_lock_queue";
const TOKEN: &[u8] = b"redisson_lock_token";
const TIMEOUTS: &[u8] = b"redisson_lock_timeout";
const LATCH: &[u8] = b"redisson_unlock_latch";
/// A lock of which nothing more is known.
const RLOCK: &str = "Redisson RLock";
/// What follows a reader in the name of a key of its own.
const READER: &[u8] = b":rwlock_timeout:";
/// Maximum number of fields read from a lock's hash. No lock has more, so a larger hash is
/// something else.
const MAX_FIELDS: &str = "128";
/// Maximum number of readers whose liveness is checked. Further ones count as alive.
const MAX_READERS_ASKED: usize = 64;
/// Maximum number of re-entries checked for one reader.
const MAX_ENTRIES_ASKED: u32 = 32;

const NAME: &str = "redisson";

pub(super) struct Redisson;

impl Library for Redisson {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Threads
    }

    /// The watchdog's period.
    fn renewals_per_lease(&self) -> Option<u32> {
        Some(3)
    }

    /// `lockWatchdogTimeout`.
    fn default_lease_ms(&self) -> Option<u64> {
        Some(30_000)
    }

    /// `HSCAN`, not `HGETALL`: the reply is bounded whatever the key contains, and a cursor of 0
    /// proves that it is complete.
    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("HSCAN", key, "0", "COUNT", MAX_FIELDS))
    }

    fn decode(&self, _key: &[u8], reply: &Reply, _exists: bool) -> Value {
        match fields(reply) {
            Ok(fields) if fields.is_empty() => Value::Absent,
            Ok(fields) => decode_fields(&fields).unwrap_or(Value::Unknown(Unknown::Layout)),
            Err(why) => Value::Unknown(why),
        }
    }

    fn extras(&self, key: &[u8], sharded: bool) -> Vec<Ask> {
        let listeners = |count: &str| {
            let channels = [prefixed(CHANNEL, key), prefixed(SHARED_CHANNEL, key)];
            let command = command!("PUBSUB", count, channels[0], channels[1]);
            Ask::keyless(Class::Listeners, command)
        };
        let sharded = sharded.then(|| listeners("SHARDNUMSUB"));
        let token = command!("GETRANGE", prefixed(TOKEN, key), "0", "31");
        let rest = [
            // Versions before 3.22, and newer ones if configured so, use ordinary channels in a
            // cluster as well.
            listeners("NUMSUB"),
            Ask::new(Class::Number, command!("LLEN", prefixed(QUEUE, key))),
            Ask::new(Class::Digits, token),
        ];
        sharded.into_iter().chain(rest).collect()
    }

    fn decode_extras(&self, replies: &[Reply]) -> Extras {
        let [subscribers @ .., queue, token] = replies else { return Extras::default() };
        let queued = queue.as_int().and_then(|length| u64::try_from(length).ok());
        let listening = |pairs: &[Reply]| {
            pairs
                .chunks_exact(2)
                .filter_map(|pair| u64::try_from(pair.last()?.as_int()?).ok())
                .sum::<u64>()
        };
        let listening = subscribers
            .iter()
            .filter_map(|reply| reply.as_array().map(listening))
            .reduce(u64::saturating_add);
        Extras {
            // The queue of a fair lock counts threads. Its waiters do not subscribe to the common
            // channel.
            waiters: match queued {
                Some(queued) if queued > 0 => Some(queued),
                _ => listening,
            },
            fencing_token: token.as_int(),
            queue: None,
        }
    }

    fn shown<'a>(&self, word: &'a [u8], is_name: bool) -> Disclosure<'a> {
        match word {
            b"mode" if is_name => Disclosure::Whole,
            b"read" | b"write" if !is_name => Disclosure::Whole,
            _ if is_name => around_thread(word)
                .map_or(Disclosure::Nothing, |(from, to)| Disclosure::Around(from, to)),
            _ if is_integer(word) => Disclosure::Whole,
            _ => Disclosure::Nothing,
        }
    }

    /// An id is plain text, but Redisson's maps encode their fields with a codec by default.
    fn instance(&self, field: &[u8]) -> Vec<u8> {
        codec::written_text(field)
    }

    fn field(&self, mode: Mode, holder: &Holder) -> Option<Vec<u8>> {
        let name = [&holder.client, b":".as_slice(), holder.thread.as_deref()?].concat();
        let end: &[u8] = if mode == Mode::Write { b":write" } else { b"" };
        Some([&name, end].concat())
    }

    /// A reader lives while one of its own timeout keys does; the hash alone survives as long as
    /// any other reader renews.
    fn liveness(&self, key: &[u8], holders: &[Holder]) -> Vec<Ask> {
        holders.iter().take(MAX_READERS_ASKED).map(|holder| reader_timeouts(key, holder)).collect()
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        companion(seen).or_else(|| hash(seen)).or_else(|| permits(seen))
    }

    fn names_holders(&self, _key: &[u8], fields: &[Vec<u8>]) -> bool {
        !fields.is_empty() && fields.iter().all(|name| name == b"mode" || begins_with_client(name))
    }

    fn is_companion(&self, key: &[u8]) -> bool {
        named_for(key).is_some()
    }

    /// Redisson adds braces if the lock's name has none.
    fn locks_of(&self, inner: &[u8]) -> Vec<Vec<u8>> {
        let bare = inner.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}"));
        let bare = bare.filter(|bare| !bare.is_empty() && !bare.contains(&b'{'));
        bare.into_iter().chain([inner]).map(<[u8]>::to_vec).collect()
    }

    fn kind(&self, what: &'static str, companions: &[Role]) -> &'static str {
        match what {
            "" | RLOCK
                if companions.iter().any(|role| matches!(role, Role::Queue | Role::Timeouts)) =>
            {
                "Redisson RFairLock"
            }
            "" | RLOCK if companions.contains(&Role::Token) => "Redisson RFencedLock",
            what => what,
        }
    }
}

/// `EXISTS {name}:<id>:<thread>:rwlock_timeout:<n> …` for each entry of a reader.
fn reader_timeouts(key: &[u8], reader: &Holder) -> Ask {
    let start = [&braced(key), b":".as_slice()].concat();
    let thread = reader.thread.as_deref().unwrap_or_default();
    let entries = reader.entries.unwrap_or(1).clamp(1, MAX_ENTRIES_ASKED);
    let mut command = command!("EXISTS");
    command.args.extend((1..=entries).map(|entry| {
        let entry = alloc::format!("{entry}");
        [&start, &*reader.client, b":", thread, READER, entry.as_bytes()].concat()
    }));
    let parts = Vec::from([start, READER.to_vec(), Vec::new()]);
    Ask { command, key: Keys::Like(parts), class: Class::Named }
}

/// What stands before and after the thread in the field of a holder or in the name of a reader's
/// key. Who knows client and thread can release the lock.
fn around_thread(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let stem = match split_last(name) {
        Some((reader, entry)) if is_integer(entry) && name.ends_with(&[READER, entry].concat()) => {
            reader.strip_suffix(READER.get(..READER.len() - 1)?)?
        }
        _ => name.strip_suffix(b":write").unwrap_or(name),
    };
    let (mut client, mut thread) = split_last(stem)?;
    if is_uuid(client) && is_uuid(thread) {
        // node-redisson.
        return Some((name.get(..=client.len())?, name.get(stem.len()..)?));
    }
    if !is_integer(thread) {
        // A transaction's lock: <client id>:<thread>:<transaction id>.
        (client, thread) = split_last(client)?;
    }
    let is_holder = !client.is_empty() && is_integer(thread);
    is_holder.then_some((name.get(..=client.len())?, name.get(stem.len()..)?))
}

fn split_last(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}

fn is_integer(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit)
}

/// Redisson's names of auxiliary keys: `prefix:{name}`, or `prefix:name` if the name already has a
/// brace.
fn prefixed(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    let mut name = prefix.to_vec();
    name.push(b':');
    name.extend_from_slice(&braced(key));
    name
}

fn braced(key: &[u8]) -> Vec<u8> {
    if key.contains(&b'{') {
        return key.to_vec();
    }
    let mut name = Vec::with_capacity(key.len() + 2);
    name.push(b'{');
    name.extend_from_slice(key);
    name.push(b'}');
    name
}

type Fields<'a> = Vec<Pair<'a>>;

/// The pairs of a complete scan, sorted, each field once (a scan may repeat one while the server
/// resizes the hash).
fn fields(reply: &Reply) -> Result<Fields<'_>, Unknown> {
    let mut fields = scanned_pairs(reply)?;
    fields.sort_unstable();
    fields.dedup_by(|a, b| a.0 == b.0);
    Ok(fields)
}

fn decode_fields(fields: &Fields<'_>) -> Option<Value> {
    let mode = fields.iter().find(|(field, _)| *field == b"mode").map(|(_, mode)| *mode);
    let entries = fields.iter().filter(|(field, _)| *field != b"mode");
    let (mode, mut holders) = match mode {
        None => (
            Mode::Exclusive,
            entries.map(|(field, count)| holder(field, count)).collect::<Option<Vec<_>>>()?,
        ),
        Some(b"read") => (
            Mode::Read,
            entries.map(|(field, count)| holder(field, count)).collect::<Option<Vec<_>>>()?,
        ),
        Some(b"write") => (Mode::Write, writers(entries)?),
        Some(_) => return None,
    };
    if holders.is_empty() {
        return None;
    }
    holders.sort_unstable();
    Some(Value::Present { mode, holders })
}

/// The writers. A writer may also read; its own read field is no second holder.
fn writers<'a>(entries: impl Iterator<Item = &'a (&'a [u8], &'a [u8])>) -> Option<Vec<Holder>> {
    let mut writers = Vec::new();
    for (field, count) in entries {
        match field.strip_suffix(b":write") {
            Some(field) => writers.push(holder(field, count)?),
            None => drop(holder(field, count)?),
        }
    }
    Some(writers)
}

/// The holder that a field names, with a positive count of its entries.
fn holder(field: &[u8], count: &[u8]) -> Option<Holder> {
    let entries: u32 = core::str::from_utf8(count).ok()?.parse().ok().filter(|count| *count > 0)?;
    Some(Holder { entries: Some(entries), ..Holder::of_thread(field)? })
}

/// The lock itself.
fn hash(seen: &ScannedKey) -> Option<Guess> {
    let Content::Hash { names, scanned, .. } = &seen.content else { return None };
    if names.iter().any(|name| is_of_faster_multi_lock(name)) {
        return Some(Guess::Unreadable(
            "Redisson's getMultiLock(group, values): several locks in one hash, which lockwatch \
             does not read yet",
        ));
    }
    let value = Redisson.decode(&seen.key, scanned.as_ref()?, true);
    let Value::Present { mode, holders } = value else { return None };
    // Other hashes of counters look the same, but only a lock's client ids are UUIDs.
    if !holders.iter().all(|holder| is_uuid(&holder.client)) {
        return None;
    }
    let what = match mode {
        Mode::Exclusive => RLOCK,
        Mode::Read => "Redisson RReadWriteLock (read by its holders)",
        Mode::Write => "Redisson RReadWriteLock (written by its holder)",
    };
    let laid = Laid::new(NAME, what);
    match mode {
        Mode::Exclusive if holders.len() > 1 => Some(Guess::Doubtful(
            laid,
            "several holders in a lock that has room for one: data of another kind, or a lock that \
             is split",
        )),
        _ => Some(Guess::Lock(laid)),
    }
}

/// Recognises the keys that are kept for locks: by their names, and by their types.
fn companion(seen: &ScannedKey) -> Option<Guess> {
    let (role, inner) = named_for(&seen.key)?;
    let has_its_type = match role {
        Role::Queue => matches!(seen.content, Content::List),
        Role::Timeouts => matches!(seen.content, Content::Sorted { .. }),
        Role::Token | Role::Latch | Role::Reader => matches!(seen.content, Content::Text { .. }),
    };
    has_its_type.then(|| Guess::Companion(NAME, role, Redisson.locks_of(inner)))
}

/// What a key of this name is kept for, and the lock's name in it.
fn named_for(key: &[u8]) -> Option<(Role, &[u8])> {
    const PREFIXES: [(Role, &[u8]); 3] =
        [(Role::Queue, QUEUE), (Role::Timeouts, TIMEOUTS), (Role::Token, TOKEN)];
    let prefixed = PREFIXES.iter().find_map(|(role, prefix)| Some((*role, after(prefix, key)?)));
    let latch = || {
        let (inner, id) = split_last(after(LATCH, key)?)?;
        (id.len() == 32).then_some((Role::Latch, inner))
    };
    prefixed.or_else(latch).or_else(|| Some((Role::Reader, read_by(key)?)))
}

/// The permits of an `RPermitExpirableSemaphore` that are in use.
fn permits(seen: &ScannedKey) -> Option<Guess> {
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
    let (rest, entry) = split_last(key)?;
    let (rest, thread) = split_last(rest.strip_suffix(b":rwlock_timeout")?)?;
    let (inner, client) = split_last(rest)?;
    (is_number(entry) && is_integer(thread) && is_uuid(client)).then_some(inner)
}

/// What follows a prefix in the name of a key beside a lock.
fn after<'a>(prefix: &[u8], key: &'a [u8]) -> Option<&'a [u8]> {
    key.strip_prefix(prefix)?.strip_prefix(b":")
}

fn begins_with_client(name: &[u8]) -> bool {
    name.get(..36).is_some_and(is_uuid) && name.get(36) == Some(&b':')
}

fn is_of_faster_multi_lock(name: &[u8]) -> bool {
    let Some((rest, suffix)) = split_last(name) else { return false };
    let thread = split_last(rest).map(|(_, thread)| thread);
    matches!(suffix, b"expire_time" | b"lock_count") && thread.is_some_and(is_integer)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const A: &str = "285475da-9152-4c83-822a-67ee2f116a79";
    const B: &str = "0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b";

    fn scan(cursor: &str, fields: &[(&str, &str)]) -> Reply {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let items = fields.iter().flat_map(|(field, value)| [text(field), text(value)]).collect();
        Reply::Array(vec![text(cursor), Reply::Array(items)])
    }

    fn decode(fields: &[(&str, &str)]) -> Value {
        Redisson.decode(b"lock", &scan("0", fields), true)
    }

    /// Client, thread, entries.
    type Named = (Vec<u8>, Vec<u8>, u32);

    fn names(value: Value) -> (Mode, Vec<Named>) {
        match value {
            Value::Present { mode, holders } => (
                mode,
                holders
                    .into_iter()
                    .map(|holder| (holder.client, holder.thread.unwrap(), holder.entries.unwrap()))
                    .collect(),
            ),
            other => panic!("{other:?}"),
        }
    }

    fn id(client: &str, thread: &str, entries: u32) -> Named {
        (client.as_bytes().to_vec(), thread.as_bytes().to_vec(), entries)
    }

    #[test]
    fn a_plain_lock_has_one_holder() {
        assert_eq!(
            names(decode(&[(&alloc::format!("{A}:42"), "3")])),
            (Mode::Exclusive, vec![id(A, "42", 3)])
        );
        assert_eq!(decode(&[]), Value::Absent);
    }

    #[test]
    fn several_plain_holders_are_all_told() {
        let value = decode(&[(&alloc::format!("{A}:1"), "1"), (&alloc::format!("{B}:-7"), "1")]);
        assert_eq!(names(value), (Mode::Exclusive, vec![id(B, "-7", 1), id(A, "1", 1)]));
    }

    #[test]
    fn a_writer_s_own_read_field_is_no_second_holder() {
        let writer = alloc::format!("{A}:1:write");
        let own_read = alloc::format!("{A}:1");
        let value = decode(&[("mode", "write"), (&writer, "2"), (&own_read, "1")]);
        assert_eq!(names(value), (Mode::Write, vec![id(A, "1", 2)]));
    }

    #[test]
    fn readers_are_all_told_and_asked_for() {
        let value = decode(&[
            ("mode", "read"),
            (&alloc::format!("{A}:1"), "2"),
            (&alloc::format!("{B}:1"), "1"),
        ]);
        let (mode, holders) = names(value.clone());
        assert_eq!((mode, holders.len()), (Mode::Read, 2));
        let Value::Present { holders, .. } = value else { unreachable!() };
        let asked = Redisson.liveness(b"job", &holders);
        assert_eq!(
            asked[1].command,
            command!(
                "EXISTS",
                alloc::format!("{{job}}:{A}:1:rwlock_timeout:1"),
                alloc::format!("{{job}}:{A}:1:rwlock_timeout:2")
            )
        );
    }

    #[test]
    fn what_is_not_a_lock_is_unknown() {
        let field = alloc::format!("{A}:1");
        for fields in [
            &[("mode", "write")][..],
            &[("mode", "both"), (&field, "1")],
            &[("name", "value")],
            &[(&field, "0")],
            &[(&field, "-1")],
            &[(&field, "many")],
            &[(&field, "1"), ("note", "x")],
            &[(":1", "1")],
            // Redisson's fast multi-lock keeps many locks in one hash.
            &[("bGFi", &field), (&alloc::format!("bGFi:{field}:lock_count"), "1")],
            &[(&alloc::format!("bGFi:{field}:expire_time"), "1700000000000")],
            &[(&alloc::format!("{field}:write"), "1")],
            &[("mode", "write"), (&alloc::format!("{field}:write"), "1"), ("note", "x")],
            // A transaction's field, but for the client id.
            &[(&alloc::format!("me:42:{}", "9f".repeat(16)), "1")],
        ] {
            assert_eq!(decode(fields), Value::Unknown(Unknown::Layout), "{fields:?}");
        }
        assert_eq!(
            Redisson.decode(b"lock", &scan("17", &[(&field, "1")]), true),
            Value::Unknown(Unknown::TooLarge)
        );
        assert_eq!(Redisson.decode(b"lock", &Reply::Nil, true), Value::Unknown(Unknown::Protocol));
    }

    #[test]
    fn a_transaction_s_lock_is_its_thread_s() {
        let transaction = "9f1c2b3a4d5e6f708192a3b4c5d6e7f8";
        let value = decode(&[(&alloc::format!("{A}:42:{transaction}"), "1")]);
        assert_eq!(
            names(value),
            (Mode::Exclusive, vec![id(A, &alloc::format!("42:{transaction}"), 1)])
        );
    }

    #[test]
    fn side_keys_follow_redisson_s_braces() {
        assert_eq!(prefixed(b"redisson_lock_queue", b"job"), b"redisson_lock_queue:{job}");
        assert_eq!(prefixed(b"redisson_lock_queue", b"{a}job"), b"redisson_lock_queue:{a}job");
        assert_eq!(braced(b"x{"), b"x{");
    }

    #[test]
    fn keys_that_are_kept_for_locks_are_known_by_name() {
        for key in [
            "redisson_lock_queue:{job}",
            "redisson_lock_timeout:{job}",
            "redisson_lock_token:{job}",
            &alloc::format!("redisson_unlock_latch:{{job}}:{}", "0a".repeat(16)),
            &alloc::format!("{{job}}:{A}:1:rwlock_timeout:1"),
        ] {
            assert!(Redisson.is_companion(key.as_bytes()), "{key}");
        }
        for key in ["job", "{job}:timeout", "redisson_lock_queue", "redisson_unlock_latch:{job}:1"]
        {
            assert!(!Redisson.is_companion(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn a_fair_lock_s_queue_counts_before_listeners() {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let subscribers = Reply::Array(vec![text("a"), Reply::Int(1), text("b"), Reply::Int(2)]);
        let extras = Redisson.decode_extras(&[subscribers.clone(), Reply::Int(5), text("12")]);
        assert_eq!(extras, Extras { waiters: Some(5), fencing_token: Some(12), queue: None });
        let extras = Redisson.decode_extras(&[subscribers.clone(), Reply::Int(0), text("")]);
        assert_eq!(
            extras,
            Extras { waiters: Some(3), ..Extras::default() },
            "a lock that is not fair"
        );
        // In a cluster, some clients subscribe to sharded channels and others to ordinary ones.
        let within_a_shard = Reply::Array(vec![text("a"), Reply::Int(4), text("b"), Reply::Int(0)]);
        let extras =
            Redisson.decode_extras(&[within_a_shard, subscribers.clone(), Reply::Int(0), text("")]);
        assert_eq!(extras, Extras { waiters: Some(7), ..Extras::default() });
        let refused = Reply::Error(crate::redis::reply::ServerError {
            code: b"NOPERM".to_vec(),
            detail: Vec::new(),
        });
        let extras = Redisson.decode_extras(&[
            refused.clone(),
            subscribers.clone(),
            Reply::Int(0),
            text(""),
        ]);
        assert_eq!(extras, Extras { waiters: Some(3), ..Extras::default() });
        let extras = Redisson.decode_extras(&[subscribers, refused.clone(), refused]);
        assert_eq!(extras, Extras { waiters: Some(3), ..Extras::default() });
    }
}
