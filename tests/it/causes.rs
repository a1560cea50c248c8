//! Why nobody has a lock, where the lock alone does not show it: its server refuses writes, or its
//! key has another name. With real Redis.

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, wait_until};

const TASK: &str = "import";

fn configuration(server: &RedisServer, key: &str) -> String {
    format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n  - {{name: {TASK}, wanted: \
         always, grace: 1s, lock: {{key: \"{key}\", library: string}}}}\n",
        server.address()
    )
}

fn until_reason(agent: &Agent, words: &str) -> Value {
    let mut task = Value::Null;
    wait_until(PATIENCE, words, || {
        task = agent.task(TASK);
        task["reason"].as_str().is_some_and(|reason| reason.contains(words))
    });
    task
}

fn run(arguments: &[&str]) -> String {
    let output = program().args(arguments).stdout(Stdio::piped()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Each server refuses writes, as its own answer shows, and is named beside `down`.
#[test]
fn a_server_that_refuses_writes_is_named_as_the_cause() {
    let test = "a_server_that_refuses_writes_is_named_as_the_cause";
    let folder = TempDir::new().unwrap();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let gone = gone.to_str().unwrap();
    let cases: [(&str, &[&str]); 3] = [
        ("OOM", &["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]),
        ("NOREPLICAS", &["--min-replicas-to-write", "1"]),
        ("MISCONF", &["--save", "900 1", "--dir", gone]),
    ];
    for (code, arguments) in cases {
        let Some(server) = RedisServer::start_with(test, arguments) else { return };
        match code {
            "OOM" => _ = server.cli(&["SETRANGE", "filler", "6000000", "x"]),
            "MISCONF" => {
                server.cli(&["SET", "written", "1"]);
                fs::remove_dir_all(gone).unwrap();
                server.cli(&["BGSAVE"]);
            }
            _ => {}
        }
        wait_until(PATIENCE, code, || server.cli(&["SET", "any", "1"]).contains(code));
        let agent = Agent::start(&configuration(&server, "import:lock"));
        agent.until(PATIENCE, "down", |page| page.verdict(TASK) == "down");
        until_reason(&agent, &format!("refuses writes ({code})"));
        let labels = [("store", "main"), ("error", code)];
        let shown = agent.page().get("lockwatch_store_refuses_writes", &labels);
        assert_eq!(shown, Some(1.0), "{code}");
        assert!(agent.text(&format!("/tasks/{TASK}")).contains(code), "{code}: the page");
        let url = format!("http://127.0.0.1:{}", agent.port);
        let status = run(&["status", TASK, "--agent.url", &url]);
        assert!(status.contains(code), "{code}: {status}");
    }
}

/// A client put a prefix before the key, or works in another database.
#[test]
fn a_key_that_was_never_seen_is_said_to_be_so() {
    let Some(server) = RedisServer::start("a_key_that_was_never_seen_is_said_to_be_so") else {
        return;
    };
    server.cli(&["SET", "redlock:import:lock", "5e1f0a77c3d94b6e8a21"]);
    server.cli(&["-n", "1", "SET", "import:lock", "5e1f0a77c3d94b6e8a21"]);
    let agent = Agent::start(&configuration(&server, "import:lock"));
    let words = "The agent has never seen its key; `lockwatch discover --redis URL --match \
                 '*import:lock*'`";
    let task = until_reason(&agent, words);
    assert_eq!(task["key_seen"], false, "{task}");
    let file = agent.path("lockwatch.yml");
    let said = run(&["check-config", "--connect", "--config.file", file.to_str().unwrap()]);
    assert!(said.contains("its key import:lock does not exist now"), "{said}");
    assert!(said.contains("--match '*import:lock*'"), "{said}");
    assert!(said.contains("perhaps in another database: "), "{said}");
    assert!(said.contains("db1 (1 keys)"), "{said}");
    // Once it was seen, nothing is said any more.
    server.cli(&["SET", "import:lock", "5e1f0a77c3d94b6e8a21"]);
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    server.cli(&["DEL", "import:lock"]);
    agent.until(PATIENCE, "down", |page| page.verdict(TASK) == "down");
    let task = agent.task(TASK);
    assert_eq!(task["key_seen"], true, "{task}");
    assert!(!task["reason"].as_str().unwrap().contains("never seen"), "{task}");
}

/// A group of locks in one hash: the words say what was found.
#[test]
fn a_hash_that_is_no_lock_is_described() {
    let Some(server) = RedisServer::start("a_hash_that_is_no_lock_is_described") else { return };
    server.cli(&["HSET", "locks", "report", "cf1c-77", "sync", "0a5e-12"]);
    let agent = Agent::start(&configuration(&server, "locks").replace("string", "hash"));
    until_reason(&agent, "the hash has 2 fields, and 2 values that are no counts");
}

/// What is named like a lock and has no layout of one is named with its type.
#[test]
fn discover_names_what_only_looks_like_a_lock() {
    let Some(server) = RedisServer::start("discover_names_what_only_looks_like_a_lock") else {
        return;
    };
    let keys = [
        (&["SET", "lock:json", "{\"owner\": \"web-1\", \"at\": 7}", "EX", "60"][..], "record"),
        (&["HSET", "lock:group", "report", "cf1c-77", "sync", "0a5e-12"], "hash"),
        (&["ZADD", "report:semaphore", "7", "cf1c-77", "8", "0a5e-12"], "sorted set"),
        (&["RPUSH", "leader:waiting", "cf1c-77"], "list"),
        (&["SADD", "lease:holders", "cf1c-77"], "set"),
    ];
    for (command, _) in keys {
        server.cli(command);
    }
    let url = format!("redis://{}", server.address());
    let said = run(&["discover", "--redis", &url, "--watch", "0s"]);
    assert!(said.contains("Locks that are not proposed."), "{said}");
    for (command, what) in keys {
        assert!(said.contains(command[1]) && said.contains(&format!("a {what}")), "{what}: {said}");
    }
}

/// What was found at one task's key says nothing about the keys of the others.
#[test]
fn each_task_that_cannot_be_read_names_its_own_key() {
    let Some(server) = RedisServer::start("each_task_that_cannot_be_read_names_its_own_key") else {
        return;
    };
    let json = "holder: {json: /owner}, library: string";
    let tasks = [
        ("list", "library: string", &["RPUSH", "list:l", "a"][..], "WRONGTYPE"),
        ("set", "library: string", &["SADD", "set:l", "a"], "WRONGTYPE"),
        ("plain", "library: redisson", &["SET", "plain:l", "x"], "WRONGTYPE"),
        ("hash", "library: redisson", &["HSET", "hash:l", "a", "x"], "no count"),
        ("wide", "library: redisson", &["HSET", "wide:l", "a", "x", "b", "y"], "2 fields"),
        ("other", json, &["SET", "other:l", "{\"own\":1}"], "without it"),
        ("nobody", json, &["SET", "nobody:l", "{\"owner\":null}"], "null"),
        ("torn", json, &["SET", "torn:l", "[1,2"], "JSON"),
    ];
    let mut yaml = format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n",
        server.address()
    );
    for (name, lock, command, _) in &tasks {
        server.cli(command);
        yaml += &format!("  - {{name: {name}, lock: {{key: \"{name}:l\", {lock}}}}}\n");
    }
    let agent = Agent::start(&yaml);
    let reason = |name: &str| agent.task(name)["reason"].as_str().unwrap().to_owned();
    let mut reasons = String::new();
    for (name, _, _, words) in &tasks {
        let asked = format!("{name}:l)");
        wait_until(PATIENCE, &asked, || reason(name).contains(&asked));
        let reason = reason(name);
        assert!(reason.contains(words), "{name}: {reason}");
        assert_eq!(reason.matches("asked: ").count(), 1, "{name}: {reason}");
        reasons.push_str(&reason);
    }
    // What is found at one of them later is said of that one alone.
    server.cli(&["DEL", "set:l"]);
    server.cli(&["HSET", "set:l", "a", "x"]);
    server.cli(&["SET", "torn:l", "{\"owner\":7.5}"]);
    wait_until(PATIENCE, "other words", || !reason("torn").contains("the value is no JSON"));
    let unchanged = tasks.iter().filter(|(name, ..)| !["set", "torn"].contains(name));
    for (name, ..) in unchanged {
        assert!(reasons.contains(&reason(name)), "{name}: {}", reason(name));
    }
}
