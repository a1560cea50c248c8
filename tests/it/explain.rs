//! `explain`: each verdict names its deciding evidence, no secret appears, and an explanation
//! causes no additional commands to Redis.

mod rules;

use crate::support::PATIENCE;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::agent::{Agent, program, request};
use crate::support::cluster::Cluster;
use crate::support::network::Options;
use crate::support::redis::RedisServer;
use crate::support::replicas::Replicated;
use crate::support::{free_port, wait_until};

const A: &str = "285475da-9152-4c83-822a-67ee2f116a79";
const B: &str = "0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b";
const THREAD: &str = "40917";
const TOKEN: &str = "5e1f0a77c3d94b6e8a21";

fn config(server: &RedisServer, interval: &str, tasks: &str) -> String {
    let url = format!("redis://{}", server.address());
    format!(
        "redis:\n  main: {{url: \"{url}\", interval: {interval}, timeout: 500ms}}\ntasks:\n{tasks}"
    )
}

/// The agent's explanation.
#[track_caller]
fn explained(agent: &Agent, task: &str) -> Value {
    serde_json::from_str(&agent.text(&format!("/api/v1/tasks/{task}/explain"))).unwrap()
}

/// Waits until a task has this verdict; returns its explanation.
#[track_caller]
fn explained_as(agent: &Agent, task: &str, verdict: &str) -> Value {
    agent.until(PATIENCE, &format!("{task} is {verdict}"), |page| page.verdict(task) == verdict);
    let explanation = explained(agent, task);
    assert_eq!(explanation["verdict"], verdict, "{explanation:#}");
    explanation
}

/// The same with Redis' replies meanwhile. There may be none if the machine stalls.
#[track_caller]
fn explained_by_redis_as(agent: &Agent, task: &str, verdict: &str) -> Value {
    let mut explanation = Value::Null;
    wait_until(PATIENCE, "it was read meanwhile", || {
        explanation = explained_as(agent, task, verdict);
        explanation["trace"]["exchanges"].as_array().is_some_and(|exchanges| !exchanges.is_empty())
    });
    explanation
}

/// The deciding evidence as one text.
fn deciding(explanation: &Value) -> String {
    let lines = explanation["deciding"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_says(explanation: &Value, pieces: &[&str]) {
    let answer = deciding(explanation);
    for piece in pieces {
        assert!(answer.contains(piece), "{piece:?} is not in:\n{answer}\n{explanation:#}");
    }
    let rules = explanation["rules"].as_array().unwrap();
    assert_eq!(rules.last().unwrap()["rule"], explanation["rule"]);
    assert_eq!(rules.last().unwrap()["gave"], explanation["verdict"]);
}

/// Runs the program with these arguments to its end.
fn run(arguments: &[&str]) -> Output {
    let output = program().args(arguments).stdout(Stdio::piped()).output().unwrap();
    assert!(!text(&output.stderr).contains("panicked"), "{output:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A configuration file.
fn file(config: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lockwatch.yml");
    fs::write(&path, config).unwrap();
    let name = path.to_str().unwrap().to_owned();
    (folder, name)
}

fn nobody() -> String {
    format!("http://127.0.0.1:{}", free_port())
}

#[test]
fn each_verdict_names_what_decided() {
    let Some(server) = RedisServer::start("each_verdict_names_what_decided") else { return };
    let tasks = "  - {name: split, lock: {key: split}}
  - {name: down, lock: {key: down}, wanted: {hash: users}, grace: 1s}
  - {name: stalled, lock: {key: stalled}, progress: {key: progress, stale_after: 1s}}
  - {name: unwanted, lock: {key: unwanted}, wanted: {hash: nobody}, wind_down: 1s}
  - {name: unknown, lock: {key: unknown}, settle: 500ms, blind_after: 1s}
  - {name: pending, lock: {key: pending}, wanted: {hash: users}, grace: 1h}
  - {name: running, lock: {key: running, library: string}, wanted: always}
  - {name: stopped, lock: {key: stopped}, wanted: never}
";
    server.cli(&["hset", "split", &format!("{A}:1"), "1", &format!("{B}:2"), "1"]);
    server.cli(&["hset", "users", "anna", "1", "bert", "on", "carl", "0"]);
    for key in ["stalled", "unwanted"] {
        server.cli(&["hset", key, &format!("{A}:{THREAD}"), "1"]);
    }
    server.cli(&["set", "progress", "7"]);
    server.cli(&["hset", "nobody", "dora", "off"]);
    server.cli(&["set", "unknown", "no hash"]);
    server.cli(&["set", "running", TOKEN, "px", "600000"]);
    let agent = Agent::start(&config(&server, "200ms", tasks));
    let from = server.address();

    let split = explained_by_redis_as(&agent, "split", "split");
    assert_says(
        &split,
        &["kind holders", &format!("{A}, shown by {from}"), &format!("{B}, shown by {from}")],
    );
    let down = explained_by_redis_as(&agent, "down", "down");
    assert_says(
        &down,
        &[
            "Free and wanted since 20",
            &format!("ago from {from}"),
            "> grace 1.0 s",
            "Wanted by anna, bert.",
        ],
    );
    let stalled = explained_by_redis_as(&agent, "stalled", "stalled");
    assert_says(&stalled, &["the key progress", "has not moved since", "> stale_after 1.0 s", A]);
    let unwanted = explained_by_redis_as(&agent, "unwanted", "unwanted");
    assert_says(&unwanted, &["> wind_down 1.0 s", A, "the switches of dora are off"]);
    let unknown = explained_by_redis_as(&agent, "unknown", "unknown");
    assert_says(
        &unknown,
        &["The lock is unknown (wrong_type)", "> blind_after 1.0 s", "no good reading yet"],
    );
    let pending = explained_by_redis_as(&agent, "pending", "pending");
    assert_says(&pending, &["Free and wanted since", "<= grace 1h", "Wanted by anna, bert."]);
    let left = pending["pages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|page| page["alert"] == "LockwatchTaskDown")
        .unwrap();
    let (value, left) =
        (left["value_seconds"].as_f64().unwrap(), left["due_in_seconds"].as_f64().unwrap());
    assert!((value + left - 3600.0).abs() < 0.01, "{pending:#}");
    let running = explained_by_redis_as(&agent, "running", "running");
    assert_says(&running, &["Held (exclusive) by digest ", &from, "`wanted: always`"]);
    let stopped = explained_by_redis_as(&agent, "stopped", "stopped");
    assert_says(&stopped, &["The lock is free, confirmed", "`wanted: never`"]);

    for explanation in [split, down, stalled, unwanted, unknown, pending, running, stopped] {
        let exchanges = explanation["trace"]["exchanges"].as_array().unwrap();
        let commands = exchanges[0]["commands"].as_array().unwrap();
        let key = explanation["task"].as_str().unwrap();
        assert!(
            commands[0]["command"].as_str().unwrap().ends_with(&format!(" {key}")),
            "{explanation:#}"
        );
        assert!(
            commands.iter().all(|said| !said["reply"].as_array().unwrap().is_empty()),
            "{explanation:#}"
        );
        assert_eq!(exchanges[0]["role"], "master");
        assert_eq!(
            explanation["evidence"][0]["node"],
            if key == "unknown" { Value::Null } else { from.clone().into() }
        );
    }
}

#[test]
fn a_redis_that_stops_is_named_with_the_last_good_reading() {
    let Some(server) = RedisServer::start("a_redis_that_stops_is_named_with_the_last_good_reading")
    else {
        return;
    };
    let tasks = "  - {name: outbound, lock: {key: lock}, settle: 500ms, blind_after: 1s}\n";
    let agent = Agent::start(&config(&server, "200ms", tasks));
    explained_as(&agent, "outbound", "stopped");
    server.pause();
    let paused = explained_as(&agent, "outbound", "unknown");
    server.go_on();
    assert_says(
        &paused,
        &["The lock is unknown (timeout)", &format!("ago from {}", server.address()), "> "][..2],
    );
    let refused = &paused["trace"]["exchanges"][0]["refused"]["reason"];
    let because = paused["trace"]["nothing_because"].as_str().unwrap_or_default();
    assert!(refused == "timeout" || because.contains("timeout"), "{paused:#}");

    let mut server = server;
    explained_as(&agent, "outbound", "stopped");
    server.kill();
    let gone = explained_as(&agent, "outbound", "unknown");
    assert_says(&gone, &["The lock is unknown (connect)", "The last good reading was"]);
    let because = gone["trace"]["nothing_because"].as_str().unwrap();
    assert!(because.starts_with("The store could not be read: connect."), "{because}");
    assert!(because.contains(&format!("ago from {}", server.address())), "{because}");
}

#[test]
fn a_reading_that_is_not_due_is_not_forced() {
    let Some(server) = RedisServer::start("a_reading_that_is_not_due_is_not_forced") else {
        return;
    };
    let agent = Agent::start(&config(
        &server,
        "1m",
        "  - {name: outbound, lock: {key: lock}, blind_after: 5m}\n",
    ));
    agent.until(PATIENCE, "it is read", |page| page.verdict("outbound") == "stopped");
    let began = Instant::now();
    let explanation = explained(&agent, "outbound");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let because = explanation["trace"]["nothing_because"].as_str().unwrap();
    assert!(because.contains("every 1m") || because.contains("every 60.0 s"), "{because}");
    assert_says(&explanation, &["The lock is free, confirmed"]);
}

#[test]
fn an_agent_that_stops_lets_nobody_wait() {
    let Some(server) = RedisServer::start("an_agent_that_stops_lets_nobody_wait") else { return };
    let mut agent = Agent::start(&config(
        &server,
        "1m",
        "  - {name: outbound, lock: {key: lock}, blind_after: 5m}\n",
    ));
    agent.until(PATIENCE, "it is read", |page| page.verdict("outbound") == "stopped");
    let port = agent.port;
    let began = Instant::now();
    let ask = || thread::spawn(move || request(port, "GET", "/api/v1/tasks/outbound/explain"));
    let asking = [ask(), ask(), ask(), ask()];
    thread::sleep(Duration::from_millis(500));
    assert!(asking.iter().all(|asking| !asking.is_finished()), "nothing is due, so they wait");
    agent.signal("TERM");
    assert_eq!(asking.map(|asking| asking.join().unwrap().status), [200; 4]);
    agent.ended_within(PATIENCE);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// How often each command was called.
fn calls(server: &RedisServer) -> BTreeMap<String, u64> {
    let stats = server.cli(&["info", "commandstats"]);
    let call = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let own = |name: &String| !["info", "config|resetstat", "config"].contains(&name.as_str());
    stats.lines().filter_map(call).filter(|(name, _)| own(name)).collect()
}

#[test]
fn explaining_sends_redis_nothing() {
    const INTERVAL: Duration = Duration::from_millis(200);
    let Some(server) = RedisServer::start("explaining_sends_redis_nothing") else { return };
    let tasks = "  - {name: outbound, lock: {key: lock}, wanted: {hash: users}, claims: {hash: \
        claims}, progress: {key: progress}}
  - {name: inbound, lock: {key: inbound, library: string}, wanted: always}
";
    server.cli(&["hset", "lock", &format!("{A}:{THREAD}"), "1"]);
    let agent = Agent::start(
        &config(&server, "200ms", tasks).replace("progress}", "progress, stale_after: 1h}"),
    );
    agent.until(PATIENCE, "it is read", |page| page.verdict("outbound") == "running");
    thread::sleep(Duration::from_secs(1));

    let count = |work: &dyn Fn()| {
        let began = Instant::now();
        let before = calls(&server);
        work();
        let after = calls(&server);
        let took = began.elapsed();
        let grown = after.into_iter().map(|(name, count)| {
            let new = count - before.get(&name).copied().unwrap_or(0);
            (name, new)
        });
        let grown: BTreeMap<String, u64> = grown.filter(|(_, count)| *count > 0).collect();
        // Each batch has one ECHO, and each sweep is one batch.
        let sweeps = grown.get("echo").copied().unwrap_or(0);
        let most = u64::try_from(took.as_millis() / INTERVAL.as_millis()).unwrap() + 3;
        assert!(sweeps <= most, "{sweeps} sweeps in {took:?}: {grown:?}");
        (sweeps, grown)
    };
    let (quiet_sweeps, quiet) = count(&|| thread::sleep(Duration::from_secs(3)));
    let (busy_sweeps, busy) = count(&|| {
        let port = agent.port;
        let ask = |task: &'static str| {
            thread::spawn(move || {
                let until = Instant::now() + Duration::from_secs(3);
                let mut count = 0;
                while Instant::now() < until {
                    let answer = request(port, "GET", &format!("/api/v1/tasks/{task}/explain"));
                    assert_eq!(answer.status, 200);
                    count += 1;
                }
                count
            })
        };
        let asking: Vec<_> = (0..10).flat_map(|_| [ask("outbound"), ask("inbound")]).collect();
        let asked: u32 = asking.into_iter().map(|asking| asking.join().unwrap()).sum();
        assert!(asked > 50, "{asked}");
    });
    assert_eq!(quiet.keys().collect::<Vec<_>>(), busy.keys().collect::<Vec<_>>());
    for (name, count) in &busy {
        // As many per sweep as before. Reading the counters may split a sweep.
        let (per_sweep, before) =
            (*count as f64 / busy_sweeps as f64, quiet[name] as f64 / quiet_sweeps as f64);
        assert!(
            (per_sweep - before).abs() <= 0.2 * before + 0.35,
            "{name}: {per_sweep} a sweep, {before} before"
        );
    }
}

#[test]
fn no_secret_shows_anywhere() {
    let Some(server) = RedisServer::start("no_secret_shows_anywhere") else { return };
    let tasks = "  - {name: string, lock: {key: string, library: string}, claims: {hash: tokens}}
  - {name: plain, lock: {key: plain}, claims: {hash: claims}, hosts: {hash: hosts}}
  - {name: read, lock: {key: read}}
  - {name: write, lock: {key: write}}
  - {name: odd, lock: {key: odd}, progress: {key: progress, stale_after: 1h}}
";
    let field = format!("{A}:{THREAD}");
    server.cli(&["set", "string", TOKEN, "px", "600000"]);
    server.cli(&["hset", "plain", &field, "1"]);
    server.cli(&["hset", "read", "mode", "read", &field, "2"]);
    for entry in 1..=2 {
        server.cli(&[
            "set",
            &format!("{{read}}:{field}:rwlock_timeout:{entry}"),
            "1",
            "px",
            "600000",
        ]);
    }
    server.cli(&["hset", "write", "mode", "write", &format!("{field}:write"), "1", &field, "1"]);
    server.cli(&["hset", "odd", &format!("x{field}x"), "what is this"]);
    server.cli(&["hset", "tokens", TOKEN, "private-1"]);
    server.cli(&["hset", "claims", &field, "private-2"]);
    server.cli(&["hset", "hosts", &field, "srv-a"]);
    server.cli(&["set", "progress", "private-3"]);
    let config = config(&server, "200ms", tasks);
    let (_folder, file) = file(&config);
    let agent = Agent::start(&config);
    agent.until(PATIENCE, "all is read", |page| {
        page.verdict("read") == "running" && page.verdict("string") == "running"
    });
    let url = format!("http://127.0.0.1:{}", agent.port);
    for task in ["string", "plain", "read", "write", "odd"] {
        let mut by_agent = String::new();
        wait_until(PATIENCE, "it is explained, and was read meanwhile", || {
            by_agent = text(&run(&["explain", task, "--agent.url", &url]).stdout);
            let once = text(&run(&["explain", task, "--once", "--config.file", &file]).stdout);
            let json = agent.text(&format!("/api/v1/tasks/{task}/explain"));
            let all = [&by_agent, &once, &json];
            for (shown, secret) in all
                .into_iter()
                .flat_map(|shown| [THREAD, TOKEN, "private-"].map(|secret| (shown, secret)))
            {
                assert!(!shown.contains(secret), "{task} shows {secret}:\n{shown}");
            }
            all.iter().all(|shown| {
                ["accepted", "Accepted", "\"reading\""].iter().any(|said| shown.contains(said))
            })
        });
        if task == "read" {
            assert!(
                by_agent.contains(&format!("EXISTS {{read}}:{A}:…:rwlock_timeout:1")),
                "{by_agent}"
            );
            assert!(by_agent.contains("round 2"), "{by_agent}");
        }
    }
}

#[test]
fn hostile_bytes_reach_no_terminal() {
    let Some(server) = RedisServer::start("hostile_bytes_reach_no_terminal") else { return };
    let evil = "\x1b]0;owned\x07\x1b[2J\u{202e}\r\n\u{9b}";
    let tasks = r#"
  - {name: "out \u202ebound", lock: {key: {hex: 1b5b324a0a}}, wanted: {hash: "us\e[2Jers"}, hosts: {hash: hosts}}
"#;
    let key = "\x1b[2J\n";
    server.cli(&["hset", key, &format!("{evil}:1"), "1"]);
    server.cli(&["hset", "us\x1b[2Jers", evil, "1", "bert", evil]);
    server.cli(&["hset", "hosts", evil, evil]);
    let config = config(&server, "200ms", tasks);
    let (_folder, file) = file(&config);
    let agent = Agent::start(&config);
    let name = "out \u{202e}bound";
    let url = format!("http://127.0.0.1:{}", agent.port);
    for arguments in [
        ["--agent.url", url.as_str(), "--config.file", &file],
        ["--once", "--json", "--config.file", &file],
    ] {
        let mut all = vec!["explain", name];
        all.extend(arguments);
        wait_until(PATIENCE, "it is read", || {
            text(&run(&all).stdout).contains("running")
                || text(&run(&all).stdout).contains("RUNNING")
        });
        let output = run(&all);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let shown = text(&output.stdout);
        let bad = shown.chars().find(|character| character.is_control() && *character != '\n');
        assert_eq!(bad, None, "{shown:?}");
        assert!(!shown.contains('\u{202e}') || arguments[1] == "--json", "{shown:?}");
        assert!(
            shown.contains(r"\x1b]0;owned\x07") || shown.contains(r"\\x1b]0;owned\\x07"),
            "{shown}"
        );
    }
    let wrong = run(&["explain", evil, "--agent.url", &url]);
    assert_eq!(wrong.status.code(), Some(3));
    assert!(!text(&wrong.stderr).trim_end().chars().any(char::is_control), "{wrong:?}");
}

#[test]
fn without_an_agent_redis_is_read_once_and_that_is_said() {
    let Some(mut server) =
        RedisServer::start("without_an_agent_redis_is_read_once_and_that_is_said")
    else {
        return;
    };
    let tasks =
        "  - {name: outbound, lock: {key: lock}, wanted: {hash: users}, grace: 1s, blind_after: 5m}
  - {name: inbound, lock: {key: inbound}, blind_after: 5m}
";
    server.cli(&["hset", "users", "anna", "1"]);
    server.cli(&["hset", "inbound", &format!("{A}:1"), "1"]);
    let (_folder, file) = file(&config(&server, "1m", tasks));

    let free = run(&["explain", "outbound", "--once", "--config.file", &file, "--json"]);
    assert_eq!(free.status.code(), Some(0), "{free:?}");
    let answer: Value = serde_json::from_slice(&free.stdout).unwrap();
    assert_eq!(
        (answer["source"].as_str(), answer["verdict"].as_str()),
        (Some("once"), Some("pending"))
    );
    assert_eq!(
        (&answer["verdict_since"], &answer["pages"][1]["value_seconds"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        answer["notes"][0].as_str().unwrap().contains("Single reading, without an agent"),
        "{answer:#}"
    );
    assert_says(
        &answer,
        &[
            "The lock is free, confirmed",
            "How long that has lasted is not known",
            "Wanted by anna.",
        ],
    );
    assert!(
        answer["trace"]["exchanges"].as_array().unwrap().len() >= 2,
        "a free lock is read twice: {answer:#}"
    );

    let held = run(&["explain", "inbound", "--agent.url", &nobody(), "--config.file", &file]);
    assert_eq!(held.status.code(), Some(0), "{held:?}");
    let note = text(&held.stderr);
    assert!(
        note.contains("cannot be reached") && note.contains("reading Redis once instead"),
        "{note}"
    );
    assert!(text(&held.stdout).starts_with("inbound on store main: RUNNING\n"), "{held:?}");

    let unconfigured =
        run(&["explain", "inbound", "--agent.url", &nobody(), "--config.file", "/nowhere.yml"]);
    assert_eq!(unconfigured.status.code(), Some(3), "{unconfigured:?}");
    assert!(
        text(&unconfigured.stderr).contains("name the configuration with --config.file"),
        "{unconfigured:?}"
    );
    let wrong = run(&["explain", "outbond", "--once", "--config.file", &file]);
    assert_eq!(wrong.status.code(), Some(3));
    assert_eq!(
        text(&wrong.stderr),
        "lockwatch: There is no task called outbond; did you mean outbound?\n"
    );

    server.kill();
    let dead = run(&["explain", "inbound", "--once", "--config.file", &file]);
    assert_eq!(dead.status.code(), Some(3), "{dead:?}");
    let shown = text(&dead.stdout);
    assert!(
        shown.starts_with("inbound on store main: UNKNOWN\n") && shown.contains("connect"),
        "{shown}"
    );
}

#[test]
fn a_wrong_name_suggests_the_right_one() {
    let Some(server) = RedisServer::start("a_wrong_name_suggests_the_right_one") else { return };
    let agent =
        Agent::start(&config(&server, "200ms", "  - {name: outbound, lock: {key: lock}}\n"));
    let answer = agent.get("/api/v1/tasks/Outbund/explain");
    assert_eq!(answer.status, 404);
    assert!(
        answer.text().contains("There is no task called Outbund; did you mean outbound?"),
        "{answer:?}"
    );
    let url = format!("http://127.0.0.1:{}", agent.port);
    let output = run(&["explain", "outbnd", "--agent.url", &url]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("did you mean outbound?"), "{output:?}");
}

#[test]
fn in_a_cluster_what_lives_beside_the_lock_is_shown_from_its_own_server() {
    let test = "in_a_cluster_what_lives_beside_the_lock_is_shown_from_its_own_server";
    let Some(cluster) = Cluster::start(test, 0, &Options::default()) else { return };
    let (lock, users) = ("lock", "users");
    let (owner, other) = (cluster.owner(lock), cluster.owner(users));
    assert_ne!(owner, other, "the keys live apart");
    cluster.cli(users, &["hset", users, "anna", "1"]);
    let nodes = cluster
        .addresses()
        .iter()
        .map(|address| format!("\"{address}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let config = format!(
        "redis:\n  main: {{cluster: {{nodes: [{nodes}]}}, interval: 500ms}}\ntasks:\n  \
         - {{name: outbound, lock: {{key: {lock}}}, wanted: {{hash: {users}}}, grace: 1s}}\n"
    );
    let agent = Agent::start(&config);
    let explanation = explained_as(&agent, "outbound", "down");
    assert_says(
        &explanation,
        &[&format!("ago from {}", cluster.addresses()[owner]), "Wanted by anna."],
    );
    let exchanges = explanation["trace"]["exchanges"].as_array().unwrap();
    let at = |asked: &str| {
        exchanges.iter().find(|exchange| exchange["asked"] == asked).unwrap_or(&Value::Null)["node"]
            .clone()
    };
    let addresses = cluster.addresses();
    assert_eq!(
        (at("decides"), at("beside")),
        (addresses[owner].clone().into(), addresses[other].clone().into())
    );
    let evidence = explanation["evidence"].as_array().unwrap();
    let switches = evidence.iter().find(|evidence| evidence["of"] == "switches").unwrap();
    assert_eq!(switches["node"], addresses[other].clone(), "{explanation:#}");
}

#[test]
fn two_masters_are_named_with_the_nodes_that_show_them() {
    let test = "two_masters_are_named_with_the_nodes_that_show_them";
    let Some(servers) = Replicated::start(test, 1, &Options::default()) else { return };
    let addresses: Vec<String> = servers.members.iter().map(|member| member.announced()).collect();
    let nodes = addresses
        .iter()
        .map(|address| format!("\"redis://{address}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let config = format!(
        "redis:\n  main: {{nodes: [{nodes}], interval: 200ms}}\n\
         tasks:\n  - {{name: outbound, lock: {{key: lock}}}}\n"
    );
    servers.server(0).cli(&["hset", "lock", &format!("{A}:1"), "1"]);
    servers.server(0).cli(&["pexpire", "lock", "600000"]);
    let agent = Agent::start(&config);
    agent.until(PATIENCE, "it runs", |page| page.verdict("outbound") == "running");
    servers.promote(1);
    servers.server(1).cli(&["del", "lock"]);
    servers.server(1).cli(&["hset", "lock", &format!("{B}:1"), "1"]);
    servers.server(1).cli(&["pexpire", "lock", "600000"]);
    // Both keep renewing, so neither lock can have been released.
    agent.until(PATIENCE, "there is a split", |page| {
        (0..2).for_each(|index| drop(servers.server(index).cli(&["pexpire", "lock", "600000"])));
        page.verdict("outbound") == "split"
    });
    let split = explained_as(&agent, "outbound", "split");
    let answer = deciding(&split);
    assert!(answer.contains("kind masters") || answer.contains("kind overlap"), "{answer}");
    assert!(answer.contains(A) && answer.contains(B), "{answer}");
    assert!(addresses.iter().all(|address| answer.contains(address)), "{addresses:?}\n{answer}");
    wait_until(PATIENCE, "what the witness says is shown", || {
        let exchanges = explained(&agent, "outbound")["trace"]["exchanges"].take();
        let asked = |asked: &str| {
            exchanges
                .as_array()
                .unwrap()
                .iter()
                .find(|exchange| exchange["asked"] == asked)
                .cloned()
        };
        let (Some(decides), Some(witness)) = (asked("decides"), asked("witness")) else {
            return false;
        };
        decides["node"] != witness["node"] && witness["reading"][0]["of"] == "lock"
    });
}
