//! Keys whose bytes are not what the documentation of a lock library shows: values that are times,
//! line breaks and quotes that a shell or a serializer left, a hash whose only field is its owner.

use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::PATIENCE;
use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;

fn agent(server: &RedisServer, tasks: &str) -> Agent {
    Agent::start(&format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n{tasks}",
        server.address()
    ))
}

fn status(agent: &Agent, task: &str) -> String {
    let output = program()
        .args(["status", task, "--agent.url", &format!("http://127.0.0.1:{}", agent.port)])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// It stays held: whether the time is when the holder began or when its lease ends is not known.
#[test]
fn a_value_that_is_a_time_in_the_past_is_held_with_a_word() {
    let Some(server) = RedisServer::start("a_value_that_is_a_time_in_the_past") else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let values = [
        ("seconds", (now - 3_600).to_string(), true),
        ("millis", ((now - 60) * 1_000).to_string(), true),
        ("fraction", format!("{}.25", now - 5), true),
        ("text", "2026-01-02T03:04:05Z".to_owned(), true),
        ("with-name", format!("{}:web-1", now - 3_600), true),
        ("future", (now + 3_600).to_string(), false),
        ("counter", "42".to_owned(), false),
        ("token", "5e1f0a77c3d94b6e8a21".to_owned(), false),
    ];
    let mut tasks = String::new();
    for (name, value, _) in &values {
        server.cli(&["set", name, value]);
        tasks += &format!("  - {{name: {name}, lock: {{key: {name}, library: string}}}}\n");
    }
    let agent = agent(&server, &tasks);
    let word = "is a time in the past";
    for (name, value, past) in &values {
        agent.until(PATIENCE, name, |page| page.of(name, "lock_held") == Some(1.0));
        let json = agent.text(&format!("/api/v1/tasks/{name}"));
        assert_eq!(json.contains("\"value_is_past\":true"), *past, "{name}: {json}");
        let shown = [
            agent.text(&format!("/tasks/{name}")),
            agent.text(&format!("/api/v1/tasks/{name}/explain")),
            status(&agent, name).split_whitespace().collect::<Vec<_>>().join(" "),
        ];
        for shown in shown {
            assert_eq!(shown.contains(word), *past, "{name}: {shown}");
            assert!(*name == "counter" || !shown.contains(value), "{name} is a secret: {shown}");
        }
    }
}

#[test]
fn what_a_shell_or_a_serializer_left_around_words_is_no_part_of_them() {
    let Some(server) = RedisServer::start("what_a_shell_or_a_serializer_left") else { return };
    server.cli(&["hset", "users", "anna", "1\n", "bert", "'on'", "carl", "off\r\n"]);
    for (key, field) in [
        ("plain", "'last_run'"),
        ("json", "'\"last_run\"'"),
        ("kryo", r"'\3last_ru\238'"),
        ("broken", r"'last_run\n'"),
    ] {
        server.cli(&["eval", &format!("return redis.call('hset', KEYS[1], {field}, 7)"), "1", key]);
    }
    let mut tasks =
        "  - {name: wanted, lock: {key: a}, wanted: {hash: users}, grace: 1h}\n".to_owned();
    for key in ["plain", "json", "kryo", "broken"] {
        tasks += &format!(
            "  - {{name: {key}, lock: {{key: {key}-lock}}, progress: {{hash: {key}, field: last_run, \
             stale_after: 1h}}}}\n"
        );
    }
    for key in ["plain", "json", "kryo", "broken"] {
        let lock = format!("{key}-lock");
        server.cli(&["hset", &lock, "285475da-9152-4c83-822a-67ee2f116a79:1", "1"]);
    }
    let agent = agent(&server, &tasks);
    agent.until(PATIENCE, "two users", |page| page.of("wanted", "task_wanting_users") == Some(2.0));
    for key in ["plain", "json", "kryo", "broken"] {
        agent.until(PATIENCE, key, |page| page.of(key, "lock_held") == Some(1.0));
        let json = agent.text(&format!("/api/v1/tasks/{key}"));
        assert!(json.contains("\"missing\":false"), "{key}: {json}");
    }
}

#[test]
fn a_hash_whose_only_field_is_its_owner_is_a_lock_of_its_own_library() {
    let Some(server) = RedisServer::start("a_hash_whose_only_field_is_its_owner") else { return };
    server.cli(&["hset", "hand", "node-7", "2"]);
    server.cli(&["hset", "other", "node-7", "2"]);
    server.cli(&["pexpire", "hand", "600000"]);
    let agent = agent(
        &server,
        "  - {name: right, lock: {key: hand, library: hash}}
  - {name: wrong, lock: {key: other}}
",
    );
    agent.until(PATIENCE, "held", |page| page.of("right", "lock_held") == Some(1.0));
    let wrong = agent.text("/api/v1/tasks/wrong");
    assert!(wrong.contains("\"held\":null") && wrong.contains("library: hash"), "{wrong}");
    server.cli(&["del", "hand"]);
    agent.until(PATIENCE, "free", |page| page.of("right", "lock_held") == Some(0.0));
}
