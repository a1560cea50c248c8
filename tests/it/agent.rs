//! The whole agent as a process, beside a real Redis: what it shows, and how it takes reloads, pauses and its end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::redis::{Keep, RedisServer};
use crate::support::{free_port, send_signal, wait_until};

const SOON: Duration = Duration::from_secs(10);

/// A running agent. Dropping it kills it.
struct Agent {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl Agent {
    /// An agent that watches the string lock `lock` of the task `outbound`, wanted at all times.
    fn start(server: &RedisServer) -> Agent {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("lockwatch.yml"), configuration(server, &["outbound"])).unwrap();
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_lockwatch"))
            .arg("--config.file")
            .arg(directory.path().join("lockwatch.yml"))
            .args(["--web.listen-address", &format!("127.0.0.1:{port}")])
            .env("LOCKWATCH_FAULT", format!("engine-stall:{}", directory.path().join("stall").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Agent { child, port, directory };
        wait_until(SOON, "the agent is ready", || agent.get("/-/ready").is_some_and(|(status, _)| status == 200));
        agent
    }

    /// Status and body of a page; `None` if there is no answer.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(SOON)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n").ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let status = response.split(' ').nth(1)?.parse().ok()?;
        Some((status, response.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// The value of the first series of `/metrics` that begins with `series`.
    fn metric(&self, series: &str) -> Option<f64> {
        let (_, page) = self.get("/metrics")?;
        page.lines().find(|line| line.starts_with(series))?.rsplit(' ').next()?.parse().ok()
    }

    #[track_caller]
    fn wait_for_metric(&self, series: &str, expected: Option<f64>) {
        let mut newest = None;
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            newest = self.metric(series);
            if newest == expected {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{series} is {newest:?}, not {expected:?}");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _status = self.child.wait();
    }
}

fn configuration(server: &RedisServer, tasks: &[&str]) -> String {
    let mut text = format!(
        "redis:\n  main:\n    url: redis://127.0.0.1:{}/0\n    interval: 200ms\n    timeout: 1s\ntasks:\n",
        server.port
    );
    for task in tasks {
        let lock = format!("{{key: \"lock:{task}\", scheme: string}}");
        text += &format!("  - name: {task}\n    lock: {lock}\n    wanted: always\n    grace: 2s\n    settle: 1s\n");
    }
    text
}

/// What every rule begins with.
fn of(metric: &str, task: &str) -> String {
    format!("{metric}{{task=\"{task}\"")
}

#[test]
fn the_page_follows_the_lock() {
    let Some(server) = RedisServer::start("the_page_follows_the_lock") else { return };
    let agent = Agent::start(&server);
    let (held, state) = (of("lockwatch_lock_held", "outbound"), "lockwatch_task_state{task=\"outbound\"");
    agent.wait_for_metric(&held, Some(0.0));
    server.cli(&["SET", "lock:outbound", "me", "PX", "60000"]);
    let before = Instant::now();
    agent.wait_for_metric(&held, Some(1.0));
    assert!(before.elapsed() < Duration::from_millis(600), "{:?}", before.elapsed());
    server.cli(&["DEL", "lock:outbound"]);
    agent.wait_for_metric(&held, Some(0.0));
    assert!(agent.metric(state).is_some());
}

#[test]
fn a_reload_keeps_what_is_known_and_a_broken_file_changes_nothing() {
    let Some(server) = RedisServer::start("a_reload_keeps_what_is_known_and_a_broken_file_changes_nothing") else {
        return;
    };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = Agent::start(&server);
    agent.wait_for_metric(&of("lockwatch_lock_held", "outbound"), Some(1.0));
    for round in 0..5 {
        server.cli(&["SET", "lock:outbound", &format!("holder {round}")]);
        std::thread::sleep(Duration::from_millis(300));
    }
    let acquisitions = of("lockwatch_lock_acquisitions_total", "outbound");
    let before = agent.metric(&acquisitions).unwrap();
    assert!(before >= 4.0, "{before}");
    let reconnects = agent.metric("lockwatch_redis_reconnects_total");
    std::fs::write(agent.file("lockwatch.yml"), configuration(&server, &["other", "outbound"])).unwrap();
    send_signal(agent.child.id(), "HUP");
    agent.wait_for_metric(&of("lockwatch_lock_held", "other"), Some(0.0));
    assert_eq!(agent.metric(&acquisitions), Some(before));
    assert_eq!(agent.metric("lockwatch_redis_reconnects_total"), reconnects, "the connection is kept");
    agent.wait_for_metric("lockwatch_config_last_reload_successful", Some(1.0));
    std::fs::write(agent.file("lockwatch.yml"), "redis: 5\n").unwrap();
    send_signal(agent.child.id(), "HUP");
    agent.wait_for_metric("lockwatch_config_last_reload_successful", Some(0.0));
    server.cli(&["SET", "lock:other", "me"]);
    agent.wait_for_metric(&of("lockwatch_lock_held", "other"), Some(1.0));
}

#[test]
fn a_paused_server_is_unknown_and_a_restarted_one_is_read_again() {
    let Some(mut server) = RedisServer::start("a_paused_server_is_unknown_and_a_restarted_one_is_read_again") else {
        return;
    };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = Agent::start(&server);
    let held = of("lockwatch_lock_held", "outbound");
    agent.wait_for_metric(&held, Some(1.0));
    server.pause();
    agent.wait_for_metric(&held, None);
    assert_eq!(agent.metric(&of("lockwatch_task_down_seconds", "outbound")), Some(0.0));
    server.go_on();
    agent.wait_for_metric(&held, Some(1.0));
    server.restart(Keep::Nothing);
    agent.wait_for_metric(&held, Some(0.0));
}

#[test]
fn a_paused_agent_claims_nothing_false() {
    let Some(server) = RedisServer::start("a_paused_agent_claims_nothing_false") else { return };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = Agent::start(&server);
    let held = of("lockwatch_lock_held", "outbound");
    agent.wait_for_metric(&held, Some(1.0));
    for _ in 0..3 {
        send_signal(agent.child.id(), "STOP");
        std::thread::sleep(Duration::from_millis(2_500));
        send_signal(agent.child.id(), "CONT");
        agent.wait_for_metric(&held, Some(1.0));
    }
    assert_eq!(agent.metric(&of("lockwatch_task_down_time_seconds_total", "outbound")), Some(0.0));
    assert_eq!(agent.metric(&of("lockwatch_task_down_seconds", "outbound")), Some(0.0));
    let ends = format!("{},redis=\"main\",reason=\"ended_early\"", of("lockwatch_lock_ends_total", "outbound"));
    assert!(agent.metric(&ends).is_none_or(|ends| ends == 0.0));
}

#[test]
fn it_ends_when_told_to_though_a_client_is_still_connected() {
    let Some(server) = RedisServer::start("it_ends_when_told_to_though_a_client_is_still_connected") else { return };
    for signal in ["TERM", "INT"] {
        let mut agent = Agent::start(&server);
        let mut client = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost").unwrap();
        send_signal(agent.child.id(), signal);
        let mut status = None;
        wait_until(Duration::from_secs(7), "the agent ends", || {
            status = agent.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{signal}: {status:?}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn an_engine_that_stands_still_does_not_look_healthy() {
    let Some(server) = RedisServer::start("an_engine_that_stands_still_does_not_look_healthy") else { return };
    let agent = Agent::start(&server);
    let status = |path| agent.get(path).map(|(status, _)| status);
    assert_eq!((status("/metrics"), status("/-/healthy")), (Some(200), Some(200)));
    std::fs::write(agent.file("stall"), "").unwrap();
    wait_until(Duration::from_secs(20), "503", || status("/metrics") == Some(503) && status("/-/healthy") == Some(503));
    std::fs::remove_file(agent.file("stall")).unwrap();
    wait_until(SOON, "200 again", || status("/metrics") == Some(200) && status("/-/healthy") == Some(200));
}
