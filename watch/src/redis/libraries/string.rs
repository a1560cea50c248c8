//! A token in a string key: `SET key token NX PX …`, as most lock libraries use it. Knowing the
//! token is enough to release the lock, so it is a secret. Most libraries leave no other mark, so to
//! recognise a lock both its name and its value must match.

use alloc::vec;

use super::library::{Library, Value};
use super::recognise::{Content, Guess, Laid, ScannedKey, contains};
use super::shape::{Shape, ends_as_a_lock, identifies_nobody, names_a_lock, without_php_quotes};
use super::unread;
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

const NAME: &str = "string";

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
            redbeat,
            laravel_schedule,
            redlock_prefix,
            python_redis_lock,
            named,
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
    Laid { library: NAME, what }
}

fn lock(what: &'static str) -> Guess {
    Guess::Lock(laid(what))
}

fn distributed_lock(seen: &ScannedKey) -> Option<Guess> {
    if seen.shape()? != Shape::MachineAndProcess {
        return None;
    }
    const WHAT: &str = "DistributedLock.Redis (.NET)";
    Some(if seen.key.ends_with(b".writer") {
        Guess::Doubtful(laid(WHAT), "a reader/writer lock: of it only the writer would be seen")
    } else {
        lock(WHAT)
    })
}

fn redbeat(seen: &ScannedKey) -> Option<Guess> {
    let named = seen.key.ends_with(b"redbeat::lock") || seen.key.ends_with(b"redbeat:lock");
    (seen.shape()?.is_token() && named)
        .then(|| lock("Celery redbeat: the scheduler that is active"))
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

/// The name contains a word for "lock".
fn named(seen: &ScannedKey) -> Option<Guess> {
    let shape = seen.shape()?;
    if !names_a_lock(&seen.key) {
        return None;
    }
    match shape {
        _ if shape.is_token() && (seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key)) => {
            Some(lock(TOKEN))
        }
        _ if shape.is_token() => {
            Some(Guess::Doubtful(laid(TOKEN), "no TTL, and `lock` is not what its name ends in"))
        }
        _ if (is_constant(seen) || shape != Shape::Word && is_short(seen))
            && (seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key)) =>
        {
            Some(Guess::Doubtful(
                laid("A string"),
                "its value does not tell one holder from another, so that no take-over could be \
                 seen",
            ))
        }
        Shape::Word if seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key) => Some(Guess::Doubtful(
            laid("A string"),
            "its value is a word and no random token: a lock only if each holder writes its own \
             name",
        )),
        _ => None,
    }
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
    (shape.is_token() && seen.ttl_ms.is_some())
        .then_some(Guess::PossibleToken { number: shape == Shape::Number })
}

fn is_short(seen: &ScannedKey) -> bool {
    matches!(seen.content, Content::Text { length: ..=16, .. })
}

fn is_constant(seen: &ScannedKey) -> bool {
    match &seen.content {
        Content::Text { length, start } => {
            start.len() as u64 == *length && identifies_nobody(start, &seen.key)
        }
        _ => false,
    }
}
