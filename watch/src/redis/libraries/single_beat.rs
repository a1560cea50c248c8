//! single-beat, which runs a command on one of several hosts: `SINGLE_BEAT_<name>`, a string
//! `<n>:<host>:<pid>`.
//!
//! With each heartbeat `n` grows by one. The process is 0 until the command runs, -1 while it is
//! restarted, and another one after that. So the host is the holder. Nothing releases the lock: it
//! ends with its lease.

use super::library::{Disclosure, Library, Value};
use super::recognise::{Guess, Laid, ScannedKey};
use super::string::held_by;
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::spec::Claimants;

/// Index of the last byte that is read. A host's name has at most 255 bytes.
const LAST_BYTE: &str = "511";

const NAME: &str = "single-beat";

pub(super) struct SingleBeat;

impl Library for SingleBeat {
    fn name(&self) -> &'static str {
        NAME
    }

    /// By the name of the host.
    fn claimants(&self) -> Claimants {
        Claimants::Named
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
    }

    fn decode(&self, _key: &[u8], reply: &Reply, exists: bool) -> Value {
        held_by(reply, exists, |value| holder(value).ok_or(Unknown::Layout))
    }

    /// Nothing in the value releases the lock, which nobody compares.
    fn shown<'a>(&self, word: &'a [u8], is_name: bool) -> Disclosure<'a> {
        match holder(word) {
            Some(holder) if !is_name && !holder.secret => Disclosure::Whole,
            _ => Disclosure::Nothing,
        }
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const WHAT: &str = "single-beat: the host that runs the program";
        host(seen.text().filter(|_| seen.key.starts_with(b"SINGLE_BEAT_"))?)?;
        Some(Guess::Lock(Laid::new(NAME, WHAT)))
    }
}

fn holder(value: &[u8]) -> Option<Holder> {
    host(value).map(|host| Claimants::Named.holder(host))
}

/// The host in a value. Its name may have colons: a person may have chosen it.
fn host(value: &[u8]) -> Option<&[u8]> {
    let first = value.iter().position(|byte| *byte == b':')?;
    let last = value.iter().rposition(|byte| *byte == b':').filter(|last| *last > first + 1)?;
    let (beat, process) = (value.get(..first)?, value.get(last + 1..)?);
    let is_number =
        |text: &[u8]| (1..=20).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let process = if process == b"-1" { b"1" } else { process };
    (is_number(beat) && is_number(process)).then(|| value.get(first + 1..last)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use lockwatch_judge::reading::Mode;

    const FIXTURE: &str = include_str!("../../../tests/fixtures/single-beat.txt");

    fn decode(value: &[u8]) -> Value {
        SingleBeat.decode(b"SINGLE_BEAT_x", &Reply::Bytes(value.to_vec()), !value.is_empty())
    }

    fn held_by_host(host: &[u8]) -> Value {
        let holder = Holder { client: host.to_vec(), thread: None, entries: None, secret: false };
        Value::Present { mode: Mode::Exclusive, holders: vec![holder] }
    }

    #[test]
    fn what_the_real_program_writes_is_one_hold_of_its_host() {
        let values: vec::Vec<&str> =
            FIXTURE.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(values.len() >= 5, "{values:?}");
        assert!(values[0].starts_with("0:") && values[0].ends_with(":0"), "{values:?}");
        for value in values {
            assert_eq!(decode(value.as_bytes()), held_by_host(b"web-1"), "{value}");
            assert_eq!(SingleBeat.shown(value.as_bytes(), false), Disclosure::Whole);
        }
        assert_eq!(decode(b""), Value::Absent);
        assert_eq!(decode(b"12:2001:db8::1:-1"), held_by_host(b"2001:db8::1"));
    }

    #[test]
    fn anything_else_is_no_lock_and_is_not_shown() {
        for value in [
            "5e1f0a77c3d94b6e8a21",
            "1",
            "17:4711",
            "17::4711",
            "x:web-1:4711",
            ":web-1:4711",
            "17:web-1:",
            "17:web-1:x",
            "17:web-1:-2",
            "ADDED:2026-11-21T10:00:00.123Z@web-1",
            "285475da-9152-4c83-822a-67ee2f116a79:42",
        ] {
            assert_eq!(decode(value.as_bytes()), Value::Unknown(Unknown::Layout), "{value}");
            assert_eq!(SingleBeat.shown(value.as_bytes(), false), Disclosure::Nothing, "{value}");
        }
    }
}
