//! A count of those who hold a lock: dramatiq's `ConcurrentRateLimiter`. A holder adds one when it
//! takes the lock, and takes one away when it releases it, so that the key stays behind with a `0`
//! in it. Nextcloud counts the readers of a file in the same way, and writes a word for its only
//! writer. Nothing in the value names a holder.

use super::library::{Disclosure, Library, Value};
use super::recognise::{Guess, Laid, ScannedKey};
use super::shape::{ends_as_a_lock, names_a_lock};
use super::string::held_by;
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::spec::Claimants;

const NAME: &str = "counter";
/// Maximum number of digits of a count. An instant has more.
const DIGITS_MAX: usize = 9;
/// What Nextcloud writes for an only holder, as its cache encodes it.
const EXCLUSIVE: [&[u8]; 2] = [b"\"exclusive\"", b"exclusive"];
/// Index of the last byte that is read: more than a count or a word has, to notice a longer value.
const LAST_BYTE: &str = "15";

pub(super) struct Counter;

impl Library for Counter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Named
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn decode(&self, _key: &[u8], reply: &Reply, exists: bool) -> Value {
        match reply {
            Reply::Bytes(count) if count == b"0" => Value::Free,
            _ => held_by(reply, exists, |count| {
                let is_held = is_count(count) || EXCLUSIVE.contains(&count);
                is_held.then_some(Holder::NOBODY_KNOWN).ok_or(Unknown::Layout)
            }),
        }
    }

    /// `DECR` leaves the deadline as it is.
    fn moves_the_deadline(&self) -> bool {
        false
    }

    fn instead_of_a_name(&self) -> Option<&'static str> {
        Some(
            "The lock's value counts its holders and names none, so nothing distinguishes them: no \
             take-over and no split can be seen, and a new holder whose predecessor was seen just \
             before looks like a renewal, unless `lease` shows that it came after the end of that \
             one.",
        )
    }

    fn shown<'a>(&self, word: &'a [u8], _is_name: bool) -> Disclosure<'a> {
        let is_known = is_count(word) || EXCLUSIVE.contains(&word);
        if is_known { Disclosure::Whole } else { Disclosure::Nothing }
    }

    /// A `1` may as well be what every holder of some other lock writes. Both are read right.
    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const WHAT: &str = "A string that counts who holds it, as dramatiq's, or says only that it \
            is held";
        const WHY: &str = "its value does not tell one holder from another, so that no take-over \
            could be seen; a `0` counts as free";
        const ZERO: &str = "a string `0`: free, if it counts who holds the lock, as `library: \
            counter` reads it; held, if each holder writes it, as `library: string` reads it";
        let count = seen.text().filter(|value| is_count(value))?;
        let is_surely_named = seen.ttl_ms.is_some() || ends_as_a_lock(&seen.key);
        if !names_a_lock(&seen.key) || !is_surely_named {
            return None;
        }
        Some(match count {
            b"0" => Guess::Unreadable(ZERO),
            _ => Guess::Doubtful(Laid::new(NAME, WHAT), WHY),
        })
    }
}

/// A whole number as Redis writes one, without a sign or a zero in front.
fn is_count(value: &[u8]) -> bool {
    let is_number = value.len() <= DIGITS_MAX && value.iter().all(u8::is_ascii_digit);
    is_number && (value == b"0" || matches!(value.first(), Some(b'1'..=b'9')))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use lockwatch_judge::reading::Mode;

    const FIXTURE: &str = include_str!("../../../tests/fixtures/counter.txt");

    fn decode(value: &str) -> Value {
        Counter.decode(b"lock", &Reply::Bytes(value.as_bytes().to_vec()), !value.is_empty())
    }

    fn held() -> Value {
        Value::Present { mode: Mode::Exclusive, holders: vec![Holder::NOBODY_KNOWN] }
    }

    #[test]
    fn what_the_real_library_writes_is_held_until_it_counts_nobody() {
        let mut states = 0;
        for line in FIXTURE.lines().filter(|line| !line.starts_with('#')) {
            let columns: vec::Vec<&str> = line.split('\t').collect();
            let [state, ttl, value] = columns[..] else { panic!("{line}") };
            states += 1;
            // A lock that was released stays behind with a TTL of its own.
            assert!(ttl.parse::<i64>().unwrap() > 0, "{line}");
            let expected = if state == "released" { Value::Free } else { held() };
            assert_eq!(decode(value), expected, "{line}");
        }
        assert_eq!(states, 4);
    }

    #[test]
    fn no_count_is_neither_held_nor_free() {
        assert_eq!(decode(""), Value::Absent);
        let empty = Counter.decode(b"lock", &Reply::Bytes(vec![]), true);
        assert_eq!(empty, Value::Unknown(Unknown::Layout));
        for value in ["-1", "00", "01", "+1", "1.0", " 0", "0\n", "x", "exclusively", "1795940436"]
        {
            assert_eq!(decode(value), Value::Unknown(Unknown::Layout), "{value}");
            assert_eq!(Counter.shown(value.as_bytes(), false), Disclosure::Nothing, "{value}");
        }
        for value in ["1", "17", "999999999", "exclusive", "\"exclusive\""] {
            assert_eq!(decode(value), held(), "{value}");
        }
    }
}
