//! Each library meets the keys of every other one, keys of other types, and bytes of nobody: it
//! says why it cannot read them, and never that a lock is held or free that is not.

use std::sync::Arc;

use lockwatch_judge::reading::{Deadline, LockReading, Mode};
use lockwatch_judge::spec::{LockSpec, Score, StoreIndex, TaskSpec};
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};

/// The server's clock.
const NOW_MS: i64 = 1_795_990_000_000;
const LEASE_MS: i64 = 30_000;
const THREAD: &str = "285475da-9152-4c83-822a-67ee2f116a79:42";

/// A key.
#[derive(Clone, Debug)]
struct Key {
    content: Content,
    /// When it ends: as `PEXPIRETIME` says it.
    ends: i64,
}

#[derive(Clone, Debug)]
enum Content {
    Absent,
    Text(Vec<u8>),
    Hash(Vec<(String, String)>),
    Set(Vec<(String, i64)>),
    List,
}

impl Key {
    fn new(content: Content) -> Key {
        let ends = if matches!(content, Content::Absent) { -2 } else { NOW_MS + LEASE_MS };
        Key { content, ends }
    }

    fn text(text: &str) -> Key {
        Key::new(Content::Text(text.into()))
    }

    fn hash(field: &str, value: &str) -> Key {
        Key::new(Content::Hash(vec![(field.into(), value.into())]))
    }

    fn set(members: &[(&str, i64)]) -> Key {
        let members = members.iter().map(|(name, score)| ((*name).to_owned(), *score));
        Key::new(Content::Set(members.collect()))
    }

    fn without_ttl(self) -> Key {
        Key { ends: -1, ..self }
    }

    /// What a server replies.
    fn answer(&self, command: &Command) -> Reply {
        let words: Vec<_> =
            command.args.iter().map(|word| String::from_utf8(word.clone()).unwrap()).collect();
        let bytes = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());
        match (&*words[0], &self.content) {
            ("PEXPIRETIME", _) => Reply::Int(self.ends),
            ("TIME", _) => {
                let seconds = NOW_MS / 1_000;
                Reply::Array(vec![bytes(seconds.to_string().as_bytes()), bytes(b"0")])
            }
            ("GETRANGE", Content::Absent) => bytes(b""),
            ("GETRANGE", Content::Text(text)) => {
                let end = text.len().min(words[3].parse::<usize>().unwrap() + 1);
                bytes(&text[..end])
            }
            ("HSCAN", Content::Absent) => Reply::Array(vec![bytes(b"0"), Reply::Array(vec![])]),
            ("HSCAN", Content::Hash(pairs)) => {
                let items = pairs.iter().flat_map(|(field, value)| [field, value]);
                let items = items.map(|item| bytes(item.as_bytes())).collect();
                // A large hash is not scanned at once.
                let cursor = if pairs.len() > 512 { b"7" } else { b"0" };
                Reply::Array(vec![bytes(cursor), Reply::Array(items)])
            }
            ("HEXISTS" | "HSTRLEN", Content::Absent) => Reply::Int(0),
            ("HGET", Content::Absent) => Reply::Nil,
            ("HEXISTS" | "HSTRLEN" | "HGET", Content::Hash(pairs)) => {
                let value = pairs.iter().find(|(field, _)| *field == words[2]);
                match (&*words[0], value) {
                    ("HGET", value) => {
                        value.map_or(Reply::Nil, |(_, value)| bytes(value.as_bytes()))
                    }
                    ("HEXISTS", value) => Reply::Int(value.is_some().into()),
                    (_, value) => Reply::Int(
                        value.map_or(0, |(_, value)| i64::try_from(value.len()).unwrap()),
                    ),
                }
            }
            ("PUBSUB", _) => Reply::Array(vec![bytes(words[2].as_bytes()), Reply::Int(0)]),
            ("ZRANGE", Content::Absent) => Reply::Array(vec![]),
            ("ZRANGE", Content::Set(members)) => {
                let newest = words[2].strip_prefix('-').unwrap().parse::<usize>().unwrap();
                let mut members = members.clone();
                members.sort_by_key(|(name, score)| (*score, name.clone()));
                let skipped = members.len().saturating_sub(newest);
                let items = members.iter().skip(skipped).flat_map(|(name, score)| {
                    [bytes(name.as_bytes()), bytes(score.to_string().as_bytes())]
                });
                Reply::Array(items.collect())
            }
            ("GETRANGE" | "HSCAN" | "ZRANGE" | "HEXISTS" | "HSTRLEN" | "HGET", _) => {
                Reply::Error(ServerError {
                    code: b"WRONGTYPE".to_vec(),
                    detail: b"Operation against a key holding the wrong kind of value".to_vec(),
                })
            }
            _ => panic!("not expected: {words:?}"),
        }
    }
}

/// The locks that are read, in the order of the columns below.
fn readers() -> [LockSpec; 11] {
    let of = |name| libraries::lock(b"job", name);
    let scored = |score| LockSpec { score: Some(score), lease_ms: Some(30_000), ..of("zset") };
    let names = ["redisson", "shedlock", "counter", "deadline", "string", "hash"].map(of);
    let [redisson, shedlock, counter, deadline, string, hash] = names;
    let [refreshed, until] = [Score::Refreshed, Score::Deadline].map(scored);
    let field = LockSpec { field: Some(THREAD.into()), ..string.clone() };
    let [beat, channel] = ["single-beat", "channel"].map(of);
    [redisson, shedlock, counter, deadline, refreshed, until, string, hash, beat, field, channel]
}

fn read(lock: &LockSpec, key: &Key) -> LockReading {
    let caps = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: true,
        sharded: false,
    };
    let spec = TaskSpec::new("outbound", StoreIndex(0), lock.clone());
    let mut read = TaskRead::new(Arc::new(spec), caps, false, Scope::ALL);
    for _ in 0..3 {
        let mut commands = Vec::new();
        read.commands(&mut commands);
        let replies: Vec<Reply> = commands.iter().map(|command| key.answer(command)).collect();
        match read.decode(&replies) {
            Round::Done(reading) => return reading.lock().unwrap().clone(),
            Round::Again(again) => read = again,
        }
    }
    panic!("more than three rounds");
}

fn word(reading: &LockReading) -> &'static str {
    match reading {
        LockReading::Held(_) => "held",
        LockReading::Free => "free",
        LockReading::Unknown(why) => why.name(),
    }
}

#[test]
fn a_library_reads_what_it_writes_and_nothing_else() {
    let many: Vec<(String, i64)> = (0..10_000).map(|id| (format!("job-{id}"), NOW_MS)).collect();
    let huge = Key::new(Content::Text(vec![b'1'; 1_000_000]));
    let seconds = |ahead_ms: i64| ((NOW_MS + ahead_ms) / 1_000).to_string();
    let later = seconds(LEASE_MS);
    let token = "8f14e45f-ceea-467f-a0b5-1d2f3c4b5a69";
    let marked = [(token, NOW_MS + LEASE_MS), ("__write__", NOW_MS + LEASE_MS)];
    let two_uuids = format!("{token}:{token}");
    let fields = (0..10_000).map(|id| (format!("job-{id}"), "1".to_owned())).collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let results = Content::Hash(vec![pair("a result", "{}"), pair(THREAD, "\u{1}")]);
    let results = Key::new(results).without_ttl();
    // Redisson, ShedLock, counter, deadline, refreshed, until, string, hash, single-beat, the field
    // THREAD, a channel, which is no key.
    const COLUMNS: usize = 11;
    let (w, l, t) = ("wrong_type", "layout", "too_large");
    let (h, f) = ("held", "free");
    let none = [w, w, w, w, w, w, w, w, w, w, f];
    let rows: [(&str, Key, [&str; COLUMNS]); 33] = [
        ("nothing", Key::new(Content::Absent), [f; COLUMNS]),
        ("a count", Key::text("1"), [w, l, h, l, w, w, h, w, l, w, f]),
        // For `string` any value is a token: the library cannot know that this one means nobody.
        ("a count of nobody", Key::text("0"), [w, l, f, l, w, w, h, w, l, w, f]),
        ("a deadline", Key::text(&later).without_ttl(), [w, l, l, h, w, w, h, w, l, w, f]),
        ("one over", Key::text(&seconds(-5_000)).without_ttl(), [w, l, l, f, w, w, h, w, l, w, f]),
        // When its holder began: it has a TTL, and goes on.
        ("a beginning", Key::text(&seconds(-5_000)), [w, l, l, l, w, w, h, w, l, w, f]),
        ("a token", Key::text(token), [w, l, l, l, w, w, h, w, l, w, f]),
        (
            "ShedLock",
            Key::text("ADDED:2026-11-28T02:11:06.291Z@vm"),
            [w, h, l, l, w, w, h, w, l, w, f],
        ),
        ("BullMQ", Key::text(&format!("{token}:7")), [w, l, l, l, w, w, h, w, l, w, f]),
        ("a word", Key::text("exclusive"), [w, l, h, l, w, w, h, w, l, w, f]),
        ("an empty value", Key::text(""), [w, l, l, l, w, w, h, w, l, w, f]),
        ("bytes", Key::new(Content::Text(vec![0, 255, 10, 49])), [w, l, l, l, w, w, h, w, l, w, f]),
        ("a huge number", huge, [w, l, l, l, w, w, h, w, l, w, f]),
        ("Redisson", Key::hash(THREAD, "1"), [h, w, w, w, w, w, w, h, w, h, f]),
        ("a hash by hand", Key::hash("web-1", "1"), [l, w, w, w, w, w, w, h, w, f, f]),
        ("a semaphore", Key::set(&[(token, NOW_MS - 5_000)]), [w, w, w, w, h, l, w, w, w, w, f]),
        ("a writer", Key::set(&marked), [w, w, w, w, l, h, w, w, w, w, f]),
        ("a mark alone", Key::set(&marked[1..]), [w, w, w, w, l, l, w, w, w, w, f]),
        ("another lease", Key::set(&[(token, NOW_MS - 40_000)]), [w, w, w, w, l, l, w, w, w, w, f]),
        ("ranks", Key::set(&[("a", 1), ("b", 2)]), [w, w, w, w, l, l, w, w, w, w, f]),
        ("a schedule", Key::set(&marked[..1]).without_ttl(), [w, w, w, w, l, l, w, w, w, w, f]),
        ("an old list", Key::set(&[(token, 1)]).without_ttl(), [w, w, w, w, l, l, w, w, w, w, f]),
        ("many members", Key::new(Content::Set(many)), [w, w, w, w, t, t, w, w, w, w, f]),
        ("a list", Key::new(Content::List), none),
        ("a list that stays", Key::new(Content::List).without_ttl(), none),
        ("single-beat", Key::text("17:web-1:4711"), [w, l, l, l, w, w, h, w, h, w, f]),
        ("Nextcloud", Key::text("\"exclusive\""), [w, l, h, l, w, w, h, w, l, w, f]),
        ("node-redisson", Key::hash(&two_uuids, "1"), [h, w, w, w, w, w, w, h, w, f, f]),
        ("ioredfour", Key::hash("index", "17"), [l, w, w, w, w, w, w, h, w, f, f]),
        ("half-written", Key::hash(THREAD, ""), [l, w, w, w, w, w, w, h, w, h, f]),
        ("a huge field", Key::hash(THREAD, &"1".repeat(20_000)), [l, w, w, w, w, w, w, h, w, t, f]),
        ("huey", results, [l, w, w, w, w, w, w, l, w, h, f]),
        ("many fields", Key::new(Content::Hash(fields)), [t, w, w, w, w, w, w, t, w, f, f]),
    ];
    let readers = readers();
    let shown = |lock: &LockSpec| (lock.library.as_str().to_owned(), lock.score);
    for (name, key, expected) in rows {
        for (lock, expected) in readers.iter().zip(expected) {
            let reading = read(lock, &key);
            assert_eq!(word(&reading), expected, "{name} read as {:?}", shown(lock));
        }
    }
}

/// The parts of a lock that is held.
fn held(reading: &LockReading) -> (Mode, Vec<&[u8]>, Deadline) {
    let LockReading::Held(held) = reading else { panic!("{reading:?}") };
    (held.mode, held.holders.iter().map(|holder| &*holder.client).collect(), held.deadline)
}

/// What has ended by the server's clock holds nothing, and the earliest end counts.
#[test]
fn a_lock_ends_when_its_value_says_so_or_its_key_ends() {
    let [_, _, _, deadline, refreshed, until, ..] = readers();
    let at = |ms: i64| Deadline::At(ServerTime::at(NOW_MS + ms));
    let later = Key::text(&(NOW_MS + 10_000).to_string());
    for (ends, expected) in [(-1, 10_000), (NOW_MS + 4_000, 4_000), (NOW_MS + 60_000, 10_000)] {
        let reading = read(&deadline, &Key { ends, ..later.clone() });
        assert_eq!(held(&reading).2, at(expected), "the key ends at {ends}");
    }
    for (ahead, expected) in [(1, "held"), (0, "free"), (-1, "free")] {
        let key = Key::text(&(NOW_MS + ahead).to_string()).without_ttl();
        assert_eq!(word(&read(&deadline, &key)), expected, "{ahead} ms ahead");
    }
    let shares = Key::set(&[("a", NOW_MS - 1_000), ("b", NOW_MS - 2_000), ("c", NOW_MS - 30_000)]);
    let reading = read(&refreshed, &shares);
    assert_eq!(held(&reading), (Mode::Read, vec![&b"a"[..], b"b"], at(29_000)));
    let one = LockSpec { limit: Some(1), ..refreshed };
    assert_eq!(held(&read(&one, &shares)).0, Mode::Exclusive, "two at once are a split");
    let readers = Key::set(&[("a", NOW_MS + 1_000), ("b", NOW_MS + 2_000), ("c", NOW_MS)]);
    let reading = read(&until, &readers);
    assert_eq!(held(&reading), (Mode::Read, vec![&b"a"[..], b"b"], at(2_000)));
}

/// A count that changes leaves the deadline of its key as it is, and so does a member that leaves.
#[test]
fn a_look_at_the_deadline_does_not_show_who_is_still_there() {
    let keys = [
        ("string", Key::text("a token"), true),
        ("counter", Key::text("1"), false),
        ("deadline", Key::text(&(NOW_MS + 10_000).to_string()), false),
    ];
    let caps = Caps { pexpiretime: true, ..Caps::LEAST };
    for (library, key, expected) in keys {
        let lock = libraries::lock(b"job", library);
        let LockReading::Held(known) = read(&lock, &key) else { panic!("{library}") };
        let spec = Arc::new(TaskSpec::new("outbound", StoreIndex(0), lock));
        let read = TaskRead::new(spec, caps, false, Scope::ALL).glancing_at(&known);
        assert_eq!(read.is_glance(), expected, "{library}");
    }
}
