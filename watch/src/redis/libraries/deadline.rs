//! The instant until which a lock is held, as the whole value: the recipe with `SETNX` and `GETSET`
//! of Redis' documentation, Ruby's redis-mutex and redis-objects, TaskTiger 0.11. The key usually
//! has no TTL and stays behind; when the instant has passed, the next one takes the lock by
//! replacing it. The value names nobody: one that moves on is a renewal as far as it shows.

use alloc::vec;

use super::library::{Disclosure, Lease, Leases, Library, Value};
use super::recognise::{Guess, Laid, ScannedKey};
use super::shape::{is_time, names_a_lock};
use super::string::written;
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::instant;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::spec::Claimants;
use lockwatch_judge::time::ServerTime;

const NAME: &str = "deadline";
/// Index of the last byte that is read. No instant is as long.
const LAST_BYTE: &str = "63";

pub(super) struct Deadline;

impl Library for Deadline {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Named
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn needs_the_clock(&self) -> bool {
        true
    }

    fn decode(&self, _key: &[u8], reply: &Reply, exists: bool) -> Value {
        let value = match written(reply, exists) {
            Ok(value) => value,
            Err(value) => return value,
        };
        until(value).map_or(Value::Unknown(Unknown::Layout), leases)
    }

    /// The key may have no TTL, or one that says less than the value.
    fn moves_the_deadline(&self) -> bool {
        false
    }

    fn instead_of_a_name(&self) -> Option<&'static str> {
        Some(
            "The lock's value says until when it is held, and not by whom, so holders cannot be \
             told apart: no take-over and no split can be seen, and a new holder whose \
             predecessor was seen just before looks like a renewal, unless `lease` shows that it \
             came after the end of that one.",
        )
    }

    fn shown<'a>(&self, word: &'a [u8], _is_name: bool) -> Disclosure<'a> {
        if until(word).is_some() { Disclosure::Whole } else { Disclosure::Nothing }
    }

    /// With a TTL it is the key that ends the lock, and the value may be when it was taken.
    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const WHAT: &str = "A string that is a time to come, and no TTL";
        const WHY: &str = "perhaps the lock is held until then, as redis-mutex, redis-objects and \
            TaskTiger write it; its value names no holder";
        const PAST: &str = "a string that is a time, and no TTL: the lock ended then, as `library: \
            deadline` reads it, or was taken then";
        let value = seen.text().filter(|value| seen.ttl_ms.is_none() && is_time(value))?;
        let until = until(value).filter(|_| names_a_lock(&seen.key))?;
        Some(match until > seen.now {
            true => Guess::Doubtful(Laid::new(NAME, WHAT), WHY),
            false => Guess::Unreadable(PAST),
        })
    }
}

fn leases(until: ServerTime) -> Value {
    let all = vec![Lease { holder: Holder::NOBODY_KNOWN, until }];
    Value::Leased(Leases { mode: Mode::Exclusive, all, needs_ttl: false })
}

fn until(value: &[u8]) -> Option<ServerTime> {
    instant::any(value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const FIXTURE: &str = include_str!("../../../tests/fixtures/deadline.txt");

    fn decode(value: &str) -> Value {
        Deadline.decode(b"lock", &Reply::Bytes(value.as_bytes().to_vec()), !value.is_empty())
    }

    fn held_until(ms: i64) -> Value {
        leases(ServerTime::at(ms))
    }

    #[test]
    fn what_the_libraries_write_is_when_their_leases_end() {
        let mut states = 0;
        for line in FIXTURE.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [state, ttl, value] = columns[..] else { panic!("{line}") };
            states += 1;
            if state == "released" {
                assert_eq!((ttl, value), ("-2", "-"), "{line}");
                continue;
            }
            assert_eq!(ttl, "-1", "{line}");
            let Value::Leased(leases) = decode(value) else { panic!("{line}") };
            let seconds: f64 = value.parse().unwrap();
            let ms = if seconds > 1e12 { seconds } else { seconds * 1e3 };
            let [lease] = &leases.all[..] else { panic!("{line}") };
            #[expect(clippy::cast_precision_loss, reason = "an instant of today")]
            let off = (lease.until.ms() as f64 - ms).abs();
            assert!(off <= 1.0, "{line}");
        }
        assert_eq!(states, 7);
    }

    #[test]
    fn seconds_milliseconds_and_fractions_are_told_apart() {
        for value in ["1795940436", "1795940436.0", "1795940436000", " 1795940436\n"] {
            assert_eq!(decode(value), held_until(1_795_940_436_000), "{value}");
            assert_eq!(Deadline.shown(value.as_bytes(), false), Disclosure::Whole, "{value}");
        }
        assert_eq!(decode("1795940436.9668376"), held_until(1_795_940_436_966));
        assert_eq!(decode("2023-11-14T22:13:20Z"), held_until(1_700_000_000_000));
    }

    #[test]
    fn no_instant_is_neither_held_nor_free() {
        assert_eq!(decode(""), Value::Absent);
        let empty = Deadline.decode(b"lock", &Reply::Bytes(vec![]), true);
        assert_eq!(empty, Value::Unknown(Unknown::Layout));
        for value in ["0", "1", "17", "-1795940436", "1.7959404e9", "4200000000", "web-1", "inf"] {
            assert_eq!(decode(value), Value::Unknown(Unknown::Layout), "{value}");
            assert_eq!(Deadline.shown(value.as_bytes(), false), Disclosure::Nothing, "{value}");
        }
    }
}
