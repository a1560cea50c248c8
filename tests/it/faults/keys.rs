//! Malformed keys: each blinds exactly its own task, and the reason is reported.

use crate::support::PATIENCE;
use std::process::{Command, Output};

use redis::cmd;

use super::config;
use super::locks::{HOLDER, connect, switch, take};
use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;
use crate::support::view::View;

/// More fields than lockwatch reads, and enough for a careless client to block the server.
const MANY: u32 = 1_000_000;

/// The key with that many fields.
const MANY_FIELDS: &str = "many";

const TASKS: [&str; 13] = [
    r#"name: held, lock: {key: held}, wanted: {hash: users}"#,
    r#"name: free, lock: {key: free}, wanted: {hash: users}"#,
    r#"name: text, lock: {key: text}"#,
    r#"name: hash, lock: {key: held-too, library: string}"#,
    r#"name: many, lock: {key: many}"#,
    r#"name: faster, lock: {key: faster}"#,
    r#"name: foreign, lock: {key: foreign}"#,
    r#"name: forever, lock: {key: forever}"#,
    r#"name: far, lock: {key: far}"#,
    r#"name: token, lock: {key: token, library: string}"#,
    r#"name: forbidden, lock: {key: forbidden}, wanted: {hash: users}"#,
    r#"name: wanted-by-many, lock: {key: held-three}, wanted: {hash: many}"#,
    r#"name: wanted-by-text, lock: {key: held-four}, wanted: {hash: text}"#,
];

/// Tasks whose lock cannot be read, the reason, and a word of the remedy.
const UNREADABLE: [(&str, &str, &str); 6] = [
    ("text", "wrong_type", "library"),
    ("hash", "wrong_type", "library"),
    ("many", "too_large", "correct the key"),
    ("faster", "layout", "correct the key"),
    ("foreign", "layout", "correct the key"),
    ("forbidden", "no_permission", "lockwatch acl"),
];

#[test]
fn each_bad_key_blinds_exactly_its_own_task() {
    let test = "faults::keys::each_bad_key_blinds_exactly_its_own_task";
    let Some(server) = RedisServer::start(test) else { return };
    lay_out(&server);
    let config = restricted(&server, &config(server.port, &TASKS));
    let before = slow_commands_on(MANY_FIELDS, &server);
    let agent = Agent::start_with(&config, |command| {
        command.env("PASSWORD", "secret");
    });

    let view = agent.until_view(PATIENCE, "everything was read", |view| {
        view.held("token").is_some() && view.reason("text") != Some("not_read_yet")
    });
    for (task, reason, remedy) in UNREADABLE {
        assert_eq!(view.reason(task), Some(reason), "{task}");
        let shown = view.task(task)["lock"]["unknown"]["remedy"].as_str().unwrap();
        assert!(shown.contains(remedy), "{task}: {shown}");
        assert!(view.errors("main", reason) > 0.0, "{reason} is counted");
        let logged = agent.log().lines().any(|line| {
            line.contains("event=task_unreadable")
                && line.contains(&format!("task={task} "))
                && line.contains(reason)
        });
        assert!(logged, "{task}: {}", agent.log());
    }
    for (task, reason) in [("wanted-by-many", "too_large"), ("wanted-by-text", "wrong_type")] {
        let task = view.task(task);
        assert_eq!(
            (task["wanted"].as_str(), task["verdict"].as_str()),
            (Some("unknown"), Some("running"))
        );
        assert_eq!(task["switches_unknown"]["reason"], reason, "{task}");
    }
    agent.throughout(std::time::Duration::from_secs(2), "only what is true", shows_only_the_truth);
    assert_eq!(slow_commands_on(MANY_FIELDS, &server), before, "the agent sent something slow");

    // As soon as a key is repaired, its task recovers.
    let mut redis = connect(server.port);
    cmd("DEL").arg("text").exec(&mut redis).unwrap();
    take(&mut redis, b"faster", HOLDER.as_bytes());
    agent.until_view(PATIENCE, "mended", |view| {
        view.held("text") == Some(0.0) && view.held("faster") == Some(1.0)
    });
}

fn shows_only_the_truth(view: &View) -> bool {
    let unreadable = UNREADABLE.iter().all(|(task, reason, _)| {
        let absent =
            ["lock_held", "lock_holder", "lock_holders", "lock_ttl_seconds", "lock_held_seconds"];
        view.reason(task) == Some(reason)
            && absent.iter().all(|name| {
                view.page.series(&format!("lockwatch_{name}"), &[("task", task)]).is_empty()
            })
    });
    let held = ["held", "forever", "far", "token", "wanted-by-many", "wanted-by-text"];
    let persistent = |task| view.page.get("lockwatch_lock_persistent", &[("task", task)]);
    unreadable
        && held
            .iter()
            .all(|task| view.held(task) == Some(1.0) && view.of_task(task, "blind_seconds") == 0.0)
        && view.held("free") == Some(0.0)
        && (persistent("forever"), persistent("far")) == (Some(1.0), Some(0.0))
        && view.page.get("lockwatch_lock_ttl_seconds", &[("task", "forever")])
            == Some(f64::INFINITY)
        && view.page.get("lockwatch_lock_deadline_timestamp_seconds", &[("task", "far")])
            == Some(1e12)
        && view.page.get("lockwatch_store_up", &[("store", "main")]) == Some(1.0)
}

fn lay_out(server: &RedisServer) {
    let mut redis = connect(server.port);
    for key in ["held", "held-too", "held-three", "held-four", "forever", "far", "forbidden"] {
        take(&mut redis, key.as_bytes(), HOLDER.as_bytes());
    }
    cmd("PERSIST").arg("forever").exec(&mut redis).unwrap();
    cmd("PEXPIREAT").arg("far").arg(1_000_000_000_000_000_u64).exec(&mut redis).unwrap();
    cmd("SET").arg("text").arg("x").exec(&mut redis).unwrap();
    cmd("SET").arg("token").arg("a secret token").arg("PX").arg(600_000).exec(&mut redis).unwrap();
    cmd("HSET").arg("foreign").arg("name").arg("value").exec(&mut redis).unwrap();
    // Redisson's FasterMultiLock keeps many locks in one hash, with fields of its own.
    let lock_count = format!("bGFi:{HOLDER}:lock_count");
    let faster = [("bGFi", HOLDER), (&lock_count, "1")];
    cmd("HSET").arg("faster").arg(&faster).exec(&mut redis).unwrap();
    switch(&mut redis, "users", &[("anna", "1")]);
    let fill = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], i, i) end";
    cmd("EVAL").arg(fill).arg(1).arg(MANY_FIELDS).arg(MANY).exec(&mut redis).unwrap();
    assert_eq!(cmd("HLEN").arg(MANY_FIELDS).query::<u32>(&mut redis).unwrap(), MANY);
}

/// Creates the user of `lockwatch acl`, but without access to one key; returns the configuration
/// with that user.
fn restricted(server: &RedisServer, config: &str) -> String {
    let config = config.replace("500ms", "500ms, username: lockwatch, password_env: PASSWORD");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &config).unwrap();
    let Output { status, stdout, stderr } = program()
        .arg("acl")
        .arg("--config.file")
        .arg(file.path())
        .stdout(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let rules = String::from_utf8(stdout).unwrap().replace(">PASSWORD", ">secret");
    let rule = rules.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    let words = rule.split(' ').map(|word| word.trim_matches('"'));
    let words: Vec<&str> = words.filter(|word| *word != "%R~forbidden").collect();
    assert_eq!(words.len(), rule.split(' ').count() - 1, "{rule}");
    let mut cli = Command::new("redis-cli");
    let said = cli.arg("-s").arg(server.socket()).args(words).output().unwrap();
    assert_eq!(said.stdout, b"OK\n");
    config
}

/// The commands on a key in Redis' slow log: each took longer than 10 ms.
///
/// Entries about small keys only show that the machine stalled.
fn slow_commands_on(key: &str, server: &RedisServer) -> Vec<Vec<String>> {
    // The slow log's default threshold.
    assert_eq!(
        server.cli(&["CONFIG", "GET", "slowlog-log-slower-than"]).lines().nth(1),
        Some("10000")
    );
    let log: Vec<(u64, u64, u64, Vec<String>, String, String)> =
        cmd("SLOWLOG").arg("GET").arg(-1).query(&mut connect(server.port)).unwrap();
    let commands = log.into_iter().map(|(.., command, _, _)| command);
    // A command with a limit of its own is slow only while the whole machine is.
    let is_bounded = |command: &[String]| command.iter().any(|word| word == "COUNT");
    commands
        .filter(|command| command.iter().any(|word| word == key) && !is_bounded(command))
        .collect()
}
