//! Stalled processes: a slow server, a stopped one, a stopped agent. Nothing false is reported
//! before or after.

use crate::support::PATIENCE;
use std::time::Duration;

use super::locks::{HOLDER, OTHER, Watchdog, connect, release, switch, take};
use super::{config, redis_block};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::truth::rule;
use crate::support::view::View;
use crate::support::wait_until;

#[test]
fn a_server_that_sleeps_for_less_than_the_timeout_is_never_unknown() {
    let test = "faults::pauses::a_server_that_sleeps_for_less_than_the_timeout_is_never_unknown";
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    take(&mut redis, b"held", HOLDER.as_bytes());
    switch(&mut redis, "users", &[("anna", "1")]);
    let redis_yaml =
        redis_block("main", server.port, "").replace("200ms", "1s").replace("500ms", "3s");
    let task = |name: &str| {
        format!("  - {{name: {name}, lock: {{key: {name}}}, wanted: {{hash: users}}, grace: 1m}}\n")
    };
    let agent =
        Agent::start(&format!("redis:\n{redis_yaml}tasks:\n{}{}", task("held"), task("free")));
    let fine = |view: &View| view.verdict("held") == "running" && view.verdict("free") == "pending";
    let before = agent.until_view(PATIENCE, "both were read", fine);
    for _ in 0..2 {
        let mut sleeping = server.cli_in_background(&["DEBUG", "SLEEP", "2"]);
        agent.throughout(Duration::from_millis(3_500), "both are known", |view| {
            fine(view) && (view.held("held"), view.held("free")) == (Some(1.0), Some(0.0))
        });
        sleeping.wait().unwrap();
    }
    let view = agent.view();
    let errors = view.page.series("lockwatch_store_errors_total", &[]);
    assert!(errors.values().all(|count| *count == 0.0), "{errors:?}");
    assert!(
        view.page.get("lockwatch_store_skipped_ticks_total", &[]) >= Some(1.0),
        "a sweep took longer than a tick"
    );
    let blind = |view: &View| view.of_task("held", "blind_time_seconds_total");
    assert_eq!(blind(&view), blind(&before));
}

#[test]
fn a_stopped_server_blinds_and_resolves_nothing() {
    let _rule = rule("7 gaps");
    let Some(server) =
        RedisServer::start("faults::pauses::a_stopped_server_blinds_and_resolves_nothing")
    else {
        return;
    };
    let mut redis = connect(server.port);
    take(&mut redis, b"running", HOLDER.as_bytes());
    take(&mut redis, b"unwanted", HOLDER.as_bytes());
    switch(&mut redis, "users", &[("anna", "1")]);
    switch(&mut redis, "nobody", &[("anna", "0")]);
    let common = "grace: 1s, settle: 1s, wind_down: 1s, blind_after: 5s";
    let tasks = [
        format!("name: running, lock: {{key: running}}, wanted: {{hash: users}}, {common}"),
        format!("name: down, lock: {{key: down}}, wanted: {{hash: users}}, {common}"),
        format!("name: unwanted, lock: {{key: unwanted}}, wanted: {{hash: nobody}}, {common}"),
    ];
    let agent = Agent::start(&config(server.port, &[&tasks[0], &tasks[1], &tasks[2]]));
    agent.until_view(PATIENCE, "settled verdicts", |view| {
        ["running", "down", "unwanted"].iter().all(|task| view.verdict(task) == *task)
    });

    server.pause();
    let blind = agent.until_view(PATIENCE, "held is absent", |view| view.held("running").is_none());
    let kept = |view: &View| {
        (view.of_task("down", "down_seconds"), view.of_task("unwanted", "unwanted_seconds"))
    };
    let before = kept(&blind);
    assert!(before.0 > 1.0 && before.1 > 1.0, "{before:?}");
    assert_eq!(blind.verdict("running"), "running", "before blind_after the verdict stays");
    let view = agent.until_view(PATIENCE, "unknown", |view| {
        assert!(
            view.held("running").is_none() && view.held("down").is_none() && kept(view) == before
        );
        ["running", "down", "unwanted"].iter().all(|task| view.verdict(task) == "unknown")
    });
    assert!(view.of_task("running", "blind_seconds") > 5.0, "after blind_after, and not earlier");
    agent.throughout(Duration::from_secs(6), "nothing resolves or grows", |view| {
        view.held("unwanted").is_none()
            && view.page.series("lockwatch_lock_holder", &[]).is_empty()
            && kept(view) == before
            && view.verdict("running") == "unknown"
    });

    server.go_on();
    let view = agent.until_view(PATIENCE, "back", |view| {
        view.held("running") == Some(1.0) && view.held("down") == Some(0.0)
    });
    assert_eq!((view.verdict("running"), view.verdict("down")), ("running", "down"));
    assert_eq!(view.of_task("running", "blind_seconds"), 0.0);
    assert!(view.of_task("running", "blind_time_seconds_total") > 10.0);
    // A blind stretch longer than `blind_after` is not counted, and what was counted before is
    // kept.
    let down = view.of_task("down", "down_seconds");
    assert!(down >= before.0 && down < before.0 + 5.0, "{down} after {}", before.0);
    assert_eq!(
        (view.of_lock("running", "ends_total"), view.of_lock("running", "acquisitions_total")),
        (0.0, 0.0)
    );
}

/// Longer and shorter than the time for which the agents are stopped.
const BLIND_AFTER: [&str; 2] = ["60s", "4s"];

/// An agent that has seen two renewals of the lock `a`.
fn start(port: u16, blind_after: &str) -> Agent {
    let task =
        "name: a, lock: {key: a}, wanted: {hash: users}, grace: 1s, settle: 1s, blind_after: ";
    let agent = Agent::start(&config(port, &[&format!("{task}{blind_after}")]));
    agent.until_view(PATIENCE, "renewals", |view| view.of_lock("a", "renewals_total") >= 2.0);
    agent
}

/// After an agent's pause: nothing false, and soon the full state.
#[track_caller]
fn expect_truth(agent: &Agent, blind_after: &str, truth: impl Fn(&View) -> bool) {
    agent.until_view(Duration::from_secs(2), "awake", |view| {
        // An agent that has not read for longer than `blind_after` may report "blind" until its
        // next read.
        let honest = view.verdict("a") == "running"
            || (blind_after == "4s" && view.verdict("a") == "unknown");
        assert!(honest && nothing_alert_worthy(view), "{}", agent.log());
        view.held("a") == Some(1.0) && truth(view)
    });
    agent.throughout(Duration::from_secs(3), "nothing false", |view| {
        view.verdict("a") == "running" && nothing_alert_worthy(view) && truth(view)
    });
}

#[test]
fn a_stopped_agent_sees_nothing_false_in_a_lock_that_was_renewed_meanwhile() {
    let _rule = rule("2 instants");
    let test =
        "faults::pauses::a_stopped_agent_sees_nothing_false_in_a_lock_that_was_renewed_meanwhile";
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    switch(&mut redis, "users", &[("anna", "1")]);
    let _watchdog = Watchdog::start(server.port, "a", HOLDER, Duration::from_secs(3));
    let agents = BLIND_AFTER.map(|blind_after| start(server.port, blind_after));
    agents.iter().for_each(|agent| agent.signal("STOP"));
    let mut deadline_ms = || redis::cmd("PEXPIRETIME").arg("a").query::<i64>(&mut redis).unwrap();
    let renewed_ms = deadline_ms() + 8_000;
    wait_until(PATIENCE, "it was renewed for two leases and more", || deadline_ms() >= renewed_ms);
    agents.iter().for_each(|agent| agent.signal("CONT"));
    for (agent, blind_after) in agents.iter().zip(BLIND_AFTER) {
        expect_truth(agent, blind_after, |view| {
            view.of_lock("a", "ends_total") == 0.0 && view.of_lock("a", "acquisitions_total") == 0.0
        });
        // Absent while the lock cannot be read, which also happens when the machine stalls.
        let page = agent.until(PATIENCE, "known not to be overdue", |page| {
            let overdue_seconds = page.get("lockwatch_lock_renewal_overdue_seconds", &[]);
            agent.check(page, "not overdue", overdue_seconds.is_none_or(|seconds| seconds == 0.0));
            overdue_seconds.is_some()
        });
        let value = |name: &str, le: &[(&str, &str)]| {
            page.get(&format!("lockwatch_lock_renewal_{name}"), le)
        };
        assert_eq!(
            value("latency_seconds_bucket", &[("le", "0.5")]),
            value("latency_seconds_count", &[]),
            "none was late"
        );
    }
}

#[test]
fn a_stopped_agent_sees_nothing_false_in_a_lock_that_changed_hands_meanwhile() {
    let _rule = rule("11 blind handover");
    let test =
        "faults::pauses::a_stopped_agent_sees_nothing_false_in_a_lock_that_changed_hands_meanwhile";
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    switch(&mut redis, "users", &[("anna", "1")]);
    let watchdog = Watchdog::start(server.port, "a", HOLDER, Duration::from_secs(3));
    let agents = BLIND_AFTER.map(|blind_after| start(server.port, blind_after));
    agents.iter().for_each(|agent| agent.signal("STOP"));
    std::thread::sleep(Duration::from_secs(1));
    drop(watchdog);
    release(&mut redis, "a");
    std::thread::sleep(Duration::from_secs(2));
    let watchdog = Watchdog::start(server.port, "a", OTHER, Duration::from_secs(3));
    std::thread::sleep(Duration::from_secs(5));
    agents.iter().for_each(|agent| agent.signal("CONT"));
    let other = OTHER.split_once(':').unwrap().0;
    let other_holds = |view: &View| {
        !view.page.series("lockwatch_lock_holder", &[("holder", other)]).is_empty()
            && (view.of_lock("a", "ends_total"), view.of_lock("a", "acquisitions_total"))
                == (1.0, 1.0)
    };
    for (agent, blind_after) in agents.iter().zip(BLIND_AFTER) {
        expect_truth(agent, blind_after, other_holds);
    }

    // Released and retaken by the same holder.
    agents.iter().for_each(|agent| agent.signal("STOP"));
    drop(watchdog);
    release(&mut redis, "a");
    std::thread::sleep(Duration::from_secs(1));
    let _watchdog = Watchdog::start(server.port, "a", OTHER, Duration::from_secs(3));
    std::thread::sleep(Duration::from_secs(4));
    agents.iter().for_each(|agent| agent.signal("CONT"));
    for (agent, blind_after) in agents.iter().zip(BLIND_AFTER) {
        expect_truth(agent, blind_after, |view| view.of_lock("a", "ends_total") <= 2.0);
    }
}

/// No gap, no split, no loss, and no trace of any of them in a histogram.
fn nothing_alert_worthy(view: &View) -> bool {
    let zero = |name: &str| view.of_task("a", name) == 0.0;
    let durations = [
        "down_seconds",
        "split_seconds",
        "stalled_seconds",
        "unwanted_seconds",
        "switches_lost_seconds",
    ];
    let totals = ["split_time_seconds_total", "outage_seconds_count", "phantom_holds_total"];
    let splits = view.page.series("lockwatch_task_splits_by_kind_total", &[("task", "a")]);
    durations.iter().chain(&totals).all(|name| zero(name))
        && view.page.time("a", "down") == Some(0.0)
        && splits.len() >= 3
        && splits.values().all(|it| *it == 0.0)
}
