//! What the agent shows of real lock libraries in Python (`tests/libraries`): single-beat, huey and
//! portalocker.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, send_signal, skip};

/// A command of the Python that `scripts/setup` made, with the libraries.
fn python(test: &str) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (python, locks) =
        (root.join("target/dashboards/bin/python"), root.join("target/libraries/python"));
    if !python.exists() || !locks.exists() {
        skip::say(test, "lock libraries in Python (scripts/setup test)");
        return None;
    }
    let mut command = Command::new(python);
    command.env("PYTHONPATH", locks).current_dir(root);
    Some(command)
}

fn agent(server: &RedisServer, task: &str) -> Agent {
    Agent::start(&format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n{task}",
        server.address()
    ))
}

/// A lock of a library that somebody holds.
struct Holding {
    child: OwnedChild,
    says: BufReader<std::process::ChildStdout>,
}

impl Holding {
    fn start(mut python: Command, server: &RedisServer, library: &str) -> Holding {
        let port = server.address();
        let port = port.rsplit(':').next().unwrap();
        python.args(["tests/libraries/hold.py", library, port, "nightly"]);
        let mut child = OwnedChild::spawn(python.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let says = BufReader::new(child.stdout.take().unwrap());
        let mut holding = Holding { child, says };
        holding.expect("held");
        holding
    }

    #[track_caller]
    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word);
    }

    fn release(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.expect("released");
    }
}

fn is_held(agent: &Agent, expected: bool) {
    let held = if expected { 1.0 } else { 0.0 };
    agent.until(PATIENCE, "held or free", |page| page.of("nightly", "lock_held") == Some(held));
}

/// The value is another one with each heartbeat, and another process runs after a restart: all that
/// is one hold.
#[test]
fn single_beat_renews_one_hold_and_lets_it_expire() {
    const TEST: &str = "locks::single_beat_renews_one_hold_and_lets_it_expire";
    let (Some(mut command), Some(server)) = (python(TEST), RedisServer::start(TEST)) else {
        return;
    };
    let agent = agent(
        &server,
        "  - {name: nightly, max_hold: 4s, \
         lock: {key: SINGLE_BEAT_nightly, library: single-beat}}\n",
    );
    is_held(&agent, false);
    command
        .args(["target/libraries/python/bin/single-beat", "sleep", "600"])
        .env("SINGLE_BEAT_REDIS_SERVER", format!("redis://{}", server.address()))
        .env("SINGLE_BEAT_IDENTIFIER", "nightly")
        .env("SINGLE_BEAT_HOST_IDENTIFIER", "web-1");
    let mut beat = OwnedChild::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    is_held(&agent, true);
    agent.until(PATIENCE, "eight renewals", |page| {
        page.of("nightly", "lock_renewals_total") >= Some(8.0)
    });
    let page = agent.page();
    assert_eq!(page.of("nightly", "lock_acquisitions_total"), Some(1.0), "{}", page.text());
    assert_eq!(page.label("nightly", "lock_holder", "holder").as_deref(), Some("web-1"));
    let task = agent.task("nightly");
    let problems = task["problems"].as_array().unwrap();
    assert!(problems.iter().any(|one| one["problem"] == "held_too_long"), "{task:#}");
    // Its child stays: only what beats is killed.
    let child = server.cli(&["get", "SINGLE_BEAT_nightly"]);
    let child: u32 = child.trim().rsplit(':').next().unwrap().parse().unwrap();
    beat.kill().unwrap();
    send_signal(child, "KILL");
    is_held(&agent, false);
    let log = agent.log();
    assert!(!log.contains("replaced"), "{log}");
    let page = agent.page();
    assert_eq!(page.of("nightly", "lock_acquisitions_total"), Some(1.0), "{}", page.text());
    assert_eq!(page.of("nightly", "lock_expired_total"), Some(1.0), "{}", page.text());
}

/// The hash stays, and so does another lock in it.
#[test]
fn the_lock_of_huey_is_a_field() {
    const TEST: &str = "locks::the_lock_of_huey_is_a_field";
    let (Some(command), Some(server)) = (python(TEST), RedisServer::start(TEST)) else { return };
    server.cli(&["hset", "huey.results.huey", "huey.lock.other", "1"]);
    let lock = |name: &str| {
        format!(
            "  - {{name: {name}, lock: {{key: huey.results.huey, field: huey.lock.{name}, \
             library: string}}}}\n"
        )
    };
    let agent = agent(&server, &(lock("nightly") + &lock("other")));
    is_held(&agent, false);
    let mut holding = Holding::start(command, &server, "huey");
    is_held(&agent, true);
    let page = agent.page();
    assert_eq!(page.label("nightly", "lock_holder", "holder"), None, "{}", page.text());
    let explained = agent.text("/api/v1/tasks/nightly/explain");
    assert!(explained.contains("HGET huey.results.huey huey.lock.nightly"), "{explained}");
    holding.release();
    is_held(&agent, false);
    let page = agent.page();
    assert_eq!(page.of("other", "lock_held"), Some(1.0), "{}", page.text());
    // A field that could not be sent is not asked for; the other lock is read as before.
    let huge = "x".repeat(100_000);
    server.cli(&["hset", "huey.results.huey", "huey.lock.nightly", &huge]);
    agent.until(PATIENCE, "too large", |_| {
        agent.task("nightly")["lock"]["unknown"]["reason"] == "too_large"
    });
    assert_eq!(agent.page().of("other", "lock_held"), Some(1.0));
    server.cli(&["set", "huey.results.huey", "x"]);
    agent.until(PATIENCE, "wrong type", |_| {
        agent.task("nightly")["lock"]["unknown"]["reason"] == "wrong_type"
    });
}

/// There is no key: held while somebody listens, also when nobody renews anything.
#[test]
fn the_lock_of_portalocker_is_a_subscription() {
    const TEST: &str = "locks::the_lock_of_portalocker_is_a_subscription";
    let (Some(command), Some(again)) = (python(TEST), python(TEST)) else { return };
    let Some(server) = RedisServer::start(TEST) else { return };
    let agent = agent(&server, "  - {name: nightly, lock: {key: nightly, library: channel}}\n");
    is_held(&agent, false);
    let mut holding = Holding::start(command, &server, "portalocker");
    is_held(&agent, true);
    let page = agent.until(PATIENCE, "held for a while", |page| {
        page.of("nightly", "lock_held_seconds") >= Some(2.0)
    });
    assert_eq!(page.of("nightly", "lock_held"), Some(1.0), "{}", page.text());
    assert_eq!(page.of("nightly", "lock_acquisitions_total"), Some(1.0), "{}", page.text());
    holding.release();
    is_held(&agent, false);
    let mut killed = Holding::start(again, &server, "portalocker");
    is_held(&agent, true);
    killed.child.kill().unwrap();
    is_held(&agent, false);
}
