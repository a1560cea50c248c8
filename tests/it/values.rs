//! Values that say more than a token, or less: the holder's or the task's name inside JSON, and
//! constants.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, wait_until};

fn agent(server: &RedisServer, task: &str) -> Agent {
    Agent::start(&format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n{task}",
        server.address()
    ))
}

fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string()
}

fn status(agent: &Agent, task: &str) -> String {
    let output = program()
        .args(["status", task, "--agent.url", &format!("http://127.0.0.1:{}", agent.port)])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All tasks.
fn table(agent: &Agent) -> String {
    let url = format!("http://127.0.0.1:{}", agent.port);
    let mut status = program();
    status.args(["status", "--agent.url", &url]).env("COLUMNS", "200").stdout(Stdio::piped());
    String::from_utf8(status.output().unwrap().stdout).unwrap()
}

#[track_caller]
fn until(agent: &Agent, task: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    let is_so = || {
        shown = agent.task(task);
        condition(&shown)
    };
    let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until(PATIENCE, what, is_so);
    }));
    assert!(seen.is_ok(), "{what}\n{shown:#}\n{}", agent.log());
    shown
}

/// A heartbeat that rewrites the whole value is a renewal, not a new holder.
#[test]
fn a_hold_goes_on_while_the_named_holder_stays() {
    let Some(server) = RedisServer::start("values::a_hold_goes_on") else { return };
    let beat = |owner: &str| {
        let value = format!(r#"{{"owner":"{owner}","heartbeatAt":{}}}"#, now());
        server.cli(&["set", "k", &value, "ex", "10"]);
    };
    beat("web-1");
    let lock = "lock: {key: k, library: string, holder: {json: /owner}}";
    let agent = agent(&server, &format!("  - {{name: t, {lock}, max_hold: 3s}}\n"));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(6) {
        beat("web-1");
        thread::sleep(Duration::from_millis(1_000));
    }
    let page = agent.page();
    assert!(page.of("t", "lock_held_seconds") > Some(4.0), "{}", page.text());
    assert!(page.of("t", "lock_renewals_total") >= Some(3.0), "{}", page.text());
    assert!(page.of("t", "lock_acquisitions_total") <= Some(1.0), "{}", page.text());
    assert_eq!(page.label("t", "lock_holder", "holder").as_deref(), Some("web-1"));
    let task = agent.task("t");
    let problems = task["problems"].as_array().unwrap();
    assert!(problems.iter().any(|one| one["problem"] == "held_too_long"), "{task:#}");
    beat("web-2");
    agent.until(PATIENCE, "another holder", |page| {
        page.label("t", "lock_holder", "holder").as_deref() == Some("web-2")
    });
    // What has no owner is neither free nor held by nobody.
    server.cli(&["set", "k", r#"{"Owner":"web-3","secret":"5e1f0a77c3d94b6e8a21"}"#]);
    let task =
        until(&agent, "t", "unknown", |task| task["lock"]["unknown"]["reason"] == "value_path");
    let said = task["lock"]["unknown"].to_string();
    assert!(said.contains("a JSON object without it") && said.contains("GETRANGE k"), "{said}");
    assert!(!task.to_string().contains("5e1f0a77"), "a value is a secret: {task}");
    server.cli(&["del", "k"]);
    agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
}

/// The host stands in clear in a value that is a secret otherwise, or all of it is a name.
#[test]
fn a_host_in_the_value_is_shown_and_the_token_is_not() {
    let Some(server) = RedisServer::start("values::a_host_in_the_value") else { return };
    let random = "0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b";
    let token = |host: &str| format!("{host}_4711_{random}");
    server.cli(&["set", "net", &token("WEB01"), "px", "600000"]);
    server.cli(&["set", "resque", "vm:9780", "ex", "180"]);
    let agent = agent(
        &server,
        "  - {name: net, lock: {key: net, library: string, host: {regex: '^(.+)_[0-9]+_[0-9a-f]{32}$'}}}\n  \
           - name: resque\n    \
             lock: {key: resque, library: string, holder: {regex: '^(.+)$'}, host: {regex: '^(.+):[0-9]+$'}}\n    \
             wanted: always\n    grace: 1s\n",
    );
    let is_on = |task: &str, host: &str| {
        agent.until(PATIENCE, "its host", |page| {
            page.label(task, "lock_holder", "holder_host").as_deref() == Some(host)
        });
    };
    is_on("net", "WEB01");
    is_on("resque", "vm");
    let page = agent.page();
    assert_eq!(page.label("resque", "lock_holder", "holder").as_deref(), Some("vm:9780"));
    server.cli(&["set", "net", &token("WEB02"), "px", "600000"]);
    is_on("net", "WEB02");
    let explained = agent.text("/api/v1/tasks/net/explain");
    assert!(explained.contains("WEB02"), "{explained}");
    for shown in [explained, agent.page().text().to_owned(), agent.log(), status(&agent, "net")] {
        assert!(!shown.contains(random), "{shown}");
    }
    // A value without a host is held all the same.
    server.cli(&["set", "net", "5e1f0a77c3d94b6e8a21", "px", "600000"]);
    let task =
        until(&agent, "net", "no host", |task| task["hosts_unknown"]["reason"] == "value_path");
    assert_eq!(task["lock"]["held"], true, "{task:#}");
    server.cli(&["del", "resque"]);
    agent.until(PATIENCE, "who had it", |page| {
        let name = "lock_last_holder_timestamp_seconds";
        page.label("resque", name, "holder_host").as_deref() == Some("vm")
    });
}

/// A is over its lease, B is beside it: the values are the same, so nothing shows it, and the words
/// say so.
#[test]
fn a_constant_identifies_nobody_and_is_said_to() {
    let Some(server) = RedisServer::start("values::a_constant_identifies_nobody") else { return };
    server.cli(&["set", "k", "1", "ex", "60"]);
    server.cli(&["set", "other", "web-1", "ex", "60"]);
    let agent = agent(
        &server,
        "  - {name: t, lock: {key: k, library: string}}\n  \
           - {name: other, lock: {key: other, library: string}}\n",
    );
    agent.until(PATIENCE, "held", |page| {
        page.of("t", "lock_held") == Some(1.0) && page.of("other", "lock_held") == Some(1.0)
    });
    let page = agent.page();
    assert_eq!(page.label("t", "lock_holder", "holder"), None, "{}", page.text());
    assert!(page.label("other", "lock_holder", "holder").is_some(), "{}", page.text());
    let words = "the same whoever holds it";
    for (task, is_constant) in [("t", true), ("other", false)] {
        for shown in [
            agent.text(&format!("/tasks/{task}")),
            agent.text(&format!("/api/v1/tasks/{task}/explain")),
            status(&agent, task),
        ] {
            assert_eq!(shown.contains(words), is_constant, "{task}: {shown}");
            assert!(!shown.contains("by 6b86b273"), "no digest of it is a holder: {shown}");
        }
        assert!(!status(&agent, task).contains("6b86b273"), "no digest of it is a holder");
    }
    let task = agent.task("t");
    assert_eq!(task["lock"]["hold"]["holders"][0]["holder"], "", "{task:#}");
    let table = table(&agent);
    let row = |task: &str| table.lines().find(|line| line.contains(&format!(" {task} "))).unwrap();
    assert!(row("t").contains("(constant)"), "{table}");
    assert!(!row("other").contains("(constant)"), "{table}");
}

/// The member is the whole message, and the lock is named by the id in it.
#[test]
fn the_id_of_a_queue_lies_inside_its_members() {
    let Some(server) = RedisServer::start("values::the_id_of_a_queue") else { return };
    let agent = agent(
        &server,
        "  - {name: named, queue: {zset: q1, id: {json: /id}, lock: \"lock_{id}\", max_late: 2s}}\n  \
           - {name: whole, queue: {zset: q2, lock: \"lock_{id}\", max_late: 2s}}\n  \
           - {name: set, queue: {zset: q3, max_late: 2s}}\n",
    );
    let member = |id: usize| format!(r#"{{"id":"m{id}","kind":"mail"}}"#);
    let lock = |id: usize| format!("lock_m{id}");
    let all = |command: &str, words: &[&str]| {
        for set in ["q1", "q2", "q3"] {
            server.cli(&[&[command, set], words].concat());
        }
    };
    server.cli(&["set", &lock(0), "5e1f0a77c3d94b6e8a21", "ex", "60"]);
    all("zadd", &["0", &member(0)]);
    let task = until(&agent, "named", "it is executed", |task| task["queue"]["executing"] == 1);
    assert_eq!(task["queue"]["first"][0]["id"], "m0", "{task:#}");
    let task = until(&agent, "whole", "it is late", |task| task["verdict"] == "stalled");
    let words = "the members are json";
    let notes = task["notes"].to_string().to_lowercase();
    assert!(notes.contains(words) && notes.contains("right?"), "{task:#}");
    assert!(task["reason"].as_str().unwrap().to_lowercase().contains(words), "{task:#}");
    assert!(status(&agent, "whole").to_lowercase().contains(words));
    let checked = program()
        .args(["check-config", "--connect", "--config.file"])
        .arg(agent.path("lockwatch.yml"))
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("task whole: No lock of a member was ever seen held"), "{checked}");
    let task = agent.task("named");
    assert_ne!(task["verdict"], "stalled", "{task:#}");
    assert_eq!(task["notes"], Value::Array(Vec::new()), "{task:#}");
    let task =
        until(&agent, "set", "it is late without locks", |task| task["verdict"] == "stalled");
    assert_eq!((&task["queue"]["executing"], &task["queue"]["lock"]), (&Value::Null, &Value::Null));
    for id in 0..4 {
        server.cli(&["set", &lock(id), "5e1f0a77c3d94b6e8a21", "ex", "60"]);
        all("zadd", &["0", &member(id)]);
        until(&agent, "named", "executed", |task| task["queue"]["executing"] == 1);
        // Each set is read at its own time: what was never seen cannot be counted as departed.
        until(&agent, "set", "seen", |task| task["queue"]["members"] == 1);
        all("zrem", &[&member(id)]);
        server.cli(&["del", &lock(id)]);
        let left = until(&agent, "named", "left", |task| task["queue"]["members"] == 0);
        assert_eq!(left["queue"]["totals"]["departed_locked"], id + 1, "{left:#}");
        assert_eq!(left["queue"]["totals"]["vanished"], 0, "{left:#}");
    }
    let of_set = until(&agent, "set", "all left", |task| task["queue"]["totals"]["departed"] == 4);
    assert_eq!(of_set["queue"]["totals"]["vanished"], 0, "{of_set:#}");
    // A message without an id hides its lock.
    server.cli(&["zadd", "q1", "0", r#"{"kind":"mail"}"#]);
    until(&agent, "named", "unknown", |task| {
        let unknown = &task["queue"]["unknown"];
        unknown["reason"] == "value_path" && unknown["said"].to_string().contains("without it")
    });
}

/// A dead holder looks alive until its lease ends.
#[test]
fn a_lease_of_hours_is_worth_a_word() {
    let Some(server) = RedisServer::start("values::a_lease_of_hours") else { return };
    server.cli(&["set", "day", "5e1f0a77c3d94b6e8a21", "ex", "86400"]);
    server.cli(&["set", "watched", "5e1f0a77c3d94b6e8a22", "ex", "86400"]);
    let agent = agent(
        &server,
        "  - {name: day, lock: {key: day, library: string}}\n  \
           - {name: watched, lock: {key: watched, library: string}, max_hold: 1h}\n",
    );
    agent.until(PATIENCE, "held", |page| {
        page.of("day", "lock_held") == Some(1.0) && page.of("watched", "lock_held") == Some(1.0)
    });
    let shown = status(&agent, "day");
    assert!(shown.contains("looks held for up to 1d: set `max_hold` or `progress`"), "{shown}");
    assert!(agent.text("/api/v1/tasks/day/explain").contains("looks held for up to"));
    assert!(!status(&agent, "watched").contains("looks held for up to"));
}

/// Milliseconds where seconds are read silence a task for thousands of years.
#[test]
fn a_pause_for_ages_is_worth_a_word() {
    let Some(server) = RedisServer::start("values::a_pause_for_ages") else { return };
    server.cli(&["set", "far", "99999999999"]);
    let soon = (SystemTime::now() + Duration::from_secs(86_400)).duration_since(UNIX_EPOCH);
    server.cli(&["set", "near", &soon.unwrap().as_secs().to_string()]);
    let task = |name| {
        format!("  - {{name: {name}, lock: {{key: k{name}}}, paused_until: {{key: {name}}}}}\n")
    };
    let agent = agent(&server, &(task("far") + &task("near")));
    let words = "paused for more than ten years";
    for (task, is_far) in [("far", true), ("near", false)] {
        until(&agent, task, "paused", |task| task["paused"] == true);
        for shown in [
            agent.text(&format!("/tasks/{task}")),
            agent.text(&format!("/api/v1/tasks/{task}/explain")),
            status(&agent, task),
        ] {
            assert_eq!(shown.contains(words), is_far, "{task}: {shown}");
        }
    }
    let file = agent.path("lockwatch.yml");
    let output = program()
        .args(["check-config", "--connect", "--config.file", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(words)).collect();
    assert!(matches!(lines[..], [line] if line.contains("task far")), "{said}");
}
