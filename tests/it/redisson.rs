//! The driver of the real Redisson does what tests rely on.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::redisson::{Redisson, word};

const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis without data, for one test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { child, port };
        until(|| server.cli(&["ping"]) == "PONG");
        server
    }

    fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// How often PEXPIRE ran since the last `config resetstat`, scripts included.
    fn renewals(&self) -> u64 {
        let stats = self.cli(&["info", "commandstats"]);
        let calls = stats.split_once("cmdstat_pexpire:calls=").map_or("0", |(_, rest)| rest);
        calls.split(',').next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let Some(mut redisson) = Redisson::start("redisson::a_lock_belongs_to_the_client_and_thread_that_took_it") else {
        return;
    };
    let server = Server::start();
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
    let (Some(mut first), Some(mut second)) = (Redisson::start(test), Redisson::start(test)) else { return };
    let server = Server::start();
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
    let Some(mut redisson) = Redisson::start("redisson::a_lock_changes_hands_many_times") else { return };
    let server = Server::start();
    let port = server.port;
    redisson.connect("c1", &format!("port={port}"));
    let second = redisson.connect("c2", &format!("port={port}"));
    let answer = redisson.run("handovers c1 t1 c2 t1 outbound:lock n=101");
    assert_eq!((&answer["handovers"], &answer["client"]), (&101.into(), &"c2".into()));
    assert!(server.cli(&["hkeys", "outbound:lock"]).starts_with(&second));
    redisson.run("unlock c2 t1 outbound:lock");
}

/// Released and retaken within a period, Redisson renews with one more timer each time.
#[test]
fn renewal_timers_pile_up() {
    let Some(mut redisson) = Redisson::start("redisson::renewal_timers_pile_up") else { return };
    let server = Server::start();
    redisson.connect("c1", &format!("port={} watchdog=1500", server.port));
    redisson.run("pile-up c1 t1 outbound:lock n=10");
    server.cli(&["config", "resetstat"]);
    let began = Instant::now();
    until(|| server.renewals() >= 22);
    // One timer of 500 ms would take 11 s.
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(server.cli(&["hvals", "outbound:lock"]), "1");
}

#[test]
fn values_are_written_by_the_real_codecs() {
    let Some(mut redisson) = Redisson::start("redisson::values_are_written_by_the_real_codecs") else { return };
    let server = Server::start();
    redisson.connect("c1", &format!("port={}", server.port));
    redisson.run("map-put c1 users alice bool true kryo5 field_codec=raw");
    redisson.run("bucket-set c1 switch string on json");
    redisson.run("set-add c1 wanting long 5 json");
    assert_eq!(server.cli(&["hget", "users", "alice"]), "\u{5}\u{1}");
    assert_eq!(server.cli(&["get", "switch"]), "\"on\"");
    assert_eq!(server.cli(&["smembers", "wanting"]), "[\"java.lang.Long\",5]");
}

/// The codec fixtures are what today's serializers write.
#[test]
fn the_codec_fixtures_are_up_to_date() {
    let Some(mut redisson) = Redisson::start("redisson::the_codec_fixtures_are_up_to_date") else { return };
    let fresh = tempfile::tempdir().unwrap();
    redisson.run(&format!("fixtures {}", word(fresh.path().to_str().unwrap())));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/tests/fixtures/codec");
    let mut files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files.len(), 5);
    for file in files {
        let read = |directory: &Path| fs::read_to_string(directory.join(&file)).unwrap();
        assert!(read(&kept) == read(fresh.path()), "{} differs", file.display());
    }
}
