//! Patterns with real servers: which keys are found, what their tasks show, and what it costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use lockwatch::commands::acl::rules;
use lockwatch::config::Config;
use redis::{Connection, cmd};

use crate::acl::redis_cli;
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::cluster::Cluster;
use crate::support::exposition::Exposition;
use crate::support::network::Options;
use crate::support::redis::{Keep, RedisServer};
use crate::support::truth::rule;

/// A configuration with a pattern of this lock, and more tasks.
fn configuration(url: &str, lock: &str, more: &str) -> String {
    format!(
        "redis:\n  main: {{url: \"{url}\", interval: 200ms, timeout: 1s}}\ntasks:\n  - {{name: \
         reports, lock: {{{lock}}}, blind_after: 5s, settle: 1s}}\n{more}"
    )
}

const LOCKS: &str = "match: \"report:lock:*\", library: string";

fn url(server: &RedisServer) -> String {
    format!("redis://127.0.0.1:{}/0", server.port)
}

fn connect(server: &RedisServer) -> Connection {
    redis::Client::open(url(server)).unwrap().get_connection().unwrap()
}

fn task(key: &str) -> String {
    format!("reports/{key}")
}

fn of_pattern(page: &Exposition, name: &str) -> Option<f64> {
    page.get(&format!("lockwatch_pattern_{name}"), &[("pattern", "reports"), ("store", "main")])
}

/// Waits until so many keys are watched, by a complete scan.
#[track_caller]
fn until_keys(agent: &Agent, keys: f64) -> Exposition {
    agent.until(PATIENCE, &format!("{keys} keys are watched"), |page| {
        of_pattern(page, "keys") == Some(keys)
            && of_pattern(page, "scan_timestamp_seconds").is_some()
            && tasks(page) as f64 == keys
    })
}

/// How many tasks the pattern has.
fn tasks(page: &Exposition) -> usize {
    let of = |labels: &&BTreeMap<String, String>| {
        labels.get("task").is_some_and(|task| task.starts_with("reports/"))
    };
    page.names()
        .filter(|(name, _)| *name == "lockwatch_task_clear")
        .map(|(_, it)| it)
        .filter(of)
        .count()
}

fn config_info(page: &Exposition) -> String {
    let mut info = page.names().filter(|(name, _)| *name == "lockwatch_config_info");
    info.next().unwrap().1["tasks"].clone()
}

#[test]
fn three_hundred_locks_are_read_as_they_are() {
    let Some(server) = RedisServer::start("three_hundred_locks_are_read_as_they_are") else {
        return;
    };
    let mut redis = connect(&server);
    let key = |id: usize| format!("report:lock:{id}");
    let mut truth: Vec<bool> = vec![false; 300];
    let agent = Agent::start(&configuration(&url(&server), LOCKS, ""));
    let first = agent.page();
    assert_eq!(of_pattern(&first, "keys"), Some(0.0), "from the first scrape");
    // Of each lock something was there once.
    for (id, held) in truth.iter_mut().enumerate() {
        let () =
            cmd("SET").arg(key(id)).arg("worker-a").arg("EX").arg(600).query(&mut redis).unwrap();
        *held = true;
    }
    let all = until_keys(&agent, 300.0);
    assert_eq!(config_info(&all), config_info(&first), "what is written, not what was found");
    let is_true = |page: &Exposition, truth: &[bool]| {
        let shown = |id| page.of(&task(&key(id)), "lock_held");
        truth.iter().enumerate().all(|(id, held)| shown(id) == Some(f64::from(u8::from(*held))))
    };
    agent.until(PATIENCE, "all are held", |page| is_true(page, &truth));
    let acquired =
        |page: &Exposition, id: usize| page.of(&task(&key(id)), "lock_acquisitions_total").unwrap();
    let start = agent.page();
    let mut taken = vec![0.0; 300];
    let mut random = fastrand::Rng::with_seed(0x51);
    for round in 0..6 {
        let mut pipe = redis::pipe();
        for (id, held) in truth.iter_mut().enumerate() {
            match (*held, random.u8(0..3)) {
                (true, 0) => {
                    pipe.del(key(id));
                    *held = false;
                }
                // It expires.
                (true, 1) => {
                    pipe.cmd("PEXPIRE").arg(key(id)).arg(50);
                    *held = false;
                }
                (false, 0) => {
                    pipe.cmd("SET").arg(key(id)).arg(format!("worker-{round}")).arg("EX").arg(600);
                    *held = true;
                    taken[id] += 1.0;
                }
                _ => {}
            }
        }
        let () = pipe.query(&mut redis).unwrap();
        agent.until(PATIENCE, &format!("round {round}"), |page| is_true(page, &truth));
    }
    let end = agent.page();
    for (id, taken) in taken.iter().enumerate() {
        assert_eq!(acquired(&end, id) - acquired(&start, id), *taken, "holds of {id}");
        assert!(end.count_of_task(&task(&key(id))) <= 8, "{}", end.text());
    }
    assert_eq!(tasks(&end), 300, "a lock that is free stays a task");
    assert_eq!(of_pattern(&end, "left_out"), Some(0.0));
}

#[test]
fn what_is_no_lock_of_the_pattern_is_no_task_and_what_is_too_much_is_counted() {
    let Some(server) = RedisServer::start("what_is_no_lock_of_the_pattern_is_no_task") else {
        return;
    };
    let mut redis = connect(&server);
    // Another type is unknown, never free or held.
    let () = cmd("RPUSH").arg("lock:list").arg("x").query(&mut redis).unwrap();
    let () = cmd("RPUSH").arg("lock-signal:a").arg("1").query(&mut redis).unwrap();
    for key in ["lock:named", "lock:flags", "lock:a", "lock:b"] {
        let () = cmd("SET").arg(key).arg("worker-a").arg("EX").arg(600).query(&mut redis).unwrap();
    }
    let named = "  - {name: named, lock: {key: \"lock:named\", library: string}, wanted: {keys: \
                 [\"lock:flags\"]}}\n";
    let lock = "match: \"lock*\", library: string, max_keys: 3";
    let agent = Agent::start(&configuration(&url(&server), lock, named));
    until_keys(&agent, 3.0);
    let view = agent.until_view(PATIENCE, "all are read", |view| {
        view.held("named") == Some(1.0)
            && ["lock:a", "lock:b"].iter().all(|key| view.held(&task(key)) == Some(1.0))
            && view.reason(&task("lock:list")) == Some("wrong_type")
    });
    assert_eq!(view.held(&task("lock:list")), None);
    assert_eq!(of_pattern(&view.page, "left_out"), Some(0.0));
    assert!(view.page.count_of_task("named") > 12, "a named task shows all");
    for key in ["lock:c", "lock:d", "lock:e"] {
        let () = cmd("SET").arg(key).arg("worker-a").query(&mut redis).unwrap();
    }
    agent.until(PATIENCE, "three are left out", |page| of_pattern(page, "left_out") == Some(3.0));
    let view = agent.view();
    let pattern = &view.json["patterns"][0];
    assert_eq!(
        (&pattern["keys"], &pattern["left_out"], &pattern["max_keys"]),
        (&3.into(), &3.into(), &3.into())
    );
    assert_eq!(
        (&pattern["glob"], &pattern["trouble"]),
        (&"lock*".into(), &serde_json::Value::Null)
    );
    assert!(
        ["lock:a", "lock:b", "lock:list"]
            .iter()
            .all(|key| view.page.of(&task(key), "task_clear").is_some()),
        "known keys keep their place"
    );
    let page = agent.text("/");
    assert!(
        page.contains("lock* in store main: 3 keys watched, 3 left out: at most 3 are watched"),
        "{page}"
    );
}

#[test]
fn a_reload_keeps_what_stays_and_ends_what_goes() {
    let Some(server) = RedisServer::start("a_reload_keeps_what_stays_and_ends_what_goes") else {
        return;
    };
    let mut redis = connect(&server);
    let held = |redis: &mut Connection| -> () {
        cmd("SET").arg("report:lock:1").arg("a").arg("EX").arg(600).query(redis).unwrap()
    };
    held(&mut redis);
    let agent = Agent::start(&configuration(&url(&server), LOCKS, ""));
    until_keys(&agent, 1.0);
    let name = task("report:lock:1");
    agent.until(PATIENCE, "held", |page| page.of(&name, "lock_held") == Some(1.0));
    let () = cmd("DEL").arg("report:lock:1").query(&mut redis).unwrap();
    agent.until(PATIENCE, "free", |page| page.of(&name, "lock_held") == Some(0.0));
    held(&mut redis);
    let counted =
        agent.until(PATIENCE, "held again", |page| page.of(&name, "lock_held") == Some(1.0));
    let count = counted.of(&name, "lock_acquisitions_total");
    assert!(count >= Some(1.0));
    // The same pattern with another threshold, and another task.
    let other = "  - {name: other, lock: {key: other, library: string}}\n";
    agent.write_config(&configuration(&url(&server), &format!("{LOCKS}, lease: 600s"), other));
    agent.signal("HUP");
    let after =
        agent.until(PATIENCE, "the other task", |page| page.of("other", "lock_held") == Some(0.0));
    assert_eq!((after.of(&name, "lock_acquisitions_total"), tasks(&after)), (count, 1));
    let only = format!("redis:\n  main: {{url: \"{}\"}}\ntasks:\n{other}", url(&server));
    agent.write_config(&only);
    agent.signal("HUP");
    let gone = agent.until(PATIENCE, "no task of the pattern", |page| tasks(page) == 0);
    assert_eq!((of_pattern(&gone, "keys"), gone.of(&name, "lock_held")), (None, None));
}

#[test]
fn a_server_that_comes_later_is_scanned_then() {
    let Some(mut server) = RedisServer::start("a_server_that_comes_later_is_scanned_then") else {
        return;
    };
    let () = cmd("SET").arg("report:lock:1").arg("a").query(&mut connect(&server)).unwrap();
    server.save();
    server.kill();
    let agent = Agent::start(&configuration(&url(&server), LOCKS, ""));
    agent.throughout(Duration::from_secs(2), "nothing is found", |view| {
        view.json["patterns"][0]["keys"] == 0
    });
    let page = agent.page();
    assert_eq!(of_pattern(&page, "keys"), Some(0.0));
    assert_eq!(
        (of_pattern(&page, "scan_timestamp_seconds"), of_pattern(&page, "left_out")),
        (None, None)
    );
    server.restart(Keep::Files);
    let page = until_keys(&agent, 1.0);
    assert_eq!(of_pattern(&page, "left_out"), Some(0.0));
    // While it is gone, keys stay tasks, and the scan's instant stays where it was.
    server.kill();
    let scanned = of_pattern(&agent.page(), "scan_timestamp_seconds");
    agent.until(PATIENCE, "unknown", |page| page.of(&task("report:lock:1"), "lock_held").is_none());
    agent.throughout(Duration::from_secs(6), "the key stays a task", |view| {
        view.json["patterns"][0]["keys"] == 1
    });
    let page = agent.page();
    assert_eq!((of_pattern(&page, "keys"), tasks(&page)), (Some(1.0), 1));
    assert_eq!(of_pattern(&page, "scan_timestamp_seconds"), scanned);
    let trouble = agent.view().json["patterns"][0]["trouble"].clone();
    assert!(trouble.as_str().is_some_and(|why| why.contains("connect")), "{trouble}");
}

#[test]
fn hostile_keys_have_a_printable_name_each() {
    let _rule = rule("14 hostile bytes");
    let Some(server) = RedisServer::start("hostile_keys_have_a_printable_name_each") else {
        return;
    };
    let mut redis = connect(&server);
    let long = "x".repeat(900);
    let longer = format!("{long}y");
    let keys: [&[u8]; 12] = [
        b"report:lock:a\nb",
        b"report:lock:a\x00b",
        b"report:lock:\xff",
        b"report:lock:\xfe",
        b"report:lock:\"quoted\"",
        b"report:lock:back\\slash",
        b"report:lock:/../%2e%2e?x#y",
        b"report:lock:<script>alert(1)</script>",
        "report:lock:\u{202e}evil".as_bytes(),
        "report:lock:lager-süd".as_bytes(),
        &[b"report:lock:", long.as_bytes()].concat(),
        &[b"report:lock:", longer.as_bytes()].concat(),
    ];
    for key in keys {
        let () = cmd("SET").arg(key).arg("worker-a").arg("EX").arg(600).query(&mut redis).unwrap();
    }
    let too_long = [b"report:lock:".as_slice(), &b"z".repeat(2_000)].concat();
    let () = cmd("SET").arg(too_long).arg("a").query(&mut redis).unwrap();
    let agent = Agent::start(&configuration(&url(&server), LOCKS, ""));
    let page = until_keys(&agent, 12.0);
    assert_eq!(of_pattern(&page, "left_out"), Some(1.0));
    let page = agent.until(PATIENCE, "all are held", |page| {
        let held = page.names().filter(|(name, _)| *name == "lockwatch_lock_held");
        held.filter(|(_, it)| page.of(&it["task"], "lock_held") == Some(1.0)).count() == 12
    });
    let names: Vec<String> = page
        .names()
        .filter(|(name, _)| *name == "lockwatch_lock_held")
        .map(|(_, labels)| labels["task"].clone())
        .collect();
    for name in names {
        assert!(name.len() <= 200 && !name.chars().any(char::is_control), "{name}");
        let path = lockwatch::paths::segment(&name);
        for path in [
            format!("/tasks/{path}"),
            format!("/api/v1/tasks/{path}"),
            format!("/api/v1/tasks/{path}/explain"),
        ] {
            assert_eq!(agent.get(&path).status, 200, "{path}");
        }
    }
}

/// The SCAN commands of a server, and how many keys each examines at most.
fn scans(server: &RedisServer) -> f64 {
    let line = server.cli(&["INFO", "commandstats"]);
    let calls = line.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    calls.and_then(|rest| rest.split(',').next()).map_or(0.0, |calls| calls.parse().unwrap())
}

/// With `LOCKWATCH_LONG`, a million keys.
#[test]
fn many_keys_cost_no_more_than_the_budget() {
    const PAGE: f64 = 200.0;
    let arguments = ["--enable-debug-command", "yes"];
    let Some(server) =
        RedisServer::start_with("many_keys_cost_no_more_than_the_budget", &arguments)
    else {
        return;
    };
    let keys = if std::env::var_os("LOCKWATCH_LONG").is_some() { 1_000_000 } else { 50_000 };
    server.cli(&["DEBUG", "POPULATE", &keys.to_string(), "report:lock"]);
    let began = Instant::now();
    let agent = Agent::start(&configuration(&url(&server), &format!("{LOCKS}, max_keys: 200"), ""));
    agent.until(PATIENCE, "some are left out", |page| of_pattern(page, "left_out") > Some(0.0));
    thread::sleep(Duration::from_secs(2));
    let (calls, took) = (scans(&server), began.elapsed());
    let most = took.as_secs_f64() * 10_000.0 / PAGE + 2.0;
    assert!(calls <= most, "{calls} SCANs in {took:?}, at most {most}");
    let page = agent.until(PATIENCE * 3, "the scan is complete", |page| {
        of_pattern(page, "scan_timestamp_seconds").is_some()
    });
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(keys / 10_000), "{took:?}");
    let left_out = of_pattern(&page, "left_out").unwrap();
    assert_eq!((of_pattern(&page, "keys"), tasks(&page)), (Some(200.0), 200));
    let expected = (keys - 200) as f64;
    assert!((left_out - expected).abs() < expected / 100.0, "{left_out} of {expected}");
    println!("{keys} keys: complete after {took:?}, {} SCANs", scans(&server));
}

#[test]
fn each_master_of_a_cluster_is_scanned() {
    let options = Options::default();
    let Some(cluster) = Cluster::start("each_master_of_a_cluster_is_scanned", 0, &options) else {
        return;
    };
    // Some of them on each master.
    for id in 0..30 {
        let key = format!("report:lock:{id}");
        let set = |node: usize| cluster.node(node).cli(&["SET", &key, "a", "EX", "600"]);
        assert!((0..3).any(|node| set(node) == "OK"), "{key}");
    }
    let nodes: Vec<String> =
        cluster.addresses().iter().map(|address| format!("\"redis://{address}\"")).collect();
    let agent = Agent::start(&format!(
        "redis:\n  main: {{cluster: {{nodes: [{}]}}, interval: 200ms}}\ntasks:\n  - {{name: reports, \
         lock: {{{LOCKS}}}}}\n",
        nodes.join(", ")
    ));
    until_keys(&agent, 30.0);
    agent.until(PATIENCE, "all are held", |page| {
        (0..30).all(|id| page.of(&task(&format!("report:lock:{id}")), "lock_held") == Some(1.0))
    });
    assert_eq!(of_pattern(&agent.page(), "left_out"), Some(0.0));
}

#[test]
fn the_rule_of_acl_is_enough_and_without_scan_it_is_said() {
    let _rule = rule("15 read only");
    let Some(server) = RedisServer::start("the_rule_of_acl_is_enough") else { return };
    let mut redis = connect(&server);
    let () = cmd("SET").arg("report:lock:1").arg("a").arg("EX").arg(600).query(&mut redis).unwrap();
    let () = cmd("HSET")
        .arg("job:{7}")
        .arg("285475da-9152-4c83-822a-67ee2f116a79:5")
        .arg("1")
        .query(&mut redis)
        .unwrap();
    let text = |login: &str| {
        let more = "  - {name: jobs, lock: {match: \"job:*\"}}\n";
        configuration(&url(&server), LOCKS, more).replace("interval", &format!("{login}interval"))
    };
    let config = Config::parse(&text("username: watcher, "), Path::new("")).unwrap();
    let rule = rules(&config, "7.0".parse().unwrap()).remove(0);
    assert!(rule.line.contains("+scan") && rule.line.contains("%R~report:lock:*"), "{}", rule.line);
    assert_eq!(redis_cli(&server, &rule.line).trim(), "OK", "{}", rule.line);
    let agent = Agent::start_with(&text("username: watcher, password_env: WATCHER, "), |command| {
        command.env("WATCHER", "PASSWORD");
    });
    until_keys(&agent, 1.0);
    agent.until(PATIENCE, "both are read", |page| {
        page.of(&task("report:lock:1"), "lock_held") == Some(1.0)
            && page.of("jobs/job:{7}", "lock_held") == Some(1.0)
    });
    // What the server can do is found out with a key that is nobody's.
    let refused = server.cli(&["ACL", "LOG"]);
    assert!(!["report:lock", "job:", "scan"].iter().any(|it| refused.contains(it)), "{refused}");
    redis_cli(&server, "ACL SETUSER watcher -scan");
    let view = agent.until_view(PATIENCE, "the refusal", |view| {
        view.json["patterns"][0]["trouble"].is_string()
    });
    let why = view.json["patterns"][0]["trouble"].as_str().unwrap();
    assert!(why.contains("no_permission") && why.contains("SCAN"), "{why}");
    assert_eq!(view.held(&task("report:lock:1")), Some(1.0), "what was found is read all the same");
}

#[test]
fn a_recording_has_what_was_found() {
    let Some(server) = RedisServer::start("a_recording_has_what_was_found") else { return };
    let mut redis = connect(&server);
    let () = cmd("SET").arg("report:lock:1").arg("a").arg("EX").arg(600).query(&mut redis).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let record = folder.path().join("recordings");
    let mut agent = Agent::start_with(&configuration(&url(&server), LOCKS, ""), |command| {
        command.arg("--record").arg(&record);
    });
    until_keys(&agent, 1.0);
    agent.until(PATIENCE, "held", |page| page.of(&task("report:lock:1"), "lock_held") == Some(1.0));
    let () = cmd("DEL").arg("report:lock:1").query(&mut redis).unwrap();
    agent.until(PATIENCE, "free", |page| page.of(&task("report:lock:1"), "lock_held") == Some(0.0));
    thread::sleep(Duration::from_secs(1));
    agent.signal("TERM");
    assert!(agent.ended_within(PATIENCE).success());
    let mut replay = crate::support::agent::program();
    let output = replay.arg("replay").arg(&record).stdout(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("reports/report:lock:1"), "{text}");
}
