//! A token in a string key: `SET key token NX PX …`, as most lock libraries use it. Knowing the
//! token is enough to release the lock, so it is a secret. Most libraries leave no other mark, so to
//! recognise a lock both its name and its value must match.

use alloc::vec;
use alloc::vec::Vec;

use super::library::{Library, Value};
use super::recognise::{Content, Guess, Laid, ScannedKey, contains};
use super::shape::{
    Shape, ends_as_a_lock, identifies_nobody, names_a_lock, unserialized, without_php_quotes,
};
use super::{leaders, unread};
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::codec::written_text;
use crate::redis::instant;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;
use lockwatch_judge::time::ServerTime;

/// Maximum length of a token in bytes. Tokens are far shorter; a longer value is identified by its
/// beginning.
const TOKEN_BYTES: usize = 512;
/// Index of the last byte that is read.
const LAST_BYTE: &str = "511";

pub(super) const NAME: &str = "string";

/// The lists by which python-redis-lock wakes those that wait for a lock: `lock-signal:<name>`.
const SIGNAL: &[u8] = b"lock-signal:";

pub(super) struct Token;

/// Decodes a string that names one holder. GETRANGE answers an absent key and an empty value alike.
pub(in crate::redis) fn held_by(
    reply: &Reply,
    exists: bool,
    holder: impl FnOnce(&[u8]) -> Result<Holder, Unknown>,
) -> Value {
    let value = match written(reply, exists) {
        Ok(value) => value,
        Err(value) => return value,
    };
    holder(value).map_or_else(Value::Unknown, |holder| Value::Present {
        mode: Mode::Exclusive,
        holders: vec![holder],
    })
}

/// The string in a reply to GETRANGE.
///
/// # Errors
/// What the reply says if there is none.
pub(super) fn written(reply: &Reply, exists: bool) -> Result<&[u8], Value> {
    match reply {
        Reply::Bytes(value) if value.is_empty() && !exists => Err(Value::Absent),
        Reply::Bytes(value) => Ok(value),
        Reply::Error(error) => Err(Value::Unknown(error.into())),
        _ => Err(Value::Unknown(Unknown::Protocol)),
    }
}

impl Library for Token {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn is_companion(&self, key: &[u8]) -> bool {
        key.starts_with(SIGNAL)
    }

    fn decode(&self, key: &[u8], reply: &Reply, exists: bool) -> Value {
        let holder = |token: &[u8]| match identifies_nobody(token, key) {
            true => Holder::NOBODY_KNOWN,
            // A field is read as a whole.
            false => Claimants::Secret.holder(token.get(..TOKEN_BYTES).unwrap_or(token)),
        };
        held_by(reply, exists, |token| Ok(holder(token)))
    }

    fn takes_a_path(&self) -> bool {
        true
    }

    fn instant(&self, client: &[u8]) -> Option<ServerTime> {
        let text = written_text(client);
        let text = text.trim_ascii();
        let php = text.strip_prefix(b"i:").and_then(|number| number.strip_suffix(b";"));
        let text = php.or_else(|| without_php_quotes(text)).unwrap_or(text);
        // Perhaps with the holder's name behind it.
        let first = text.split(|byte| b":|@,".contains(byte)).next().unwrap_or_default();
        instant::any(text).or_else(|| instant::any(first))
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        let rows = [
            distributed_lock,
            leader,
            laravel_schedule,
            huey,
            redlock_prefix,
            python_redis_lock,
            named,
            laravel_cache,
            redis_py,
            possible,
        ];
        unread::recognise(seen).or_else(|| rows.iter().find_map(|row| row(seen)))
    }
}

/// A lock whose library leaves no mark of its own.
pub const UNNAMED: Laid = laid(TOKEN);

/// The description of such a lock.
const TOKEN: &str = "A token in a string (redis-py, redlock, redsync, Spring Integration, …)";

const fn laid(what: &'static str) -> Laid {
    Laid::new(NAME, what)
}

fn lock(what: &'static str) -> Guess {
    Guess::Lock(laid(what))
}

fn distributed_lock(seen: &ScannedKey) -> Option<Guess> {
    if seen.shape()? != Shape::MachineAndProcess {
        return None;
    }
    let laid = Laid {
        holder: Some("^(.+_[0-9]+)_[0-9a-fA-F]{32}$"),
        ..laid("DistributedLock.Redis (.NET)")
    };
    Some(if seen.key.ends_with(b".writer") {
        Guess::Doubtful(laid, "a reader/writer lock: of it only the writer would be seen")
    } else {
        Guess::Lock(laid)
    })
}

fn leader(seen: &ScannedKey) -> Option<Guess> {
    let (what, holder) = leaders::known(seen)?;
    Some(Guess::Lock(Laid { holder, ..laid(what) }))
}

fn laravel_schedule(seen: &ScannedKey) -> Option<Guess> {
    seen.shape()?;
    let is_it = contains(&seen.key, b"framework/schedule-") && seen.ttl_ms.is_some();
    let is_of_a_minute = || ends_in_a_minute(&seen.key);
    is_it.then(|| match is_of_a_minute() {
        true => Guess::PerItem(
            "Laravel: a task that runs on one server, another key for each minute, kept for an hour",
        ),
        false => lock("Laravel: a scheduled task, held while it runs"),
    })
}

/// Whether the name ends in a SHA-1 digest and a time of day, `1055`.
fn ends_in_a_minute(key: &[u8]) -> bool {
    let Some((start, minute)) = key.len().checked_sub(4).and_then(|at| key.split_at_checked(at))
    else {
        return false;
    };
    let digest = start.len().checked_sub(40).and_then(|at| start.get(at..)).unwrap_or_default();
    let is_of_day =
        matches!(minute, [b'0' | b'1', _, b'0'..=b'5', _] | [b'2', b'0'..=b'3', b'0'..=b'5', _]);
    digest.len() == 40
        && digest.iter().all(u8::is_ascii_hexdigit)
        && minute.iter().all(u8::is_ascii_digit)
        && is_of_day
}

fn redlock_prefix(seen: &ScannedKey) -> Option<Guess> {
    let is_it = seen.key.starts_with(b"redlock:") && seen.shape()? == Shape::Uuid;
    is_it.then(|| lock("redlock: RedLock.net or pottery"))
}

fn python_redis_lock(seen: &ScannedKey) -> Option<Guess> {
    let is_it = seen.key.starts_with(b"lock:") && seen.shape()? == Shape::Base64;
    is_it.then(|| lock("python-redis-lock"))
}

/// `lock_task`: a field `<name>.lock.<task>` of the hash with huey's results, or with other storages
/// a key of its own.
fn huey(seen: &ScannedKey) -> Option<Guess> {
    const WHAT: &str = "huey's lock_task";
    const WHY: &str = "its value names no holder, and it stays when its holder dies";
    match &seen.content {
        Content::Hash { names, .. } => {
            let queue = seen.key.strip_prefix(HUEY_RESULTS)?;
            let is_lock = |field: &&Vec<u8>| contains(field, b".lock.") && !queue.is_empty();
            let fields: Vec<Vec<u8>> = names.iter().filter(is_lock).cloned().collect();
            (!fields.is_empty()).then_some(Guess::DoubtfulFields(laid(WHAT), WHY, fields))
        }
        Content::Text { .. } => {
            let is_it = seen.key.starts_with(b"huey.r.") && contains(&seen.key, b".lock.");
            (is_it && is_constant(seen)).then_some(Guess::Doubtful(laid(WHAT), WHY))
        }
        _ => None,
    }
}

/// What huey's hash of results is named before the name of its queue. Locks are among them.
pub const HUEY_RESULTS: &[u8] = b"huey.results.";

/// The name contains a word for "lock".
fn named(seen: &ScannedKey) -> Option<Guess> {
    const HOST: &str = "A string that names a host and a process";
    let shape = seen.shape()?;
    if !names_a_lock(&seen.key) {
        return None;
    }
    let laid = match shape {
        Shape::HostAndProcess => Laid { holder: Some(leaders::HOST_AND_PROCESS), ..laid(HOST) },
        _ if shape.is_token() => laid(TOKEN),
        _ => laid("A string"),
    };
    let is_surely_named = seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key);
    if shape.is_token() {
        const INSIDE: &str = "no TTL, and `lock` is not what its name ends in";
        return Some(match is_surely_named {
            true => Guess::Lock(laid),
            false => Guess::Doubtful(laid, INSIDE),
        });
    }
    let why = why_doubtful(seen, shape)?;
    is_surely_named.then_some(Guess::Doubtful(laid, why))
}

/// What speaks against a lock whose value is no token.
fn why_doubtful(seen: &ScannedKey, shape: Shape) -> Option<&'static str> {
    match shape {
        _ if is_constant(seen) || shape == Shape::Other && is_short(seen) => Some(
            "its value does not tell one holder from another, so that no take-over could be seen",
        ),
        Shape::Word => Some(
            "its value is a word and no random token: a lock only if each holder writes its own \
             name",
        ),
        Shape::Record => Some(
            "its value is a record, such as JSON: a lock only if each holder writes another one; \
             with `holder: {json: …}` only the part counts that names the holder",
        ),
        Shape::Text => Some(
            "its value is a text without a random part: a lock only if each holder writes its own",
        ),
        _ => None,
    }
}

/// A lock of Laravel's cache that was taken for 0 seconds.
fn laravel_cache(seen: &ScannedKey) -> Option<Guess> {
    let is_it = seen.ttl_ms.is_none()
        && seen.shape()? == Shape::Letters16
        && contains(&seen.key, b"_cache:");
    is_it.then_some(Guess::Doubtful(
        laid("Laravel's lock, by its value"),
        "no TTL, and nothing in its name says that it is a lock",
    ))
}

/// The value has the form that redis-py's `Lock`, and few other libraries, write.
fn redis_py(seen: &ScannedKey) -> Option<Guess> {
    let what = match seen.shape()? {
        Shape::TimeUuidHex => "redis-py's Lock, by its value",
        Shape::Bytes if seen.ttl_ms.is_some() => "rslock or redlock for Rust, by its value",
        _ => return None,
    };
    Some(Guess::Doubtful(laid(what), "nothing in its name says that it is a lock"))
}

fn possible(seen: &ScannedKey) -> Option<Guess> {
    let shape = seen.shape()?;
    let stays = seen.ttl_ms.is_none();
    let number = shape == Shape::Number;
    // Addresses, and sentences with numbers in them, are kept in many places.
    let is_sentence = matches!(&seen.content, Content::Text { start, .. } if start.contains(&b' '));
    let is_token = shape.is_token()
        && shape != Shape::HostAndProcess
        && !(shape == Shape::Random && is_sentence);
    let is_rarely_one = stays && (number || shape == Shape::Random);
    (is_token && !is_rarely_one).then_some(Guess::PossibleToken { number, stays })
}

fn is_short(seen: &ScannedKey) -> bool {
    matches!(seen.content, Content::Text { length: ..=16, .. })
}

fn is_constant(seen: &ScannedKey) -> bool {
    match &seen.content {
        Content::Text { length, start } => {
            start.len() as u64 == *length && identifies_nobody(&unserialized(start), &seen.key)
        }
        _ => false,
    }
}
