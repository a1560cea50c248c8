//! Hostile names: keys, holders, users, hosts and tasks of any bytes. All outputs stay parseable,
//! and no two names look the same.

use crate::support::PATIENCE;
use std::collections::BTreeSet;
use std::time::Duration;

use redis::cmd;

use super::config;
use super::locks::{connect, take};
use crate::support::agent::Agent;
use crate::support::html::Element;
use crate::support::redis::RedisServer;
use crate::support::truth::rule;
use crate::support::view::View;

/// Pairwise different, some only by a byte that must be escaped or by a spelled-out escape
/// sequence.
const HOSTILE: [&[u8]; 16] = [
    b"line\nline",
    b"line\\nline",
    b"line\\x0aline",
    b"quote\"quote",
    b"quote\\\"quote",
    b"nul\0nul",
    b"nul\\0nul",
    b"bytes\xff",
    b"bytes\xfe",
    b"bytes\\xff",
    b"back\\slash",
    b"back\\\\slash",
    b"{}",
    b"{a}\",b=\"c\"} 1\nlockwatch_lock_held{task=\"x\"} 1",
    b"\x1b[31mred\r\t\xe2\x80\xae",
    b"<script>alert(1)</script>&amp;",
];

#[test]
fn hostile_bytes_are_escaped_everywhere_and_stay_different() {
    let _rule = rule("14 hostile bytes");
    let test = "faults::names::hostile_bytes_are_escaped_everywhere_and_stay_different";
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    let mut tasks = Vec::new();
    for (number, hostile) in HOSTILE.iter().enumerate() {
        let key = [b"lock:", *hostile].concat();
        take(&mut redis, &key, &[*hostile, b":1"].concat());
        cmd("HSET").arg("hosts").arg(*hostile).arg(*hostile).exec(&mut redis).unwrap();
        // The first half wants the task; the values of the others are neither yes nor no.
        let value: &[u8] = if number < HOSTILE.len() / 2 { b"1" } else { hostile };
        cmd("HSET").arg("users").arg(*hostile).arg(value).exec(&mut redis).unwrap();
        tasks.push(format!(
            r#"name: "task {number:02}", lock: {{key: {{hex: "{}"}}}}, wanted: {{hash: users}}, hosts: {{hash: hosts}}"#,
            hex(&key)
        ));
    }
    // Characters that a task's name may have; control characters are refused.
    let names = [r#"quote " '"#, r"back\slash\n", "{}", "<script>alert(1)</script>", "出荷 ü"];
    for (number, name) in names.iter().enumerate() {
        tasks.push(format!(
            "name: {}, lock: {{key: named-{number}}}",
            serde_json::to_string(name).unwrap()
        ));
    }
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let agent = Agent::start(&config(server.port, &tasks));
    let all = HOSTILE.len();
    let view = agent.until_view(PATIENCE, "everything was read", |view| {
        view.page.series("lockwatch_lock_held", &[]).len() == all + names.len()
    });

    assert_eq!(distinct(&view, "lockwatch_task_info", "key").len(), all + names.len());
    assert_eq!(distinct(&view, "lockwatch_lock_holder", "holder").len(), all);
    assert_eq!(distinct(&view, "lockwatch_lock_holder", "holder_host").len(), all);
    assert_eq!(distinct(&view, "lockwatch_lock_held", "task").len(), all + names.len());
    for (labels, _) in view.page.series("lockwatch_lock_holder", &[]) {
        assert_eq!(labels["holder"], labels["holder_host"], "the holder's own host");
    }
    for number in 0..all {
        let task = view.task(&format!("task {number:02}"));
        let holder = &task["lock"]["hold"]["holders"][0];
        let (key, client) =
            (task["lock"]["key"].as_str().unwrap(), holder["holder"].as_str().unwrap());
        assert_eq!(key.strip_prefix("lock:"), Some(client), "one escape for all");
        let switches = task["switches"].as_array().unwrap();
        let users: BTreeSet<&str> =
            switches.iter().map(|switch| switch["user"].as_str().unwrap()).collect();
        assert_eq!(users.len(), all, "{users:?}");
        let undecodable = switches.iter().filter(|switch| switch["state"] == "undecodable").count();
        assert_eq!(undecodable, all / 2, "{switches:?}");
        assert_eq!(task["wanted"], "yes");
    }
    for name in names {
        assert_eq!(agent.get(&format!("/api/v1/tasks/{}", percent(name))).status, 200, "{name}");
    }
    assert_harmless("the log", &agent.log());
    let landing = agent.get("/").text();
    assert_harmless("the landing page", &landing);
    assert_eq!(Element::parse(&landing).named("script").len(), 1, "only our own");
    for name in names {
        let page = agent.get(&format!("/tasks/{}", percent(name)));
        assert_eq!(
            (page.status, Element::parse(&page.text()).named("script").len()),
            (200, 1),
            "{name}"
        );
    }

    // The log reports their ends and beginnings too.
    for hostile in HOSTILE {
        cmd("DEL").arg([b"lock:", hostile].concat()).exec(&mut redis).unwrap();
    }
    let free =
        |view: &View| (0..all).all(|number| view.held(&format!("task {number:02}")) == Some(0.0));
    agent.until_view(PATIENCE, "all are free", free);
    assert!(
        agent
            .get("/metrics")
            .text()
            .lines()
            .all(|line| !line.starts_with("lockwatch_lock_holder{"))
    );
    std::thread::sleep(Duration::from_millis(300));
    let log = agent.log();
    assert!(log.contains("event=hold_ended"), "{log}");
    assert_harmless("the log", &log);
}

/// Checks for bytes that control a terminal or break a line-based reader.
fn assert_harmless(what: &str, text: &str) {
    let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let line = text.lines().find(|line| line.chars().any(bad));
    assert_eq!(line, None, "in {what}");
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("line")
                || line.starts_with("lockwatch_lock_held{task=\"x\""))
    );
}

fn distinct(view: &View, name: &str, label: &str) -> BTreeSet<String> {
    view.page.series(name, &[]).into_keys().map(|labels| labels[label].clone()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
