use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::redis::libraries;
use lockwatch_judge::spec::{
    Codec, ProgressSource, ProgressSpec, StoreIndex, WantedSource, WantedSpec,
};
use lockwatch_judge::time::Mono;

fn of<'a>(keys: &[&'a str]) -> Vec<&'a str> {
    let keys = keys.iter().map(|key| key.as_bytes());
    prefixes(keys).into_iter().map(|prefix| str::from_utf8(prefix).unwrap()).collect()
}

/// Checks the conditions of the server and of the function.
fn check(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let found = prefixes(keys.iter().map(Vec::as_slice));
    assert!(found.len() <= PREFIXES_MAX, "{} prefixes", found.len());
    for (position, prefix) in found.iter().enumerate() {
        let others = found.iter().enumerate().filter(|(other, _)| *other != position);
        assert!(!others.clone().any(|(_, other)| other.starts_with(prefix)), "{found:?} overlap");
    }
    for key in keys {
        assert!(
            found.iter().any(|prefix| key.starts_with(prefix)),
            "{key:?} is not covered by {found:?}"
        );
    }
    found.into_iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn few_keys_are_named_exactly() {
    assert_eq!(of(&["outbound:lock"]), ["outbound:lock"]);
    assert_eq!(
        of(&["outbound:users", "outbound:lock", "inbound:lock", "outbound:lock"]),
        ["inbound:lock", "outbound:lock", "outbound:users"]
    );
    let twelve: Vec<Vec<u8>> = (0..12).map(|n| format!("lock:{n}").into_bytes()).collect();
    assert_eq!(check(&twelve).len(), 10, "lock:10 and lock:11 begin with lock:1");
}

#[test]
fn what_begins_with_another_key_is_covered_by_it() {
    assert_eq!(of(&["abc", "a", "ab", "b"]), ["a", "b"]);
    assert_eq!(of(&["", "a"]), [""]);
    assert_eq!(of(&[]), [""; 0]);
    assert_eq!(of(&["{x}:lock", "{x}", "{y}:lock"]), ["{x}", "{y}:lock"]);
}

#[test]
fn many_keys_of_one_namespace_are_one_prefix() {
    let many: Vec<Vec<u8>> = (0..1_000).map(|n| format!("lock:{n}").into_bytes()).collect();
    assert_eq!(check(&many), [b"lock:"]);
    let two = (0..1_000).flat_map(|n| [format!("outbound:{n}"), format!("inbound:{n}")]);
    assert_eq!(
        check(&two.map(String::into_bytes).collect::<Vec<_>>()),
        [b"inbound:".as_slice(), b"outbound:"]
    );
}

#[test]
fn many_namespaces_share_the_prefixes_that_there_are() {
    let letters = (b'a'..=b'p')
        .flat_map(|letter| (0..50).map(move |n| format!("{}:{n}", char::from(letter))));
    let found = check(&letters.map(String::into_bytes).collect::<Vec<_>>());
    assert_eq!(found.len(), 16);
    assert!(found.iter().all(|prefix| prefix.len() == 2), "{found:?}");
    let scattered: Vec<Vec<u8>> = (0_u8..=255).map(|byte| vec![byte, 1]).collect();
    assert_eq!(check(&scattered), [b""], "too many to be told apart");
}

#[test]
fn whatever_the_keys_the_server_takes_the_prefixes() {
    // A small generator is enough: short keys over few bytes collide in every way.
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..3_000 {
        let count = 1 + random(40);
        let alphabet = 1 + random(if round % 3 == 0 { 250 } else { 4 });
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        for _ in 0..count {
            let length = 1 + random(6);
            keys.insert((0..length).map(|_| random(alphabet) as u8).collect());
        }
        check(&keys.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn the_keys_that_matter_are_lock_switches_and_pause() {
    let mut task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"));
    task.progress = Some(
        ProgressSpec {
            source: ProgressSource::Key(b"progress".to_vec()),
            moves: None,
            stale_after_ms: 1,
        }
        .into(),
    );
    task.hosts = Some(b"hosts".to_vec());
    assert_eq!(watched_keys(&task), [b"lock"]);
    task.wanted =
        Some(WantedSpec { source: WantedSource::Hash(b"users".to_vec()), codec: Codec::Raw });
    task.paused_until = Some(b"pause".to_vec());
    assert_eq!(watched_keys(&task), [b"lock".as_slice(), b"users", b"pause"]);
    task.wanted = Some(WantedSpec {
        source: WantedSource::Keys(vec![b"a".to_vec(), b"b".to_vec()]),
        codec: Codec::Raw,
    });
    assert_eq!(watched_keys(&task), [b"lock".as_slice(), b"a", b"b", b"pause"]);
}

#[test]
fn a_bucket_gives_its_capacity_and_then_its_rate() {
    let mut bucket = Bucket::full(3);
    let mut taken = Vec::new();
    for ms in 0..1_000 {
        let now = Mono::at(50_000 + ms);
        assert_eq!(
            bucket.ready_at(1, 4, now) <= now,
            bucket.clone().take(1, 4, 3, now),
            "at {ms} ms"
        );
        if bucket.ready_at(1, 4, now) <= now {
            assert!(bucket.take(1, 4, 3, now));
            taken.push(ms);
        }
    }
    assert_eq!(taken, [0, 1, 2, 250, 500, 750]);
    assert_eq!(bucket.ready_at(1, 4, Mono::at(50_999)), Mono::at(51_000));
    let mut fast = Bucket::full(10);
    assert!(fast.take(10, 15_000, 10, Mono::at(0)));
    assert!(!fast.take(16, 15_000, 100, Mono::at(1)), "15 each millisecond");
}

#[test]
fn a_bucket_that_rested_holds_no_more_than_its_capacity() {
    let mut bucket = Bucket::full(2);
    assert!(bucket.take(2, 1_000, 2, Mono::at(0)));
    assert!(bucket.take(2, 1_000, 2, Mono::at(1_000_000)));
    assert!(!bucket.take(1, 1_000, 2, Mono::at(1_000_000)));
}

#[test]
fn who_takes_more_than_there_is_leaves_nothing() {
    let mut bucket = Bucket::full(5);
    assert!(!bucket.take(6, 1_000, 5, Mono::at(0)));
    assert!(!bucket.take(1, 1_000, 5, Mono::at(0)));
    assert!(bucket.take(1, 1_000, 5, Mono::at(1)));
}

#[test]
fn the_limit_follows_what_polling_reads() {
    let limits = [
        (10, 1_000),
        (10_000, 1_000),
        (60_000, 1_000),
        (100_000, 1_000),
        (100_000, 10_000),
        (100_000, 100),
    ];
    let limits = limits.map(|(tasks, interval_ms)| changes_per_s(tasks, interval_ms));
    assert_eq!(limits, [1_000, 1_666, 10_000, 15_000, 1_666, 15_000]);
}
