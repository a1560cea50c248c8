//! Keys that change continuously, and an agent that does not read.

use crate::support::PATIENCE;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::*;
use crate::support::wait_until;

/// Sends these bytes to a server and waits for as many replies.
fn send(stream: &mut TcpStream, request: &[u8], replies: usize) {
    stream.write_all(request).unwrap();
    let (mut seen, mut buffer) = (0, [0; 4_096]);
    while seen < replies {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the server hung up");
        seen += buffer[..count].iter().filter(|byte| **byte == b'\n').count();
    }
}

/// A holder that renews far too often costs a few reads a second.
#[test]
fn a_hot_key_is_read_now_and_then() {
    let Some(server) = RedisServer::start("a_hot_key_is_read_now_and_then") else { return };
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    until_held(&agent, "one", true);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let before = calls(&server, "echo");
    let began = Instant::now();
    let mut changes = 0;
    while began.elapsed() < Duration::from_secs(4) {
        send(&mut stream, b"PEXPIRE lock:one 600000\r\n", 1);
        changes += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    server.cli(&["del", "lock:one"]);
    let page = until_held(&agent, "one", false);
    let seconds = began.elapsed().as_secs();
    let batches = calls(&server, "echo") - before;
    eprintln!("{changes} changes, {batches} batches in {seconds} s");
    // The rest of the sweep from when tracking began, a burst of four, four a second, and the
    // confirmation of the end.
    assert!(
        changes > 100 && batches <= 4 + 4 * (seconds + 1) + 4,
        "{changes} changes, {batches} batches in {seconds} s"
    );
    agent.check(&page, "it goes on", wakes(&page) == Some(1.0));
    agent.until(PATIENCE, "the others are counted", |page| {
        hints(page, "coalesced") + hints(page, "read") >= 50.0
    });
}

/// Announcing a change costs the server more than a read: if there are too many, tracking is
/// switched off.
#[test]
fn a_flood_ends_in_polling() {
    let Some(server) = RedisServer::start("a_flood_ends_in_polling") else { return };
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    let agent = Agent::start(&config(server.port, "200ms", "", &[("one", "lock:one")]));
    until_listening(&agent);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    // Keys with the lock's prefix: announced, though not watched.
    let keys: String = (0..200).map(|number| format!(" lock:one:{number} x")).collect();
    let request = format!("MSET{keys}\r\n");
    wait_until(PATIENCE, "it is left alone", || {
        send(&mut stream, request.as_bytes(), 1);
        listener(&server).is_none()
    });
    agent.until(PATIENCE, "that is shown", |page| wakes(page) == Some(0.0));
    assert_eq!(agent.log_lines(&["level=warn", "polling costs less"]).len(), 1);
    server.cli(&["del", "lock:one"]);
    until_held(&agent, "one", false);
    assert_eq!(listener(&server), None, "it is left alone for a minute");
}

/// A stalled agent must not cost the server memory: it is disconnected, and tracks again when it
/// resumes.
#[test]
fn an_agent_that_stands_still_is_cut_off() {
    let Some(server) = RedisServer::start("an_agent_that_stands_still_is_cut_off") else { return };
    server.cli(&["config", "set", "client-output-buffer-limit", "pubsub 1mb 512kb 2"]);
    let agent = Agent::start(&config(
        server.port,
        "200ms",
        "",
        &[("one", "lock:one"), ("two", "lock:two")],
    ));
    until_listening(&agent);
    agent.signal("STOP");
    // As long as any of our keys, so that the network's buffers fill soon.
    let request = format!("SET lock:one:{} x\r\n", "x".repeat(900));
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let began = Instant::now();
    while listener(&server).is_some() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "it is never cut off: {:?}",
            listener(&server)
        );
        (0..20).for_each(|_| send(&mut stream, request.repeat(100).as_bytes(), 100));
    }
    agent.signal("CONT");
    let page = agent.until(PATIENCE * 2, "it listens again", |page| {
        wakes(page) == Some(1.0)
            && page.get("lockwatch_store_wake_up_reconnects_total", &[]) >= Some(1.0)
    });
    agent.check(&page, "it is polled", page.of("two", "lock_held") == Some(0.0));
}
