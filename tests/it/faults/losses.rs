//! Unreadable switches and lost data: a restart without persistence, a flush.

use crate::support::PATIENCE;
use std::time::Duration;

use redis::cmd;

use super::config;
use super::locks::{HOLDER, connect, release, switch, take};
use crate::support::agent::Agent;
use crate::support::redis::{Keep, RedisServer};
use crate::support::truth::rule;
use crate::support::view::View;

#[test]
fn a_switch_that_says_neither_is_one_unknown_user() {
    let Some(server) =
        RedisServer::start("faults::losses::a_switch_that_says_neither_is_one_unknown_user")
    else {
        return;
    };
    let mut redis = connect(server.port);
    switch(&mut redis, "users", &[("anna", "1"), ("ben", "maybe"), ("dora", "off")]);
    // `Boolean.TRUE` in Java serialization.
    let java = b"\xac\xed\x00\x05sr\x00\x11java.lang.Boolean\xcd \
        r\x80\xd5\x9c\xfa\xee\x02\x00\x01Z\x00\x05valuexp\x01";
    cmd("HSET").arg("users").arg("carla").arg(java).exec(&mut redis).unwrap();
    let task =
        "name: a, lock: {key: a}, wanted: {hash: users}, blind_after: 2s, settle: 1s, grace: 2s";
    let agent = Agent::start(&config(
        server.port,
        &[task, "name: b, lock: {key: b}, wanted: {hash: others}"],
    ));

    let view = agent.until_view(PATIENCE, "wanted", |view| view.verdict("a") == "pending");
    assert_eq!((view.of_task("a", "wanting_users"), view.of_task("a", "switches")), (1.0, 4.0));
    let switches = view.task("a")["switches"].to_string();
    let expected = concat!(
        r#"[{"fits":null,"state":"on","user":"anna"},{"fits":null,"state":"undecodable","user":"ben"},"#,
        r#"{"fits":"jdk","state":"undecodable","user":"carla"},{"fits":null,"state":"off","user":"dora"}]"#
    );
    assert_eq!(switches, expected);
    let log = agent.log();
    let reported = |user: &str, word: &str| {
        log.lines().any(|line| {
            line.contains("event=switch_undecodable") && line.contains(user) && line.contains(word)
        })
    };
    assert!(
        reported("who=ben", "neither on nor off") && reported("who=carla", "codec jdk"),
        "{log}"
    );
    agent.until_view(PATIENCE, "the others count", |view| view.verdict("a") == "down");

    // If no other user wants it, the result is unknown: neither wanted nor unwanted.
    switch(&mut redis, "users", &[("anna", "0")]);
    let view = agent.until_view(PATIENCE, "unknown", |view| view.verdict("a") == "unknown");
    assert_eq!(view.page.get("lockwatch_task_wanted", &[("task", "a")]), None);
    assert_eq!(
        view.page.get("lockwatch_task_wanted", &[("task", "b")]),
        Some(0.0),
        "no switch is no wish"
    );
    switch(&mut redis, "users", &[("ben", "0"), ("carla", "0")]);
    agent.until_view(PATIENCE, "off", |view| view.verdict("a") == "stopped");
}

#[test]
fn a_restart_without_the_data_loses_switches() {
    let _rule = rule("10 lost switches");
    data_is_lost("faults::losses::a_restart_without_the_data_loses_switches", |server| {
        server.restart(Keep::Nothing)
    });
}

#[test]
fn a_flush_loses_switches() {
    let _rule = rule("10 lost switches");
    data_is_lost("faults::losses::a_flush_loses_switches", |server| {
        assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    });
}

/// After a restart of Redis and before the agent's next read, the holder releases its lock and a
/// user removes her switch. Another lock shows whether that may have been a loss: it depends on
/// whether that lock was renewed before or after the data were saved.
#[test]
fn what_is_removed_while_redis_restarts_with_its_data_is_not_lost() {
    let _rule = rule("10 lost switches");
    for saved_last in [true, false] {
        let test = "faults::losses::what_is_removed_while_redis_restarts_with_its_data_is_not_lost";
        let Some(mut server) = RedisServer::start(test) else { return };
        let mut redis = connect(server.port);
        for lock in [b"a", b"b"] {
            take(&mut redis, lock, HOLDER.as_bytes());
        }
        switch(&mut redis, "users", &[("anna", "1"), ("ben", "0")]);
        let agent = Agent::start(&config(
            server.port,
            &["name: a, lock: {key: a}, wanted: {hash: users}", "name: b, lock: {key: b}"],
        ));
        agent.until_view(PATIENCE, "both run", |view| {
            view.verdict("a") == "running" && view.verdict("b") == "running"
        });
        if !saved_last {
            server.save();
        }
        // Of a first renewal it is only known that it came after the first read.
        for renewals in [1.0, 2.0] {
            cmd("PEXPIRE").arg("b").arg(600_000).exec(&mut redis).unwrap();
            agent.until_view(PATIENCE, "renewed", |view| {
                view.of_lock("b", "renewals_total") == renewals
            });
        }
        if saved_last {
            server.save();
        }

        agent.signal("STOP");
        server.restart(Keep::Files);
        let mut redis = connect(server.port);
        release(&mut redis, "a");
        cmd("HDEL").arg("users").arg("anna").exec(&mut redis).unwrap();
        agent.signal("CONT");

        let (reason, lost) = if saved_last { ("ended_early", 0.0) } else { ("lost", 1.0) };
        let view = agent.until_view(PATIENCE, "the hold ended", |view| {
            view.page.get("lockwatch_lock_ends_total", &[("task", "a"), ("reason", reason)])
                == Some(1.0)
        });
        assert_eq!(view.of_lock("a", "lost_total"), lost, "saved last: {saved_last}");
        agent.until_view(PATIENCE, "it is free", |view| view.verdict("a") != "running");
        let is_lost = |view: &View| view.of_task("a", "switches_lost_seconds") > 0.0;
        if saved_last {
            agent.until_view(PATIENCE, "nobody wants it", |view| {
                view.verdict("a") == "stopped" && !is_lost(view)
            });
        } else {
            agent.until_view(PATIENCE, "the switch is lost", is_lost);
        }
    }
}

/// `lose` removes all data: of a task that was wanted and held, and of two that were switched off,
/// one of them held.
fn data_is_lost(test: &str, lose: impl FnOnce(&mut RedisServer)) {
    let Some(mut server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    take(&mut redis, b"on", HOLDER.as_bytes());
    take(&mut redis, b"running-off", HOLDER.as_bytes());
    switch(&mut redis, "on-users", &[("anna", "1"), ("ben", "0"), ("carla", "on")]);
    switch(&mut redis, "off-users", &[("anna", "0"), ("ben", "off")]);
    let common = "grace: 2s, settle: 1s, blind_after: 5s";
    let tasks = [
        format!("name: on, lock: {{key: on}}, wanted: {{hash: on-users}}, {common}"),
        format!("name: off, lock: {{key: off}}, wanted: {{hash: off-users}}, {common}"),
        format!(
            "name: running-off, lock: {{key: running-off}}, wanted: {{hash: off-users}}, {common}"
        ),
    ];
    let agent = Agent::start(&config(server.port, &[&tasks[0], &tasks[1], &tasks[2]]));
    agent.until_view(PATIENCE, "everything is as it should be", |view| {
        view.verdict("on") == "running"
            && view.verdict("off") == "stopped"
            && view.held("running-off") == Some(1.0)
    });

    lose(&mut server);
    let view = agent
        .until_view(PATIENCE, "lost", |view| view.of_task("on", "switches_lost_seconds") > 0.5);
    assert_eq!(view.task("on")["lost_users"].to_string(), r#"["anna","carla"]"#, "who was on");
    assert_eq!(
        view.page.get("lockwatch_task_wanted", &[("task", "on")]),
        Some(1.0),
        "on stays in force"
    );
    let view = agent.until_view(PATIENCE, "down", |view| view.verdict("on") == "down");
    let lost = view.of_task("on", "switches_lost_seconds");
    agent.until_view(PATIENCE, "it grows", |view| {
        view.of_task("on", "switches_lost_seconds") > lost + 1.0
    });
    let view = agent
        .until_view(PATIENCE, "the others stop", |view| view.verdict("running-off") == "stopped");
    for task in ["off", "running-off"] {
        assert_eq!(
            view.of_task(task, "switches_lost_seconds"),
            0.0,
            "{task}: nothing of it is lost"
        );
        assert_eq!(view.verdict(task), "stopped");
        assert_eq!(view.page.time(task, "down").unwrap(), 0.0, "{task}");
    }
    assert!(view.page.get("lockwatch_store_generation_changes_total", &[]) >= Some(1.0));
    let ends = |task, reason: &str| {
        view.page
            .get("lockwatch_lock_ends_total", &[("task", task), ("reason", reason)])
            .expect("a counter")
    };
    assert_eq!((ends("on", "lost"), ends("running-off", "lost")), (1.0, 1.0));
    let lost = |task| view.of_lock(task, "lost_total");
    assert_eq!((lost("on"), lost("running-off"), lost("off")), (1.0, 1.0, 0.0));
    let log = agent.log();
    assert!(verdicts(&log, "on").iter().all(|line| !line.contains("-> stopped")), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("event=switches_lost")).count(), 1, "{log}");

    // A user switches it on again: from now on the present data are what users want.
    let mut redis = connect(server.port);
    switch(&mut redis, "on-users", &[("anna", "1")]);
    let view = agent
        .until_view(PATIENCE, "found", |view| view.of_task("on", "switches_lost_seconds") == 0.0);
    assert_eq!(view.of_task("on", "wanting_users"), 1.0);
    take(&mut redis, b"on", HOLDER.as_bytes());
    agent.until_view(PATIENCE, "up", |view| {
        view.verdict("on") == "running" && view.of_task("on", "down_seconds") == 0.0
    });
    switch(&mut redis, "on-users", &[("anna", "0")]);
    release(&mut redis, "on");
    agent.until_view(PATIENCE, "off", |view| view.verdict("on") == "stopped");
}

/// The log lines with a task's verdicts.
fn verdicts<'a>(log: &'a str, task: &str) -> Vec<&'a str> {
    let of_task = format!("task={task} ");
    let is_one = |line: &&str| line.contains("event=verdict") && line.contains(&of_task);
    let lines: Vec<_> = log.lines().filter(is_one).collect();
    assert!(!lines.is_empty(), "the log tells verdicts");
    lines
}

#[test]
fn a_lock_that_is_deleted_is_no_loss_of_data() {
    let Some(server) =
        RedisServer::start("faults::losses::a_lock_that_is_deleted_is_no_loss_of_data")
    else {
        return;
    };
    let mut redis = connect(server.port);
    take(&mut redis, b"a", HOLDER.as_bytes());
    switch(&mut redis, "users", &[("anna", "1")]);
    let task = "name: a, lock: {key: a}, wanted: {hash: users}, grace: 1s, settle: 1s";
    let agent = Agent::start(&config(server.port, &[task]));
    agent.until_view(PATIENCE, "running", |view| view.verdict("a") == "running");
    // Removed by hand in one step: the users withdrew their switches.
    cmd("DEL").arg("a").arg("users").exec(&mut redis).unwrap();
    let view = agent.until_view(PATIENCE, "stopped", |view| view.verdict("a") == "stopped");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(view.of_task("a", "switches_lost_seconds"), 0.0);
    assert_eq!(agent.view().of_task("a", "switches_lost_seconds"), 0.0);
}
