//! Reloads: a file with mistakes leaves the old configuration in force; a valid file keeps the
//! state of unchanged tasks.

use crate::support::PATIENCE;
use std::time::Duration;

use super::config;
use super::locks::{HOLDER, Watchdog, connect, switch, take};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::truth::rule;
use crate::support::view::View;

const BAD: &str =
    "redis:\n  main: {url: nonsense}\ntasks:\n  - {name: kept, lock: {key: a}, grace: soon}\n";

fn with_lifecycle(config: &str) -> Agent {
    Agent::start_with(config, |command| {
        command.arg("--web.enable-lifecycle");
    })
}

fn successful(view: &View) -> bool {
    view.page.get("lockwatch_config_last_reload_successful", &[]) == Some(1.0)
}

#[test]
fn a_bad_file_leaves_everything_as_it_was() {
    let Some(server) = RedisServer::start("faults::reload::a_bad_file_leaves_everything_as_it_was")
    else {
        return;
    };
    take(&mut connect(server.port), b"kept", HOLDER.as_bytes());
    let good = config(server.port, &["name: kept, lock: {key: kept}"]);
    let agent = with_lifecycle(&good);
    let view = agent.until_view(PATIENCE, "read", |view| view.held("kept") == Some(1.0));
    let loaded_at =
        |view: &View| view.page.get("lockwatch_config_last_reload_success_timestamp_seconds", &[]);
    let first = loaded_at(&view).unwrap();
    assert!(successful(&view));

    agent.write_config(BAD);
    let refused = agent.post("/-/reload");
    assert_eq!(refused.status, 500);
    let mistakes = refused.text();
    assert!(
        mistakes.contains("redis.main.url") && mistakes.contains("tasks.kept.grace"),
        "all mistakes: {mistakes}"
    );
    let unharmed = |view: &View| {
        !successful(view) && loaded_at(view) == Some(first) && view.held("kept") == Some(1.0)
    };
    agent.throughout(Duration::from_secs(1), "the old one stays in force", unharmed);
    assert!(agent.log().contains("not reloaded"), "{}", agent.log());

    // A missing file is a mistake as well.
    std::fs::remove_file(agent.path("lockwatch.yml")).unwrap();
    assert_eq!(agent.post("/-/reload").status, 500);
    assert!(unharmed(&agent.view()));

    agent.write_config(&good);
    agent.signal("HUP");
    let view = agent.until_view(PATIENCE, "a good one", successful);
    assert!(loaded_at(&view).unwrap() > first);
    agent.write_config(BAD);
    agent.signal("HUP");
    agent.until_view(PATIENCE, "a bad one by signal", |view| !successful(view));
}

#[test]
fn a_reload_over_http_must_be_allowed() {
    let Some(server) = RedisServer::start("faults::reload::a_reload_over_http_must_be_allowed")
    else {
        return;
    };
    let agent = Agent::start(&config(server.port, &["name: a, lock: {key: a}"]));
    agent.write_config(&config(server.port, &["name: b, lock: {key: b}"]));
    let refused = agent.post("/-/reload");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("--web.enable-lifecycle") && refused.text().contains("SIGHUP"));
    assert_eq!(agent.view().task("a")["name"], "a", "nothing was reloaded");
    agent.signal("HUP");
    agent.until_view(PATIENCE, "the signal is always allowed", |view| {
        view.page.count_of_task("b") > 0
    });

    let agent = with_lifecycle(&config(server.port, &["name: a, lock: {key: a}"]));
    assert_eq!(agent.get("/-/reload").status, 405, "a link cannot reload");
    assert_eq!(agent.post("/-/reload").status, 200);
}

#[test]
fn unchanged_tasks_keep_everything() {
    let _rule = rule("13 series");
    let Some(server) = RedisServer::start("faults::reload::unchanged_tasks_keep_everything") else {
        return;
    };
    switch(&mut connect(server.port), "users", &[("anna", "1")]);
    switch(&mut connect(server.port), "others", &[("ben", "1")]);
    let kept = "name: kept, lock: {key: kept}, wanted: {hash: users}, settle: 1s";
    let gone = "name: gone, lock: {key: gone}";
    let down = "name: down, lock: {key: down}, wanted: {hash: users}, grace: 1s";
    let agent = with_lifecycle(&config(server.port, &[kept, gone, down]));
    agent.until_view(PATIENCE, "read", |view| view.held("kept") == Some(0.0));
    let _watchdog = Watchdog::start(server.port, "kept", HOLDER, Duration::from_secs(3));
    let before = agent.until_view(PATIENCE, "history", |view| {
        view.of_lock("kept", "renewals_total") >= 2.0
            && view.of_lock("kept", "acquisitions_total") == 1.0
            && view.of_task("down", "down_seconds") > 2.0
    });
    let lease = |view: &View| view.page.get("lockwatch_lock_lease_seconds", &[("task", "kept")]);
    let series = before.page.count_of_task("down");
    assert!(before.page.count_of_task("gone") > 30 && series > 30);

    // `gone` is removed, `fresh` is added, thresholds and names change.
    let changed = |name: &str, grace: &str, wanted: &str| {
        format!("name: {name}, lock: {{key: down}}, wanted: {{hash: {wanted}}}, grace: {grace}")
    };
    let fresh = "name: fresh, lock: {key: fresh}, wanted: {hash: users}, grace: 1m";
    agent.write_config(&config(server.port, &[kept, fresh, &changed("down", "1m", "users")]));
    assert_eq!(agent.post("/-/reload").status, 200);
    let after = agent.until_view(Duration::from_secs(2), "the new tasks", |view| {
        view.page.count_of_task("fresh") > 0
    });
    assert_eq!(after.page.count_of_task("gone"), 0, "a removed task's series are dropped at once");
    assert!(after.page.count_of_task("fresh") > 30, "and a new one's are there at once");
    // Some tasks need a first sample, which may come after the first snapshot.
    let after = agent.until_view(Duration::from_secs(2), "the first sample", |view| {
        view.held("fresh") == Some(0.0)
    });
    assert_eq!(after.page.count_of_task("fresh"), series, "all of them");
    assert!(after.of_lock("kept", "renewals_total") >= before.of_lock("kept", "renewals_total"));
    assert_eq!((after.of_lock("kept", "acquisitions_total"), lease(&after)), (1.0, Some(3.0)));
    assert!(
        after.of_task("down", "down_seconds") >= before.of_task("down", "down_seconds"),
        "a threshold restarts nothing"
    );
    assert_eq!(after.task("down")["thresholds"]["grace_seconds"], 60.0);
    agent.until_view(PATIENCE, "judged anew", |view| view.verdict("down") == "pending");
    agent.until_view(PATIENCE, "and it goes on", |view| {
        view.of_task("down", "down_seconds") > before.of_task("down", "down_seconds") + 1.0
            && view.of_lock("kept", "renewals_total") > before.of_lock("kept", "renewals_total")
            && view.held("fresh") == Some(0.0)
    });

    // Other switches start the gap again; the history of the lock stays.
    let down_before = agent.view().of_task("down", "down_seconds");
    agent.write_config(&config(server.port, &[kept, fresh, &changed("down", "1m", "others")]));
    assert_eq!(agent.post("/-/reload").status, 200);
    agent.until_view(PATIENCE, "a new gap", |view| {
        view.of_task("down", "down_seconds") < down_before - 1.0
    });
    agent.until_view(PATIENCE, "it grows", |view| view.of_task("down", "down_seconds") > 1.0);
    let view = agent.view();
    assert!(view.page.time("down", "down").unwrap() >= down_before, "counters never fall");
    assert_eq!(
        view.page.get("lockwatch_store_reconnects_total", &[]),
        Some(0.0),
        "the connection was kept"
    );

    // The same lock under another name is the same task.
    agent.write_config(&config(server.port, &[kept, &changed("renamed", "1s", "others")]));
    assert_eq!(agent.post("/-/reload").status, 200);
    let view = agent.until_view(PATIENCE, "renamed", |view| view.page.count_of_task("renamed") > 0);
    assert_eq!((view.page.count_of_task("down"), view.page.count_of_task("fresh")), (0, 0));
    assert!(view.page.time("renamed", "down").unwrap() >= down_before);
}

#[test]
fn a_rotated_password_is_picked_up() {
    let Some(server) = RedisServer::start_with_password(
        "faults::reload::a_rotated_password_is_picked_up",
        "PASSWORD-one",
    ) else {
        return;
    };
    assert_eq!(server.cli(&["HSET", "a", HOLDER, "1"]), "1");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "PASSWORD-one\n").unwrap();
    let config = config(server.port, &["name: a, lock: {key: a}"])
        .replace("500ms", &format!("500ms, password_file: {:?}", file.path()));
    let agent = Agent::start(&config);
    agent.until_view(PATIENCE, "read", |view| view.held("a") == Some(1.0));

    // The old connection stays in use until it is cut.
    server.cli(&["CONFIG", "SET", "requirepass", "PASSWORD-two"]);
    agent.throughout(Duration::from_secs(1), "still read", |view| view.held("a") == Some(1.0));
    let authenticated = || {
        let mut cli = std::process::Command::new("redis-cli");
        cli.arg("-s")
            .arg(server.socket())
            .env("REDISCLI_AUTH", "PASSWORD-two")
            .args(["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(cli.output().unwrap().status.success());
    };
    authenticated();
    agent.until_view(PATIENCE, "refused", |view| view.reason("a") == Some("auth"));
    assert!(agent.view().held("a").is_none());
    std::fs::write(file.path(), "PASSWORD-two\n").unwrap();
    agent.until_view(PATIENCE, "the new one was read", |view| view.held("a") == Some(1.0));
    assert!(!agent.log().contains("PASSWORD-"), "a password is in the log");
}
