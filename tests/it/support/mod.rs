//! Shared helpers: real servers, a faulty network, and waiting for conditions.
#![allow(dead_code, reason = "shared by tests that each use a part of it")]

pub(crate) mod agent;
pub(crate) mod certificates;
pub(crate) mod child;
pub(crate) mod cluster;
pub(crate) mod exposition;
#[path = "../../../fuzz/targets/src/honest.rs"]
pub(crate) mod honest;
pub(crate) mod html;
pub(crate) mod impostor;
pub(crate) mod maven;
pub(crate) mod network;
pub(crate) mod prometheus;
pub(crate) mod proxy;
pub(crate) mod redis;
pub(crate) mod redis_py;
pub(crate) mod redisson;
pub(crate) mod replicas;
pub(crate) mod sentinels;
pub(crate) mod skip;
pub(crate) mod standstill;
#[path = "../../../judge/tests/truth/mod.rs"]
pub(crate) mod truth;
pub(crate) mod view;
#[path = "../../../fuzz/targets/src/wire.rs"]
pub(crate) mod wire;
pub(crate) mod zookeeper;

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

/// Timeout for an expected event. Long, because many tests run at the same time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// A port of 127.0.0.1 that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Waits until `condition` holds; panics with `what` if it does not within `timeout`.
#[track_caller]
pub(crate) fn wait_until(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {timeout:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Like `wait_until`, for tests in which the runtime must go on meanwhile.
pub(crate) async fn eventually(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {timeout:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Sends a signal (`STOP`, `CONT`, `TERM`, …) to exactly this process. Uses the shell's built-in
/// `kill`: a small Debian has no other.
pub(crate) fn send_signal(process: u32, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", r#"kill -s "$0" "$1""#, name, &process.to_string()])
        .status()
        .unwrap();
    assert!(sent.success(), "kill -s {name} {process}");
}
