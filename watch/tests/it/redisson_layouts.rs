//! Reads the key layouts of the real Redisson with the commands that lockwatch sends. The fixtures
//! describe how they were captured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockwatch_judge::reading::{Held, LockReading, Mode, TaskReading, Unknown};
use lockwatch_judge::spec::{StoreIndex, TaskSpec};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};

/// The subset of Redis that the commands need.
#[derive(Default)]
struct Keyspace {
    lock: String,
    clients: BTreeMap<String, String>,
    hashes: BTreeMap<String, Vec<(String, String)>>,
    strings: BTreeMap<String, String>,
    lists: BTreeMap<String, Vec<String>>,
    ttl_ms: BTreeMap<String, i64>,
}

fn load(name: &str) -> Keyspace {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/redisson/{name}.txt"));
    let text = fs::read_to_string(path).expect("a fixture");
    let mut keys = Keyspace::default();
    let mut key = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        match *columns.as_slice() {
            ["lock", name] => keys.lock = name.to_owned(),
            ["client", name, id, ..] => drop(keys.clients.insert(name.to_owned(), id.to_owned())),
            ["key", _, ttl_ms, name] => {
                key = name.to_owned();
                keys.ttl_ms.insert(key.clone(), ttl_ms.parse().expect("a TTL"));
            }
            ["field", name, value] => {
                keys.hashes
                    .entry(key.clone())
                    .or_default()
                    .push((name.to_owned(), value.to_owned()));
            }
            ["value", value] => drop(keys.strings.insert(key.clone(), value.to_owned())),
            ["item", item] => keys.lists.entry(key.clone()).or_default().push(item.to_owned()),
            ["member", ..] => {}
            ref other => panic!("{other:?}"),
        }
    }
    keys
}

impl Keyspace {
    fn answer(&self, command: &Command) -> Reply {
        let words: Vec<&str> =
            command.args.iter().map(|word| str::from_utf8(word).expect("text")).collect();
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        match *words.as_slice() {
            ["PEXPIRETIME", key] => Reply::Int(match self.ttl_ms.get(key) {
                None => -2,
                Some(-1) => -1,
                Some(ttl_ms) => 1_000_000 + ttl_ms,
            }),
            ["HSCAN", key, "0", "COUNT", _] => {
                let fields = self.hashes.get(key).into_iter().flatten();
                let items =
                    fields.flat_map(|(field, value)| [bytes(field), bytes(value)]).collect();
                Reply::Array(vec![bytes("0"), Reply::Array(items)])
            }
            ["EXISTS", ref keys @ ..] => Reply::Int(
                keys.iter()
                    .filter(|key| self.ttl_ms.contains_key(**key))
                    .count()
                    .try_into()
                    .expect("few"),
            ),
            ["LLEN", key] => {
                Reply::Int(self.lists.get(key).map_or(0, Vec::len).try_into().expect("few"))
            }
            ["GETRANGE", key, "0", _] => bytes(self.strings.get(key).map_or("", String::as_str)),
            ["PUBSUB", "NUMSUB", ref channels @ ..] => Reply::Array(
                channels.iter().flat_map(|channel| [bytes(channel), Reply::Int(0)]).collect(),
            ),
            ref other => Reply::Error(ServerError {
                code: b"ERR".to_vec(),
                detail: format!("unknown command {other:?}").into_bytes(),
            }),
        }
    }

    /// Reads `key` as a sweep does.
    fn read(&self, key: &str) -> TaskReading {
        let caps = Caps {
            pexpiretime: true,
            hpexpiretime: false,
            role: RoleCheck::Role,
            info: true,
            sharded: false,
        };
        let mut read = TaskRead::new(Arc::new(spec(key)), caps, true, Scope::ALL);
        for _ in 0..3 {
            let mut commands = Vec::new();
            read.commands(&mut commands);
            let replies: Vec<Reply> = commands.iter().map(|command| self.answer(command)).collect();
            match read.decode(&replies) {
                Round::Done(reading) => return reading,
                Round::Again(again) => read = again,
            }
        }
        panic!("more than three rounds");
    }
}

fn spec(key: &str) -> TaskSpec {
    TaskSpec::new("outbound", StoreIndex(0), libraries::lock(key.as_bytes(), "redisson"))
}

/// Mode, holders (client's name in the capture, entries), ghosts.
type Seen = (Mode, Vec<(String, u32)>, u32);

fn seen(keys: &Keyspace, reading: &TaskReading) -> Seen {
    let LockReading::Held(held) = reading.lock().unwrap() else {
        panic!("{:?}", reading.lock().unwrap())
    };
    let Held { mode, holders, ghosts, .. } = &**held;
    let name = |client: &[u8]| {
        let known = keys.clients.iter().find(|(_, id)| id.as_bytes() == client);
        known.map_or_else(|| "a stranger".to_owned(), |(name, _)| name.clone())
    };
    let mut holders: Vec<_> = holders
        .iter()
        .map(|holder| (name(&holder.client), holder.entries.expect("Redisson counts entries")))
        .collect();
    holders.sort();
    (*mode, holders, *ghosts)
}

fn holders(of: &[(&str, u32)]) -> Vec<(String, u32)> {
    of.iter().map(|(name, entries)| ((*name).to_owned(), *entries)).collect()
}

#[test]
fn each_kind_of_lock_is_read_as_it_is_held() {
    for (fixture, mode, expected, ghosts) in [
        ("plain", Mode::Exclusive, &[("a", 1)][..], 0),
        ("plain_lease", Mode::Exclusive, &[("a", 1)], 0),
        ("plain_reentered", Mode::Exclusive, &[("a", 3)], 0),
        ("plain_partly_released", Mode::Exclusive, &[("a", 1)], 0),
        ("spin", Mode::Exclusive, &[("a", 1)], 0),
        ("multilock", Mode::Exclusive, &[("a", 1)], 0),
        ("read", Mode::Read, &[("a", 1)], 0),
        ("read_hash_tag", Mode::Read, &[("a", 1)], 0),
        ("read_reentered", Mode::Read, &[("a", 3)], 0),
        ("read_two", Mode::Read, &[("a", 1), ("b", 1)], 0),
        ("read_ghost", Mode::Read, &[("a", 1)], 1),
        ("read_all_ghosts", Mode::Read, &[], 1),
        ("write", Mode::Write, &[("a", 1)], 0),
        ("write_own_read", Mode::Write, &[("a", 1)], 0),
        ("write_downgraded", Mode::Read, &[("a", 1)], 0),
    ] {
        let keys = load(fixture);
        let reading = keys.read(&keys.lock);
        assert_eq!(seen(&keys, &reading), (mode, holders(expected), ghosts), "{fixture}");
    }
}

#[test]
fn a_re_entered_writer_is_one_holder() {
    let keys = load("write_reentered");
    let (mode, holders, _) = seen(&keys, &keys.read(&keys.lock));
    assert_eq!((mode, holders.len()), (Mode::Write, 1));
    assert!(holders[0].1 > 1);
}

#[test]
fn waiters_and_tokens_are_found_beside_the_lock() {
    for (fixture, waiters, token) in [
        ("fair_waiters", Some(2), None),
        ("fair_waiters_hash_tag", Some(2), None),
        ("fenced", Some(0), Some(3)),
        ("fenced_hash_tag", Some(0), Some(3)),
        ("plain", Some(0), None),
    ] {
        let keys = load(fixture);
        let reading = keys.read(&keys.lock);
        assert_eq!(
            (reading.extras().waiters, reading.extras().fencing_token),
            (waiters, token),
            "{fixture}"
        );
    }
}

#[test]
fn a_transaction_s_lock_is_held_by_its_client() {
    let keys = load("transaction");
    let reading = keys.read(&format!("{}:transaction_lock", keys.lock));
    assert_eq!(seen(&keys, &reading), (Mode::Exclusive, holders(&[("a", 1)]), 0));
}

#[test]
fn many_locks_in_one_hash_are_no_lock() {
    let keys = load("faster_multilock");
    assert_eq!(keys.read(&keys.lock).lock().unwrap(), &LockReading::Unknown(Unknown::Layout));
}
