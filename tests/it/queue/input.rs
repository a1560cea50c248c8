//! What people's sets contain: too much, other types, other units, any bytes.

use serde_json::Value;

use super::{Scene, member, unix_seconds};
use crate::support::{PATIENCE, wait_until};

/// A hundred thousand due members cost no more than the first hundred.
#[test]
fn a_set_with_a_million_members_costs_a_bounded_reading() {
    let test = "queue::input::a_set_with_a_million_members_costs_a_bounded_reading";
    let Some(scene) = Scene::open(test, ("", "")) else { return };
    let now = unix_seconds().to_string();
    let script = "for i = 1, 1000000 do redis.call('zadd', KEYS[1], ARGV[1] - 100000 + i, 'm' .. i) \
                  end";
    assert_eq!(scene.server.cli(&["eval", script, "1", "tasks", &now]), "");
    scene.until("all are counted", |task| {
        task["queue"]["due"].as_u64() >= Some(100_000) && task["queue"]["members"] == 1_000_000
    });
    let task = scene.agent.task("delayed");
    assert_eq!(task["queue"]["first"].as_array().unwrap().len(), 100);
    assert_eq!(task["queue"]["executing_more"], true, "{task:#}");
    scene.server.cli(&["config", "resetstat"]);
    let calls = |name: &str| -> u64 {
        let field = format!("cmdstat_{name}");
        let stat = scene.server.info(&field).unwrap_or_default();
        let calls = stat.split(',').find_map(|word| word.strip_prefix("calls=")?.parse().ok());
        calls.unwrap_or_default()
    };
    wait_until(PATIENCE, "some readings", || calls("zmscore") >= 10);
    // Each reading has two rounds.
    let readings = calls("zmscore") + 1;
    for name in ["zcard", "zrange", "zcount", "zmscore"] {
        assert!(calls(name) <= readings + 2, "{name}: {} of {readings}", calls(name));
    }
    let locks = calls("getrange");
    assert!(locks >= 100 && locks <= 102 * (readings + 2), "{locks} of {readings}");
    scene
        .agent
        .until(PATIENCE, "the other task", |page| page.of("beside", "lock_held") == Some(0.0));
}

#[test]
fn what_is_no_queue_is_unknown_with_a_remedy() {
    let test = "queue::input::what_is_no_queue_is_unknown_with_a_remedy";
    let Some(scene) = Scene::open(test, ("", "")) else { return };
    let unknown =
        |reason: &'static str| move |task: &Value| task["queue"]["unknown"]["reason"] == reason;
    scene.server.cli(&["set", "tasks", "text"]);
    scene.until("another type", unknown("wrong_type"));
    scene.server.cli(&["del", "tasks"]);
    let milliseconds = (unix_seconds() * 1_000.0).round().to_string();
    scene.server.cli(&["zadd", "tasks", &milliseconds, "m1"]);
    let task = scene.until("another unit", unknown("far_instant"));
    let remedy = task["queue"]["unknown"]["remedy"].as_str().unwrap();
    assert!(remedy.contains("unit: ms"), "{remedy}");
    scene.server.cli(&["del", "tasks"]);
    // Ids may be any bytes, and scores any number.
    scene.server.cli(&[
        "eval",
        "redis.call('zadd', KEYS[1], 1, '\\0\\r\\n<b>\"\\255')",
        "1",
        "tasks",
    ]);
    for (score, id) in [("0", "zero"), ("-inf", "once"), ("+inf", "never"), ("-5", "{id}")] {
        scene.server.cli(&["zadd", "tasks", score, id]);
    }
    let task = scene.until("all are read", |task| task["queue"]["members"] == 5);
    assert_eq!(task["queue"]["due"], 4, "{task:#}");
    scene.server.cli(&["lpush", "lock_zero", "no string"]);
    let task = scene.until("a lock of another type", |task| member(task, "zero")["unread"] == true);
    assert_eq!(task["queue"]["unknown"], Value::Null, "the others are read: {task:#}");
    let page = scene.agent.text("/tasks/delayed");
    assert!(!page.contains("<b>"), "an id is no markup");
    scene
        .agent
        .until(PATIENCE, "the other task", |page| page.of("beside", "lock_held") == Some(0.0));
}
