//! The driver of the real Redisson behaves as the tests assume.

use crate::support::PATIENCE;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::redis::RedisServer;
use crate::support::redisson::{Redisson, word};

/// Number of PEXPIREs since the last `config resetstat`, scripts included.
fn renewals(server: &RedisServer) -> u64 {
    let stats = server.cli(&["info", "commandstats"]);
    let calls = stats.split_once("cmdstat_pexpire:calls=").map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

fn until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it never came true");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_lock_belongs_to_the_client_and_thread_that_took_it() {
    let Some(mut redisson) =
        Redisson::start("redisson::a_lock_belongs_to_the_client_and_thread_that_took_it")
    else {
        return;
    };
    let Some(server) =
        RedisServer::start("redisson::a_lock_belongs_to_the_client_and_thread_that_took_it")
    else {
        return;
    };
    let id = redisson.connect("c1", &format!("port={}", server.port));
    let name = "out bound:%=+lö\u{1}ck";
    redisson.run(&format!("lock c1 t1 {}", word(name)));
    let thread = &redisson.run("thread-id c1 t1")["id"];
    assert_eq!(server.cli(&["hget", name, &format!("{id}:{thread}")]), "1");
    redisson.run(&format!("unlock c1 t1 {}", word(name)));
    assert_eq!(server.cli(&["exists", name]), "0");
    redisson.send("unlock c1 t1 never-taken");
    assert!(redisson.answer(PATIENCE).unwrap_err().contains("IllegalMonitorState"));
}

#[test]
fn a_waiter_takes_over_after_a_crash() {
    let test = "redisson::a_waiter_takes_over_after_a_crash";
    let (Some(mut first), Some(mut second)) = (Redisson::start(test), Redisson::start(test)) else {
        return;
    };
    let Some(server) = RedisServer::start("redisson::a_waiter_takes_over_after_a_crash") else {
        return;
    };
    first.connect("c1", &format!("port={} watchdog=600", server.port));
    second.connect("c2", &format!("port={} watchdog=600", server.port));
    first.run("lock c1 t1 outbound:lock");
    second.run("lock-async c2 t1 outbound:lock");
    until(|| second.run("waiting c2 t1")["waiting"] == true);

    assert!(!first.kill().success());
    let deadline_ms: u64 = server.cli(&["pexpiretime", "outbound:lock"]).parse().unwrap();
    let acquired = second.event("acquired", "outbound:lock", PATIENCE);
    assert!(acquired["at_ms"].as_u64().unwrap() >= deadline_ms);
    assert!(acquired["server_us"].as_u64().unwrap() >= deadline_ms * 1000);
    assert_eq!(acquired["client"], "c2");
    assert!(second.pid() != first.pid());
}

#[test]
fn a_lock_changes_hands_many_times() {
    let Some(mut redisson) = Redisson::start("redisson::a_lock_changes_hands_many_times") else {
        return;
    };
    let Some(server) = RedisServer::start("redisson::a_lock_changes_hands_many_times") else {
        return;
    };
    let port = server.port;
    redisson.connect("c1", &format!("port={port}"));
    let second = redisson.connect("c2", &format!("port={port}"));
    let answer = redisson.run("handovers c1 t1 c2 t1 outbound:lock n=101");
    assert_eq!((&answer["handovers"], &answer["client"]), (&101.into(), &"c2".into()));
    assert!(server.cli(&["hkeys", "outbound:lock"]).starts_with(&second));
    redisson.run("unlock c2 t1 outbound:lock");
}

/// When a lock is released and retaken within a period, Redisson adds one more renewal timer each
/// time.
#[test]
fn renewal_timers_pile_up() {
    let Some(mut redisson) = Redisson::start("redisson::renewal_timers_pile_up") else { return };
    let Some(server) = RedisServer::start("redisson::renewal_timers_pile_up") else { return };
    redisson.connect("c1", &format!("port={} watchdog=1500", server.port));
    redisson.run("pile-up c1 t1 outbound:lock n=10");
    server.cli(&["config", "resetstat"]);
    let began = Instant::now();
    until(|| renewals(&server) >= 22);
    // A single timer of 500 ms would need 11 s.
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(server.cli(&["hvals", "outbound:lock"]), "1");
}

#[test]
fn values_are_written_by_the_real_codecs() {
    let Some(mut redisson) = Redisson::start("redisson::values_are_written_by_the_real_codecs")
    else {
        return;
    };
    let Some(server) = RedisServer::start("redisson::values_are_written_by_the_real_codecs") else {
        return;
    };
    redisson.connect("c1", &format!("port={}", server.port));
    redisson.run("map-put c1 users alice bool true kryo5 field_codec=raw");
    redisson.run("bucket-set c1 switch string on json");
    redisson.run("set-add c1 wanting long 5 json");
    assert_eq!(server.cli(&["hget", "users", "alice"]), "\u{5}\u{1}");
    assert_eq!(server.cli(&["get", "switch"]), "\"on\"");
    assert_eq!(server.cli(&["smembers", "wanting"]), "[\"java.lang.Long\",5]");
}

/// The codec fixtures match the output of the present serializers.
#[test]
fn the_codec_fixtures_are_up_to_date() {
    let Some(mut redisson) = Redisson::start("redisson::the_codec_fixtures_are_up_to_date") else {
        return;
    };
    let fresh = tempfile::tempdir().unwrap();
    redisson.run(&format!("fixtures {}", word(fresh.path().to_str().unwrap())));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("watch/tests/fixtures/codec");
    let mut files: Vec<_> =
        fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files.len(), 5);
    for file in files {
        let read = |directory: &Path| fs::read_to_string(directory.join(&file)).unwrap();
        assert!(read(&kept) == read(fresh.path()), "{} differs", file.display());
    }
}
