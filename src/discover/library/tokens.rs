//! Locks that are a token in a string key. Most libraries leave no other mark, so that both name
//! and value must match.

use super::jobs::{contains, shape};
use super::{Content, Guess, Laid, Seen};
use crate::discover::shape::{Shape, ends_as_a_lock, names_a_lock};

/// The description of a lock whose library cannot be determined.
pub(in crate::discover) const TOKEN: &str =
    "A token in a string (redis-py, redlock, redsync, Spring Integration, …)";

fn lock(what: &'static str) -> Guess {
    Guess::Lock(laid(what))
}

pub(in crate::discover) fn laid(what: &'static str) -> Laid {
    Laid { library: "string", what }
}

pub(super) fn shedlock(seen: &Seen) -> Option<Guess> {
    (shape(seen)? == Shape::ShedLock).then(|| {
        lock(
            "ShedLock: held while a run lasts and at least for lockAtLeastFor, after which it \
             counts as expired; a free lock is no fault of a periodic task",
        )
    })
}

pub(super) fn distributed_lock(seen: &Seen) -> Option<Guess> {
    if shape(seen)? != Shape::MachineAndProcess {
        return None;
    }
    const WHAT: &str = "DistributedLock.Redis (.NET)";
    Some(if seen.key.ends_with(b".writer") {
        Guess::Doubtful(laid(WHAT), "a reader/writer lock: of it only the writer would be seen")
    } else {
        lock(WHAT)
    })
}

pub(super) fn redbeat(seen: &Seen) -> Option<Guess> {
    let named = seen.key.ends_with(b"redbeat::lock") || seen.key.ends_with(b"redbeat:lock");
    (shape(seen)?.is_token() && named).then(|| lock("Celery redbeat: the scheduler that is active"))
}

pub(super) fn laravel_schedule(seen: &Seen) -> Option<Guess> {
    shape(seen)?;
    let is_it = contains(&seen.key, b"framework/schedule-") && seen.ttl_ms.is_some();
    is_it.then(|| lock("Laravel: a scheduled task, held while it runs"))
}

pub(super) fn redlock_prefix(seen: &Seen) -> Option<Guess> {
    let is_it = seen.key.starts_with(b"redlock:") && shape(seen)? == Shape::Uuid;
    is_it.then(|| lock("redlock: RedLock.net or pottery"))
}

pub(super) fn python_redis_lock(seen: &Seen) -> Option<Guess> {
    let is_it = seen.key.starts_with(b"lock:") && shape(seen)? == Shape::Base64;
    is_it.then(|| lock("python-redis-lock"))
}

pub(super) fn symfony(seen: &Seen) -> Option<Guess> {
    let is_it = seen.ttl_ms.is_some() && seen.content == (Content::Sorted { has_writer: true });
    is_it.then_some(Guess::Unreadable(
        "symfony/lock: a sorted set of tokens, which lockwatch does not read yet",
    ))
}

/// The name contains a word for "lock".
pub(super) fn named(seen: &Seen) -> Option<Guess> {
    let shape = shape(seen)?;
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
        Shape::Word if seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key) => Some(Guess::Doubtful(
            laid("A string"),
            "its value is a word and no random token: a lock only if each holder writes its own \
             name",
        )),
        _ if is_short(seen) && (seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key)) => {
            Some(Guess::Doubtful(
                laid("A string"),
                "its value does not tell one holder from another, so that no take-over could be \
                 seen",
            ))
        }
        _ => None,
    }
}

/// The value has the form that redis-py's `Lock`, and few other libraries, write.
pub(super) fn redis_py(seen: &Seen) -> Option<Guess> {
    let what = match shape(seen)? {
        Shape::TimeUuidHex => "redis-py's Lock, by its value",
        Shape::Bytes if seen.ttl_ms.is_some() => "rslock or redlock for Rust, by its value",
        _ => return None,
    };
    Some(Guess::Doubtful(laid(what), "nothing in its name says that it is a lock"))
}

pub(super) fn possible(seen: &Seen) -> Option<Guess> {
    let shape = shape(seen)?;
    (shape.is_token() && seen.ttl_ms.is_some())
        .then_some(Guess::PossibleToken { number: shape == Shape::Number })
}

fn is_short(seen: &Seen) -> bool {
    matches!(seen.content, Content::Text { length: ..=16, .. })
}
