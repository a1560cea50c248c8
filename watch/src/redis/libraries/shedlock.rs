//! ShedLock's Redis providers: a string `ADDED:<instant>@<host>`, since version 7 with `:<uuid>`.
//!
//! The host is the holder: some versions write a new instant with each extension. While a run
//! lasts, the TTL is `lockAtMostFor`. At its end the key is deleted, or it stays for what is left
//! of `lockAtLeastFor`: held then means that no other run may begin, not that one lasts. Nothing
//! renews a lease unless the application uses `KeepAliveLockProvider`.

use super::library::{Disclosure, Library, Value};
use super::recognise::{Guess, Laid, ScannedKey};
use super::shape::Shape;
use super::string::held_by;
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::spec::Claimants;

const NAME: &str = "shedlock";
/// Index of the last byte that is read. A host's name has at most 255 bytes.
const LAST_BYTE: &str = "511";
/// Length of the `:<uuid>` at the end.
const ID_BYTES: usize = 37;

pub(super) struct ShedLock;

impl Library for ShedLock {
    fn name(&self) -> &'static str {
        NAME
    }

    /// By the name of the host.
    fn claimants(&self) -> Claimants {
        Claimants::Threads
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn decode(&self, _key: &[u8], reply: &Reply, exists: bool) -> Value {
        held_by(reply, exists, |value| {
            let client = host(value).ok_or(Unknown::Layout)?.to_vec();
            Ok(Holder { client, thread: None, entries: None, secret: false })
        })
    }

    /// Instant and host release nothing: an unlock does not look at the value, or (`safeUpdate`)
    /// at all of it, with the id.
    /// A claim or host may be named by the holder of another lock, but no host's name has a colon.
    fn shown<'a>(&self, word: &'a [u8], is_name: bool) -> Disclosure<'a> {
        let colon = word.iter().position(|byte| *byte == b':').filter(|_| is_name);
        match (host(word), without_id(word)) {
            (None, _) => colon
                .and_then(|colon| word.get(..=colon))
                .map_or(Disclosure::Nothing, |open| Disclosure::Around(open, b"")),
            (Some(_), Some(open)) => Disclosure::Around(open, b""),
            (Some(_), None) => Disclosure::Whole,
        }
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const WHAT: &str = "ShedLock: held while a run lasts and at least for lockAtLeastFor, \
            after which it counts as expired; a free lock is no fault of a periodic task";
        (seen.shape()? == Shape::ShedLock).then_some(Guess::Lock(Laid::new(NAME, WHAT)))
    }
}

/// The host in a value.
fn host(value: &[u8]) -> Option<&[u8]> {
    let named = value.strip_prefix(b"ADDED:")?;
    let named = without_id(named).map_or(named, |open| open.strip_suffix(b":").unwrap_or(open));
    let at = named.iter().position(|byte| *byte == b'@')?;
    named.get(at + 1..).filter(|host| !host.is_empty())
}

/// The value up to its id, if it has one.
fn without_id(value: &[u8]) -> Option<&[u8]> {
    let (open, id) = value.split_at_checked(value.len().checked_sub(ID_BYTES)?)?;
    let is_id = id.strip_prefix(b":").is_some_and(super::shape::is_uuid);
    is_id.then(|| value.get(..=open.len())).flatten()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::redis::libraries::recognise;
    use crate::redis::libraries::recognise::Content;
    use lockwatch_judge::reading::Mode;
    use lockwatch_judge::time::ServerTime;

    const FIXTURE: &str = include_str!("../../../tests/fixtures/shedlock.txt");

    fn decode(value: &str) -> Value {
        ShedLock.decode(b"lock", &Reply::Bytes(value.as_bytes().to_vec()), !value.is_empty())
    }

    fn held_by(host: &[u8]) -> Value {
        let holder = Holder { client: host.to_vec(), thread: None, entries: None, secret: false };
        Value::Present { mode: Mode::Exclusive, holders: vec![holder] }
    }

    #[test]
    fn what_the_real_library_writes_is_one_hold_of_its_host() {
        let mut states = 0;
        for line in FIXTURE.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('\t');
            let (state, ttl) = (columns.next().unwrap(), columns.next().unwrap());
            let value = columns.next().unwrap();
            states += 1;
            if state == "released" {
                assert_eq!((ttl, decode("")), ("-2", Value::Absent));
                continue;
            }
            assert_eq!(decode(value), held_by(b"vm"), "{state}");
            assert_eq!(ShedLock.shown(value.as_bytes(), false), Disclosure::Whole);
            let content =
                Content::Text { length: value.len() as u64, start: value.as_bytes().to_vec() };
            let key = b"job-lock:prod:nightly".to_vec();
            let now = ServerTime::at(0);
            let seen = ScannedKey { key, ttl_ms: ttl.parse().ok(), now, content };
            assert!(matches!(recognise(&seen), Guess::Lock(Laid { library: NAME, .. })));
        }
        assert_eq!(states, 4);
    }

    #[test]
    fn the_id_of_newer_versions_is_no_part_of_the_host_and_is_not_shown() {
        let value = "ADDED:2026-11-21T10:00:00Z@web-1:8f14e45f-ceea-467f-a0b5-1d2f3c4b5a69";
        assert_eq!(decode(value), held_by(b"web-1"));
        let open = "ADDED:2026-11-21T10:00:00Z@web-1:".as_bytes();
        assert_eq!(ShedLock.shown(value.as_bytes(), false), Disclosure::Around(open, b""));
    }

    #[test]
    fn anything_else_is_no_lock_and_is_not_shown() {
        for value in ["5e1f0a77", "ADDED:2026-11-21T10:00:00Z", "ADDED:x@", "@web-1"] {
            assert_eq!(decode(value), Value::Unknown(Unknown::Layout), "{value}");
            assert_eq!(ShedLock.shown(value.as_bytes(), false), Disclosure::Nothing, "{value}");
        }
    }
}
