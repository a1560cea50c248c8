//! A sorted set with a member for each holder: the semaphores of redis-semaphore (Node), whose
//! scores say when each holder took or renewed its share, and symfony/lock, whose scores say until
//! when each holder has the lock. The members are tokens, which release what they hold.

use alloc::vec::Vec;

use super::library::{Disclosure, Lease, Leases, Library, Value};
use super::recognise::{Content, Guess, Laid, ScannedKey};
use super::shape::{names_a_lock, words};
use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::instant;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Mode, Unknown};
use lockwatch_judge::spec::{Claimants, LockSpec, Score};
use lockwatch_judge::time::ServerTime;

const NAME: &str = "zset";
/// Maximum number of members: a set with more is no lock.
const MEMBERS_MAX: usize = 64;
/// Index of the first member that is read, counted from the newest: one more than there may be.
const FIRST: &str = "-65";
/// The member that symfony/lock adds to the token of a writer.
const WRITER: &[u8] = b"__write__";
/// How far the end of a key that ends with its last lease is from it, as it is seen from outside, in
/// milliseconds.
const SAME_END_MS: i64 = 500;
/// Shortest and longest lease of a semaphore that is proposed, in milliseconds.
const LEASE_MIN_MS: i64 = 100;
const LEASE_MAX_MS: i64 = 3_600_000;
/// A lease is rounded to the first of these to which it is near enough, as messages take a while.
const LEASE_STEPS_MS: [(i64, i64); 2] = [(1_000, 150), (100, 50)];

pub(super) struct Members;

impl Library for Members {
    fn name(&self) -> &'static str {
        NAME
    }

    fn claimants(&self) -> Claimants {
        Claimants::Secret
    }

    fn value(&self, key: &[u8]) -> Ask {
        Ask::new(Class::Members, command!("ZRANGE", key, FIRST, "-1", "WITHSCORES"))
    }

    fn needs_the_clock(&self) -> bool {
        true
    }

    fn needs_score(&self) -> bool {
        true
    }

    /// What the scores mean is configured, so without that nothing can be read.
    fn decode(&self, _key: &[u8], _reply: &Reply, _exists: bool) -> Value {
        Value::Unknown(Unknown::Layout)
    }

    fn decode_of(&self, lock: &LockSpec, reply: &Reply, _exists: bool) -> Value {
        let members = match members(reply) {
            Ok(members) if members.is_empty() => return Value::Absent,
            Ok(members) => members,
            Err(why) => return Value::Unknown(why),
        };
        match (lock.score, lock.lease_ms) {
            (Some(Score::Deadline), _) => until_scores(members),
            (Some(Score::Refreshed), Some(lease_ms)) => {
                since_scores(&members, lease_ms, lock.limit)
            }
            (Some(Score::Refreshed), None) | (None, _) => Value::Unknown(Unknown::Layout),
        }
    }

    /// The key's deadline is that of whoever came last.
    fn moves_the_deadline(&self) -> bool {
        false
    }

    fn shown<'a>(&self, word: &'a [u8], _is_name: bool) -> Disclosure<'a> {
        if word == WRITER { Disclosure::Whole } else { Disclosure::Nothing }
    }

    fn recognise(&self, seen: &ScannedKey) -> Option<Guess> {
        const ODD: &str = "symfony/lock, but its scores are not when its TTL ends";
        let Content::Sorted { has_writer, newest } = &seen.content else { return None };
        let ends = seen.ends()?;
        let Some(newest) = newest.as_deref().and_then(instant::any) else {
            return has_writer.then_some(Guess::Unreadable(ODD));
        };
        let lease_ms = ends.since_ms(newest);
        let is_end = lease_ms.abs() <= SAME_END_MS && newest > seen.now;
        match (has_writer, is_end) {
            (true, true) => Some(Guess::Lock(until("symfony/lock"))),
            (false, true) => Some(Guess::Doubtful(until(READERS), READ)),
            (false, false) => {
                let is_past = newest.since_ms(seen.now) <= SAME_END_MS;
                let is_lease = (LEASE_MIN_MS..=LEASE_MAX_MS).contains(&lease_ms) && is_past;
                is_lease.then_some(Guess::Doubtful(since(lease_ms), SHARED))
            }
            (true, false) => Some(Guess::Unreadable(ODD)),
        }
    }
}

const READERS: &str = "A sorted set with scores of when its holders' leases end";
const READ: &str = "as symfony/lock writes it for readers, but nothing in it says so";
const SHARED: &str = "as redis-semaphore (Node) writes it, with the lease by its TTL; add `limit: 1` \
    if only one may hold it, so that two are a split";

/// Whether a sorted set of this name may be a lock.
pub fn may_be_of_holders(key: &[u8]) -> bool {
    names_a_lock(key) || words(key).iter().any(|word| word == b"semaphore")
}

fn until(what: &'static str) -> Laid {
    Laid { score: Some(Score::Deadline), ..Laid::new(NAME, what) }
}

fn since(lease_ms: i64) -> Laid {
    const WHAT: &str = "A sorted set with scores of when its holders' leases began";
    let rounded = LEASE_STEPS_MS.iter().find_map(|(step, near)| {
        let rounded = (lease_ms + step / 2) / step * step;
        (rounded > 0 && (rounded - lease_ms).abs() <= *near).then_some(rounded)
    });
    let lease_ms = rounded.and_then(|lease_ms| u64::try_from(lease_ms).ok());
    Laid { score: Some(Score::Refreshed), lease_ms, ..Laid::new(NAME, WHAT) }
}

/// redis-semaphore lets nobody in beyond its limit, so one that only one may hold is a lock.
fn since_scores(members: &[(&[u8], ServerTime)], lease_ms: u64, limit: Option<u32>) -> Value {
    if members.iter().any(|(name, _)| *name == WRITER) {
        return Value::Unknown(Unknown::Layout);
    }
    let mode = if limit == Some(1) { Mode::Exclusive } else { Mode::Read };
    let lease_ms = i64::try_from(lease_ms).unwrap_or(i64::MAX);
    let leases = members.iter().map(|(name, at)| Lease::of_token(name, at.plus_ms(lease_ms)));
    leased(mode, leases.collect())
}

/// symfony/lock gives the mark of a writer the score of the writer's token, and removes what has
/// expired before it lets anybody in.
fn until_scores(members: Vec<(&[u8], ServerTime)>) -> Value {
    let marked = members.iter().find(|(name, _)| *name == WRITER).map(|(_, until)| *until);
    let tokens = members.into_iter().filter(|(name, _)| *name != WRITER);
    let leases: Vec<Lease> = tokens.map(|(name, until)| Lease::of_token(name, until)).collect();
    match (leases.iter().map(|lease| lease.until).max(), marked) {
        // A mark, and nobody whom it could mark.
        (None, _) => Value::Unknown(Unknown::Layout),
        (Some(newest), Some(marked)) if marked >= newest => leased(Mode::Write, leases),
        (Some(_), _) => leased(Mode::Read, leases),
    }
}

fn leased(mode: Mode, all: Vec<Lease>) -> Value {
    Value::Leased(Leases { mode, all, needs_ttl: true })
}

/// The members with their scores.
fn members(reply: &Reply) -> Result<Vec<(&[u8], ServerTime)>, Unknown> {
    let items = match reply {
        Reply::Error(error) => return Err(error.into()),
        reply => reply.as_array().ok_or(Unknown::Protocol)?,
    };
    if items.len() > 2 * MEMBERS_MAX {
        return Err(Unknown::TooLarge);
    }
    let members = items.chunks(2).map(|pair| match pair {
        [Reply::Bytes(name), Reply::Bytes(score)] => {
            Ok((&**name, instant::any(score).ok_or(Unknown::Layout)?))
        }
        _ => Err(Unknown::Protocol),
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::redis::libraries;

    const REFRESHED: &str = include_str!("../../../tests/fixtures/zset_refreshed.txt");
    const DEADLINE: &str = include_str!("../../../tests/fixtures/zset_deadline.txt");
    const LEASE_MS: u64 = 10_000;

    fn lock(score: Score, limit: Option<u32>) -> LockSpec {
        let lease_ms = Some(LEASE_MS).filter(|_| score == Score::Refreshed);
        LockSpec { score: Some(score), limit, lease_ms, ..libraries::lock(b"lock", NAME) }
    }

    fn set(members: &[(&str, &str)]) -> Reply {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let items = members.iter().flat_map(|(name, score)| [bytes(name), bytes(score)]);
        Reply::Array(items.collect())
    }

    fn decode(lock: &LockSpec, members: &[(&str, &str)]) -> Value {
        Members.decode_of(lock, &set(members), !members.is_empty())
    }

    /// A state of a fixture: its name, the PTTL, and the members with their scores.
    type State<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>);

    fn states(fixture: &str) -> Vec<State<'_>> {
        let lines = fixture.lines().filter(|line| !line.starts_with('#'));
        let states = lines.map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [state, ttl, members] = columns[..] else { panic!("{line}") };
            let members = members.split(' ').filter_map(|member| member.split_once('='));
            (state, ttl, members.collect())
        });
        states.collect()
    }

    fn leases_of(value: Value) -> (Mode, Vec<(String, i64)>) {
        let Value::Leased(leases) = value else { panic!("{value:?}") };
        assert!(leases.needs_ttl);
        let all = leases.all.into_iter().map(|lease| {
            assert!(lease.holder.secret, "a token releases the lock");
            (String::from_utf8(lease.holder.client).unwrap(), lease.until.ms())
        });
        (leases.mode, all.collect())
    }

    #[test]
    fn a_semaphore_says_when_each_share_was_taken() {
        let found = states(REFRESHED);
        assert_eq!(found.len(), 4);
        for (state, ttl, members) in found {
            let lock = lock(Score::Refreshed, Some(1));
            if state == "released" {
                assert_eq!((ttl, decode(&lock, &members)), ("-2", Value::Absent));
                continue;
            }
            let (mode, leases) = leases_of(decode(&lock, &members));
            assert_eq!(mode, Mode::Exclusive, "{state}");
            assert_eq!(leases.len(), if state == "held-by-two" { 2 } else { 1 }, "{state}");
            for ((token, until), (member, score)) in leases.iter().zip(&members) {
                assert_eq!((&**token, until - 10_000), (*member, score.parse().unwrap()));
            }
        }
        for limit in [None, Some(2)] {
            let shared = decode(&lock(Score::Refreshed, limit), &[("a", "1795991926644")]);
            assert_eq!(leases_of(shared).0, Mode::Read, "several are no split");
        }
    }

    #[test]
    fn a_writer_is_marked_and_readers_are_not() {
        let found = states(DEADLINE);
        let modes = [
            ("written", Some((Mode::Write, 1))),
            ("downgraded", Some((Mode::Read, 1))),
            ("read-by-two", Some((Mode::Read, 2))),
            ("read-by-one", Some((Mode::Read, 1))),
            ("released", None),
        ];
        assert_eq!(found.len(), modes.len());
        for ((state, _, members), (named, expected)) in found.into_iter().zip(modes) {
            assert_eq!(state, named);
            let value = decode(&lock(Score::Deadline, None), &members);
            match expected {
                None => assert_eq!(value, Value::Absent),
                Some((mode, count)) => {
                    let (seen, leases) = leases_of(value);
                    assert_eq!((seen, leases.len()), (mode, count), "{state}");
                    assert!(leases.iter().all(|(token, _)| token.len() == 32), "{state}");
                }
            }
        }
    }

    #[test]
    fn what_a_writer_left_behind_marks_no_reader() {
        let members = [("reader", "1795991926700"), ("__write__", "1795991926644")];
        let (mode, _) = leases_of(decode(&lock(Score::Deadline, None), &members));
        assert_eq!(mode, Mode::Read);
    }

    #[test]
    fn no_set_of_holders_is_neither_held_nor_free() {
        let layout = Value::Unknown(Unknown::Layout);
        let both = [lock(Score::Refreshed, None), lock(Score::Deadline, None)];
        for lock in &both {
            for score in ["1", "0.5", "-1795991926644", "inf", "1.7959919266440001e+18"] {
                assert_eq!(decode(lock, &[("a", score)]), layout, "{score}");
            }
            let mark = decode(lock, &[("__write__", "1795991926644")]);
            assert_eq!(mark, layout, "a mark of nobody");
            let names: Vec<String> = (0..65).map(|number| format!("{number}")).collect();
            let many: Vec<_> = names.iter().map(|name| (&**name, "1795991926644")).collect();
            assert!(matches!(decode(lock, &many[..64]), Value::Leased(_)));
            assert_eq!(decode(lock, &many), Value::Unknown(Unknown::TooLarge));
            let odd = Reply::Array(vec![Reply::Bytes(b"a".to_vec())]);
            for reply in [odd, Reply::Nil, Reply::Int(1)] {
                let value = Members.decode_of(lock, &reply, true);
                assert_eq!(value, Value::Unknown(Unknown::Protocol), "{reply:?}");
            }
        }
        let unscored = libraries::lock(b"lock", NAME);
        assert_eq!(decode(&unscored, &[("a", "1795991926644")]), layout);
    }
}
