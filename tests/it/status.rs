//! `lockwatch status` as used by people, scripts and monitoring: the real program with a real
//! agent, and with a malicious one.

use crate::support::PATIENCE;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockwatch::text::terminal::width;
use serde_json::{Value, json};

use crate::support::agent::{Agent, program, request};
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::{free_port, send_signal, skip, wait_until};

const HOLDER: &str = "6f9a3c1e-8a52-4f5c-9f2e-0d3b7a1c5e42:57";
const OTHER: &str = "0b1d5c7e-2f4a-4c6e-8a1b-9d8e7f6a5b4c:12";

/// Programs that a test with a pseudo-terminal needs.
const PTY: &[&str] = &["script", "sh"];

/// A task for each verdict, and the exit code for it alone.
const VERDICTS: [(&str, &str, i32); 8] = [
    ("is split", "split", 2),
    ("is down", "down", 2),
    ("is stalled", "stalled", 2),
    ("is unwanted", "unwanted", 1),
    ("is unknown", "unknown", 3),
    ("is pending", "pending", 0),
    ("is running", "running", 0),
    ("is stopped", "stopped", 0),
];

/// A Redis, and an agent with one task for each verdict.
fn everything(test: &str) -> Option<(RedisServer, Agent)> {
    let server = RedisServer::start(test)?;
    let hold = |key: &str, holder: &str| {
        server.cli(&["HSET", key, holder, "1"]);
        server.cli(&["PEXPIRE", key, "600000"]);
    };
    for key in ["split", "stalled", "unwanted", "running"] {
        hold(key, HOLDER);
    }
    hold("split", OTHER);
    server.cli(&["SET", "unknown", "no hash"]);
    server.cli(&["SET", "progress", "1"]);
    server.cli(&["HSET", "users", "anna", "1", "ben", "0"]);
    server.cli(&["HSET", "nobody", "anna", "0"]);
    server.cli(&["HSET", "hosts", HOLDER.split(':').next().unwrap(), "wh-app-01"]);
    let task = |name: &str, wanted: &str, more: &str| {
        format!(
            "  - {{name: is {name}, lock: {{key: {name}}}, wanted: {wanted}, hosts: {{hash: \
             hosts}}{more}}}\n"
        )
    };
    let tasks = [
        task("split", "always", ""),
        task("down", "{hash: users}", ", grace: 200ms"),
        task("stalled", "always", ", progress: {key: progress, stale_after: 1s}"),
        task("unwanted", "{hash: nobody}", ", wind_down: 200ms"),
        task("unknown", "always", ""),
        task("pending", "{hash: users}", ", grace: 1h"),
        task("running", "{hash: users}", ""),
        task("stopped", "{hash: nobody}", ""),
    ];
    let address = server.address();
    let redis =
        format!("redis:\n  main: {{url: \"redis://{address}\", interval: 100ms, timeout: 1s}}\n");
    let agent = Agent::start(&format!("{redis}tasks:\n{}", tasks.concat()));
    agent.until(PATIENCE, "each verdict", |page| {
        VERDICTS.iter().all(|(name, verdict, _)| page.verdict(name) == *verdict)
    });
    Some((server, agent))
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The command for this agent, independent of the tests' terminal.
fn status(port: u16, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["status", "--agent.url", &url(port)]).args(arguments).stdout(Stdio::piped());
    plain(&mut command);
    command
}

fn plain(command: &mut Command) {
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm-256color");
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The rows of a table, split into words.
fn rows(output: &Output) -> Vec<Vec<String>> {
    text(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[test]
fn the_worst_come_first_and_decide_the_exit_code() {
    let Some((_server, agent)) =
        everything("status::the_worst_come_first_and_decide_the_exit_code")
    else {
        return;
    };
    let output = status(agent.port, &[]).env("COLUMNS", "200").output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    let rows = rows(&output);
    assert_eq!(rows[0].join(" "), "VERDICT TASK WHY HOLDER HELD FOR LEASE LEFT WANTED");
    for (row, (name, verdict, _)) in rows[1..].iter().zip(VERDICTS) {
        assert_eq!((row[1].as_str(), row[2..4].join(" ").as_str()), (verdict, name), "{rows:#?}");
    }
    let all = text(&output.stdout);
    assert!(all.contains("wh-app-01"), "{all}");
    assert!(all.contains("yes 1/2"), "{all}");
    assert!(all.contains("wrong_type"), "why nobody knows: {all}");
    let last = all.lines().last().unwrap();
    assert_eq!(
        last,
        "8 tasks: 1 split, 1 down, 1 stalled, 1 unwanted, 1 unknown, 1 pending, 1 running, 1 \
         stopped"
    );
    assert!(all.lines().rev().nth(1).unwrap().starts_with("as of 2"), "how old it is: {all}");

    for (name, verdict, expected) in VERDICTS {
        let output = status(agent.port, &[name]).output().unwrap();
        let said = text(&output.stdout);
        assert_eq!(code(&output), expected, "{said}");
        let heading = said.lines().next().unwrap();
        assert!(heading.starts_with(name) && heading.ends_with(verdict), "{said}");
        assert!(
            said.contains(&format!("lockwatch explain --agent.url {} '{name}'", url(agent.port))),
            "{said}"
        );
    }
    let one = text(&status(agent.port, &["is running"]).output().unwrap().stdout);
    for expected in [
        "wh-app-01",
        HOLDER.split(':').next().unwrap(),
        "anna on, ben off",
        "grace",
        "store main: held",
    ] {
        assert!(one.contains(expected), "{expected}: {one}");
    }
}

#[test]
fn lost_switches_and_an_unreadable_redis_are_reported() {
    let test = "status::lost_switches_and_an_unreadable_redis_are_reported";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["HSET", "users", "anna", "1"]);
    server.cli(&["HSET", "lock", HOLDER, "1"]);
    let nobody = free_port();
    let config = format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: 100ms}}\n  gone: {{url: \
         \"redis://127.0.0.1:{nobody}\", interval: 100ms}}\n\
         tasks:\n  - {{name: lost, redis: main, lock: {{key: lock}}, wanted: {{hash: users}}, \
         grace: 1h}}\n  \
         - {{name: blind, redis: gone, lock: {{key: lock}}}}\n",
        server.address()
    );
    let agent = Agent::start(&config);
    agent.until(PATIENCE, "running", |page| page.verdict("lost") == "running");
    let output = status(agent.port, &["lost"]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(code(&status(agent.port, &[]).output().unwrap()), 3, "the other one is unknown");
    server.cli(&["FLUSHALL"]);
    agent.until(PATIENCE, "lost", |page| page.of("lost", "task_switches_lost_seconds") > Some(0.0));
    let output = status(agent.port, &["lost"]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(text(&output.stdout).contains("anna"), "{output:?}");
    let output = status(agent.port, &[]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("1 with lost switches"), "{said}");
    let why = said
        .lines()
        .find(|line| line.starts_with("? store gone cannot be read for"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(why.contains("(connect"), "{why}");
}

#[test]
fn the_table_fits_any_width_and_has_no_colours_off_a_terminal() {
    let test = "status::the_table_fits_any_width_and_has_no_colours_off_a_terminal";
    let Some((_server, agent)) = everything(test) else { return };
    for (columns, headings) in [
        (40, "VERDICT TASK WHY"),
        (80, "VERDICT TASK WHY HOLDER HELD FOR"),
        (200, "VERDICT TASK WHY HOLDER HELD FOR LEASE LEFT WANTED"),
    ] {
        let output = status(agent.port, &[]).env("COLUMNS", columns.to_string()).output().unwrap();
        assert_eq!(rows(&output)[0].join(" "), headings, "{columns}");
        let said = text(&output.stdout);
        assert!(said.lines().all(|line| width(line) <= columns), "{columns}:\n{said}");
        assert!(!said.contains('\x1b'), "{said}");
        let one = text(
            &status(agent.port, &["is split"])
                .env("COLUMNS", columns.to_string())
                .output()
                .unwrap()
                .stdout,
        );
        assert!(one.lines().all(|line| width(line) <= columns), "{columns}:\n{one}");
    }
    let default = text(&status(agent.port, &[]).output().unwrap().stdout);
    assert!(default.lines().all(|line| width(line) <= 100), "{default}");
    let forced = text(&status(agent.port, &[]).env("CLICOLOR_FORCE", "1").output().unwrap().stdout);
    assert!(forced.contains("\x1b[1;31m!! split"), "{forced}");
}

#[test]
fn json_is_the_agents_own() {
    let Some((_server, agent)) = everything("status::json_is_the_agents_own") else { return };
    let output = status(agent.port, &["--json"]).output().unwrap();
    assert_eq!(code(&output), 2);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |value: &Value| {
        let tasks = value["tasks"].as_array().unwrap();
        tasks
            .iter()
            .map(|task| task.as_object().unwrap().keys().cloned().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let own: Value =
        serde_json::from_slice(&request(agent.port, "GET", "/api/v1/tasks").body).unwrap();
    assert_eq!(names(&shown), names(&own));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    let one = status(agent.port, &["is down", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!((code(&one), shown["task"]["verdict"].as_str()), (2, Some("down")));

    // Unchanged, byte for byte, one line per request.
    let body =
        r#"{"tasks":[ {"name":"ü","verdict":"running","problems":[],"new":1e3} ],"sequence":7}"#;
    let stub = Stub::start(200, body);
    let output = status(stub.port, &["--json"]).output().unwrap();
    assert_eq!((code(&output), text(&output.stdout)), (0, format!("{body}\n")));
    let mut watch = Running::start(status(stub.port, &["--json", "--watch=100ms"]));
    let seen = watch.until("two looks", |seen| seen.lines().count() > 2);
    assert!(seen.lines().take(2).all(|line| line == body), "{seen}");
}

#[test]
fn whatever_is_not_known_is_3() {
    let Some((_server, agent)) = everything("status::whatever_is_not_known_is_3") else { return };
    let unknown = |output: &Output, why: &str| {
        assert_eq!(code(output), 3, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(why), "{why}: {said}");
        // Monitors show only the first line of standard output.
        let (shown, is_usage) = (text(&output.stdout), said.starts_with("error: "));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.len() == usize::from(!is_usage), "{shown}");
        assert!(lines.iter().all(|line| line.starts_with("UNKNOWN: ")), "{shown}");
    };
    unknown(&status(agent.port, &["is nothing"]).output().unwrap(), "there is no task is nothing");
    unknown(&status(free_port(), &[]).output().unwrap(), "cannot be reached");
    unknown(&status(agent.port, &["--jsn"]).output().unwrap(), "--json");
    unknown(&status(agent.port, &["--watch=1ms"]).output().unwrap(), "100ms");
    unknown(
        &program_with(&["status", "--agent.url", "ftp://127.0.0.1:1"]),
        "write http:// or https://",
    );
    unknown(
        &program_with(&["status", "--agent.url", "\u{1b}[2J nonsense"]),
        r"\x1b[2J nonsense is no address",
    );
    assert_eq!(code(&program_with(&["explain", "--nope"])), 2, "other commands have clap's code");
    assert_eq!(code(&program_with(&["status", "--help"])), 0);

    let stopped = Stub::start(
        503,
        r#"{"error":"The newest snapshot is 12 s old: the agent's engine has stopped."}"#,
    );
    unknown(&status(stopped.port, &[]).output().unwrap(), "the agent's engine has stopped");
    for (answer, why) in [("{}", "no answer of an agent's"), ("<html>", "no answer of an agent's")]
    {
        unknown(&status(Stub::start(200, answer).port, &[]).output().unwrap(), why);
    }
    unknown(&status(Stub::start(404, "nginx").port, &[]).output().unwrap(), "404");

    // It listens, but does not answer.
    agent.signal("STOP");
    let output = status(agent.port, &[]).output();
    agent.signal("CONT");
    unknown(&output.unwrap(), "no answer within 9 s");
}

fn down(name: &str) -> Value {
    let problem = json!({"alert": "LockwatchTaskDown", "severity": "page", "seconds": 61.5});
    json!({"name": name, "verdict": "down", "reason": "Nobody has it.", "problems": [problem]})
}

#[test]
fn a_monitor_gets_the_worst_in_the_first_line_and_all_of_it_on_standard_output() {
    let test = "status::a_monitor_gets_the_worst_in_the_first_line";
    let Some((_server, agent)) = everything(test) else { return };
    let output = status(agent.port, &["--plugin"]).output().unwrap();
    assert_eq!((code(&output), text(&output.stderr).as_str()), (2, ""));
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let (first, figures) = lines[0].split_once(" | ").unwrap();
    assert!(first.starts_with("CRITICAL: 8 tasks: 1 split, 1 down, "), "{said}");
    assert!(first.contains(". is split: split, LockwatchTaskSplit for "), "{said}");
    let expected = "tasks=8;;;0 critical=3;;;0;8 warning=1;;;0;8 unknown=1;;;0;8 oldest_reading=";
    assert!(figures.starts_with(expected), "{said}");
    assert_eq!(lines.len(), 1 + VERDICTS.len(), "{said}");
    assert!(lines[1..].iter().all(|line| !line.contains('|')), "{said}");
    let one = status(agent.port, &["--plugin", "is running"]).output().unwrap();
    assert_eq!(code(&one), 0);
    assert!(text(&one.stdout).starts_with("OK: 1 task: 1 running | tasks=1;"), "{one:?}");

    let unknown = |arguments: &[&str], port: u16, why: &str| {
        let output = status(port, arguments).output().unwrap();
        let said = text(&output.stdout);
        assert_eq!(code(&output), 3, "{output:?}");
        assert!(said.starts_with("UNKNOWN: ") && said.contains(why), "{output:?}");
    };
    unknown(&["--plugin"], free_port(), "cannot be reached");
    unknown(&["--plugin", "is nothing"], agent.port, "there is no task is nothing");
    unknown(&["--plugin", "--jsn"], agent.port, "--jsn");
    unknown(&["--plugin", "--json"], agent.port, "cannot be used with");
}

/// What an alert fires for is not well, whatever the verdict is called.
#[test]
fn an_event_that_pages_is_critical_while_the_task_runs() {
    let lost =
        json!({"alert": "LockwatchLockLost", "severity": "page", "seconds": 30, "event": true});
    let task = json!({"name": "a", "verdict": "running", "reason": "Held.", "problems": [lost]});
    let stub = Stub::start(200, &json!({"tasks": [task]}).to_string());
    let output = status(stub.port, &[]).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(text(&output.stdout).contains("!! running"), "{output:?}");
    let output = status(stub.port, &["--plugin"]).output().unwrap();
    let said = text(&output.stdout);
    let summary = "CRITICAL: 1 task: 1 running. a: running, LockwatchLockLost 30s ago.";
    assert!(said.starts_with(summary), "{said}");
}

#[test]
fn nothing_of_a_malicious_agent_reaches_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n\u{9b}31m\u{202e}\u{2066}x\u{200b}出荷e\u{301}";
    let body = hostile(&json!({"at": evil, "tasks": vec![task_of(evil); 3], "stores": [{
        "name": evil, "readable": false, "unknown": {"reason": evil, "remedy": evil},
        "nodes": [{"address": evil, "up": false, "unknown": {"reason": evil, "remedy": evil}}],
    }]}));
    let one = hostile(&json!({"at": evil, "task": task_of(evil)}));
    let refusal = hostile(&json!({"error": evil}));
    let not_json = format!("{evil}{{}}");
    let no_field = hostile(&json!({"tasks": [{"name": 1.5, "verdict": evil}]}));
    let wrong = hostile(&json!({"tasks": evil}));
    for (answer, arguments) in [
        ((200, &body), [].as_slice()),
        ((200, &body), &["--json"]),
        ((200, &body), &["--plugin"]),
        ((200, &one), &[evil]),
        ((200, &one), &["a", "--json"]),
        ((404, &refusal), &[evil]),
        ((500, &refusal), &[]),
        ((200, &not_json), &[]),
        ((200, &no_field), &[]),
        ((200, &wrong), &[]),
        ((502, &not_json), &[]),
    ] {
        let stub = Stub::start(answer.0, answer.1);
        for columns in ["40", "200"] {
            let output = status(stub.port, arguments).env("COLUMNS", columns).output().unwrap();
            for said in [text(&output.stdout), text(&output.stderr)] {
                let bad = said.chars().find(|c| {
                    *c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}".contains(*c))
                });
                assert_eq!(bad, None, "{arguments:?}: {said:?}");
                let columns: usize = columns.parse().unwrap();
                let fits = arguments.iter().any(|it| ["--json", "--plugin"].contains(it))
                    || said.lines().all(|line| width(line) <= columns);
                assert!(fits || !output.stderr.is_empty(), "{columns}: {said}");
            }
        }
    }
    // The JSON is still equal.
    let stub = Stub::start(200, &body);
    let output = status(stub.port, &["--json"]).output().unwrap();
    let (shown, sent): (Value, Value) =
        (serde_json::from_slice(&output.stdout).unwrap(), serde_json::from_str(&body).unwrap());
    assert_eq!(shown, sent);
}

/// A task in which every text is this one.
fn task_of(text: &str) -> Value {
    let unknown = json!({"reason": text, "remedy": text});
    let holders = json!([{"holder": text, "host": text}, {"holder": text, "host": null}]);
    json!({
        "name": text, "redis": text, "verdict": text, "rule": text, "reason": text, "verdict_since": text, "wanted": text,
        "labels": [{"name": text, "value": text}], "switches": [{"user": text, "state": text}], "switches_unknown": unknown,
        "lost_users": [text], "node": text, "live_claims": [text], "splits": [text],
        "witnesses": [{"node": text, "role": text, "at": text, "holders": holders}],
        "progress": {"moved": text, "unknown": unknown},
        "lock": {"key": text, "scheme": text, "unknown": unknown, "hold": {
            "mode": text, "holders": holders, "acquired": text, "deadline": text, "last_renewal": text,
        }},
        "last_handover": {"at": text, "seconds": 1e300}, "last_outage": {"at": text, "seconds": -1},
    })
}

/// JSON that escapes only what must be escaped.
fn hostile(value: &Value) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let test = "status::a_reader_that_goes_away_ends_it_quietly";
    if !skip::has(test, &["bash", "head"]) {
        return;
    }
    let tasks: Vec<Value> = (0..3_000).map(|number| down(&number.to_string())).collect();
    let stub = Stub::start(200, &json!({"tasks": tasks}).to_string());
    for (command, expected) in [
        ("status", "2"),
        ("status --json", "2"),
        ("status --plugin", "2"),
        ("status --watch=100ms", "2"),
        ("completions bash", "0"),
        ("man", "0"),
        ("status --help", "0"),
    ] {
        let url = if command.starts_with("status") {
            format!("--agent.url {}", url(stub.port))
        } else {
            String::new()
        };
        let line = format!(
            "{} {command} {url} | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_lockwatch")
        );
        let output = Command::new("timeout").args(["20", "bash", "-c", &line]).output().unwrap();
        assert_eq!(
            (code(&output).to_string().as_str(), text(&output.stderr).as_str()),
            (expected, ""),
            "{command}"
        );
    }
}

#[test]
fn a_terminal_gets_colours_unless_somebody_does_not_want_them() {
    let test = "status::a_terminal_gets_colours_unless_somebody_does_not_want_them";
    if !skip::has(test, PTY) {
        return;
    }
    let Some((_server, agent)) = everything(test) else { return };
    let on_terminal = |before: &str, columns: usize| {
        let line = format!(
            "stty cols {columns} rows 40; {before} {} status --agent.url {}",
            env!("CARGO_BIN_EXE_lockwatch"),
            url(agent.port)
        );
        let output = pty(&line).output().unwrap();
        assert_eq!(code(&output), 2, "{output:?}");
        text(&output.stdout)
    };
    let coloured = on_terminal("", 60);
    for expected in ["\x1b[1;31m!! split", "\x1b[33m!  unwanted", "\x1b[32mok running"] {
        assert!(coloured.contains(expected), "{coloured:?}");
    }
    let uncoloured = on_terminal("NO_COLOR=1", 60);
    assert!(!uncoloured.contains('\x1b'), "{uncoloured:?}");
    assert!(
        uncoloured.lines().all(|line| width(line.trim_end_matches('\r')) <= 60),
        "the terminal's width: {uncoloured}"
    );
    assert!(uncoloured.lines().any(|line| width(line.trim_end_matches('\r')) > 50), "{uncoloured}");
    let dumb = on_terminal("TERM=dumb COLUMNS=30", 90);
    assert!(!dumb.contains('\x1b'), "{dumb:?}");
    assert!(
        dumb.lines().any(|line| line.contains("HOLDER")),
        "the terminal is wider than COLUMNS says: {dumb}"
    );
}

#[test]
fn a_watch_draws_in_place_survives_the_agents_absence_and_gives_the_terminal_back() {
    let test =
        "status::a_watch_draws_in_place_survives_the_agents_absence_and_gives_the_terminal_back";
    if !skip::has(test, PTY) {
        return;
    }
    let body = |verdict: &str, problems: Value| {
        json!({"tasks": [{"name": "outbound", "verdict": verdict, "problems": problems}]})
            .to_string()
    };
    let stub = Stub::start(200, &body("running", json!([])));
    let port = stub.port;
    let line = format!(
        "stty cols 60 rows 20; exec {} status --watch=100ms --agent.url {}",
        env!("CARGO_BIN_EXE_lockwatch"),
        url(port)
    );
    let mut watch = Running::start(pty(&line));
    let seen = watch.until("drawn twice", |seen| seen.matches("running").count() > 4);
    assert!(seen.contains("\x1b[?1049h"), "another screen: {seen:?}");
    let frames: Vec<&str> = seen.split("\x1b[H").skip(1).collect();
    assert!(
        frames.len() > 1 && frames.iter().all(|frame| frame.matches("outbound").count() <= 1),
        "{frames:#?}"
    );
    drop(stub);
    watch.until("that it is away", |seen| {
        seen.contains("no answer") && seen.contains("trying again")
    });
    let again = Stub::start_at(port, 200, &body("stalled", json!([{"severity": "page"}])));
    watch.until("that it is back", |seen| seen.contains("stalled"));
    watch.until("a frame without trouble", |seen| {
        seen.rsplit("\x1b[H")
            .nth(1)
            .is_some_and(|frame| frame.contains("stalled") && !frame.contains("no answer"))
    });
    watch.type_in(b"\x03");
    let (seen, status) = watch.end();
    let ending = seen.rfind("\x1b[?1049l").unwrap_or_else(|| panic!("the old screen: {seen:?}"));
    assert!(seen[..ending].ends_with("\x1b[?25h"), "the cursor: {seen:?}");
    assert!(!seen[ending..].contains("outbound"), "nothing is drawn after that: {seen:?}");
    assert_eq!(status, Some(2), "what was seen last");
    drop(again);
}

#[test]
fn a_watch_off_a_terminal_appends() {
    let body = r#"{"tasks":[{"name":"outbound","verdict":"unwanted","problems":[{"severity":"warning"}]}]}"#;
    let stub = Stub::start(200, body);
    let port = stub.port;
    let mut watch = Running::start(status(port, &["outbound", "--watch=100ms"]));
    // An answer for one task differs in form from one for all.
    watch.until("that it is no answer", |seen| seen.contains("no answer of an agent's"));
    drop(watch);
    let mut watch = Running::start(status(port, &["--watch=100ms"]));
    let seen = watch.until("three tables", |seen| seen.matches("VERDICT").count() == 3);
    assert!(!seen.contains('\x1b'), "{seen:?}");
    drop(stub);
    watch.until("that it is away", |seen| seen.contains("? no answer, for "));
    let _again = Stub::start_at(port, 200, body);
    let before = watch.seen.matches("VERDICT").count();
    watch.until("that it is back", |seen| seen.matches("VERDICT").count() > before + 1);
    watch.signal("INT");
    let (_, status) = watch.end();
    assert_eq!(status, Some(1), "what was seen last");
}

fn program_with(arguments: &[&str]) -> Output {
    program().args(arguments).stdout(Stdio::piped()).output().unwrap()
}

/// Runs a shell line on a pseudo-terminal; the exit code is that of the line.
fn pty(line: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "60",
        "script",
        "--quiet",
        "--return",
        "--flush",
        "--command",
        line,
        "/dev/null",
    ]);
    command
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    plain(&mut command);
    command
}

/// A running command whose output is read as it comes. Dropping it kills exactly this process.
struct Running {
    child: OwnedChild,
    output: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    seen: String,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = OwnedChild::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null()));
        let mut stdout = child.stdout.take().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Running { child, output, bytes: Vec::new(), seen: String::new() }
    }

    /// Waits until its output fulfils the condition; returns all output so far.
    #[track_caller]
    fn until(&mut self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let mut found = false;
        for _ in 0..2_000 {
            self.take();
            found = condition(&self.seen);
            if found {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert!(found, "{what}: {:?}", self.seen);
        self.seen.clone()
    }

    fn take(&mut self) {
        while let Ok(bytes) = self.output.try_recv() {
            self.bytes.extend(bytes);
        }
        self.seen = String::from_utf8_lossy(&self.bytes).into_owned();
    }

    fn type_in(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// Waits until it has ended; returns all output and the exit code.
    #[track_caller]
    fn end(mut self) -> (String, Option<i32>) {
        let mut status = None;
        wait_until(PATIENCE, "it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_secs(1)) {
            self.bytes.extend(bytes);
        }
        self.take();
        (std::mem::take(&mut self.seen), status.and_then(|status| status.code()))
    }
}

/// Gives the same answer to every request, as no honest agent would. Dropping it frees the port.
struct Stub {
    port: u16,
    ended: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Stub {
    fn start(status: u16, body: &str) -> Stub {
        Stub::start_at(0, status, body)
    }

    fn start_at(port: u16, status: u16, body: &str) -> Stub {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ended = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&ended);
        let answer = format!(
            "HTTP/1.1 {status} As it is\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let serving = thread::spawn(move || {
            for stream in listener.incoming() {
                if reported.load(Ordering::SeqCst) {
                    return;
                }
                // A disconnected client is no error.
                let _ = stream.and_then(|stream| serve(stream, &answer));
            }
        });
        Stub { port, ended, serving: Some(serving) }
    }
}

fn serve(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    stream.write_all(answer.as_bytes())
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // A last connection wakes it up to see that it must stop.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}
