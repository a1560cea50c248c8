//! The whole agent as a process with a real Redis: its output, reloads, pauses and shutdown.

use crate::support::PATIENCE;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::{Keep, RedisServer};
use crate::support::standstill::Standstills;
use crate::support::truth::rule;
use crate::support::wait_until;

/// Starts an agent that watches the string lock `lock:outbound` of the task `outbound`, wanted at
/// all times.
fn start(server: &RedisServer) -> Agent {
    start_with(server, |_| {})
}

/// Like `start`; `adjust` adds arguments and environment.
fn start_with(server: &RedisServer, adjust: impl FnOnce(&mut Command)) -> Agent {
    let agent = Agent::start_with(&configuration(server, &["outbound"]), adjust);
    wait_until(PATIENCE, "the agent is ready", || agent.get("/-/ready").status == 200);
    agent
}

fn configuration(server: &RedisServer, tasks: &[&str]) -> String {
    let mut text = format!(
        "redis:\n  main:\n    url: redis://127.0.0.1:{}/0\n    interval: 200ms\n    timeout: 1s\n\
         tasks:\n",
        server.port
    );
    for task in tasks {
        let lock = format!("{{key: \"lock:{task}\", library: string}}");
        text += &format!(
            "  - name: {task}\n    lock: {lock}\n    wanted: always\n    grace: 2s\n    settle: \
             1s\n"
        );
    }
    text
}

/// Waits until the agent shows this state of the task's lock; `None`: no state.
#[track_caller]
fn expect_held(agent: &Agent, task: &str, expected: Option<f64>) -> Exposition {
    agent.until(PATIENCE, &format!("held is {expected:?}"), |page| {
        page.of(task, "lock_held") == expected
    })
}

/// Waits until the agent reports this result of the newest reload.
#[track_caller]
fn expect_reload(agent: &Agent, successful: f64) {
    let shows = |page: &Exposition| {
        page.get("lockwatch_config_last_reload_successful", &[]) == Some(successful)
    };
    agent.until(PATIENCE, "the reload", shows);
}

/// `lockwatch_store_reconnects_total`.
fn reconnects(page: &Exposition) -> Option<f64> {
    page.get("lockwatch_store_reconnects_total", &[])
}

#[test]
fn the_page_follows_the_lock() {
    let Some(server) = RedisServer::start("the_page_follows_the_lock") else { return };
    let agent = start(&server);
    expect_held(&agent, "outbound", Some(0.0));
    server.cli(&["SET", "lock:outbound", "me", "PX", "60000"]);
    let before = Instant::now();
    expect_held(&agent, "outbound", Some(1.0));
    assert!(before.elapsed() < Duration::from_millis(600), "{:?}", before.elapsed());
    server.cli(&["DEL", "lock:outbound"]);
    let page = expect_held(&agent, "outbound", Some(0.0));
    assert!(!page.verdict("outbound").is_empty());
}

/// Releases the lock right after a reading, so that the next reading is a whole interval away.
#[test]
fn a_gap_over_the_grace_shows_at_once_however_long_the_interval() {
    let test = "a_gap_over_the_grace_shows_at_once_however_long_the_interval";
    let Some(server) = RedisServer::start(test) else { return };
    let (interval, grace) = (Duration::from_secs(5), Duration::from_secs(2));
    server.cli(&["SET", "lock", "me", "PX", "600000"]);
    server.cli(&["HSET", "users", "anna", "1"]);
    let standstills = Standstills::watch();
    let agent = Agent::start(&format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: {}s, wake_ups: false}}\n\
         tasks:\n  - {{name: a, lock: {{key: lock, library: string}}, wanted: {{hash: users}}, \
         grace: {}s}}\n",
        server.address(),
        interval.as_secs(),
        grace.as_secs()
    ));
    let read_at =
        |page: &Exposition| page.get("lockwatch_store_last_success_timestamp_seconds", &[]);
    let first = agent.until(PATIENCE, "a reading", |page| read_at(page).is_some());
    agent.until(PATIENCE, "the next reading", |page| read_at(page) > read_at(&first));
    server.cli(&["DEL", "lock"]);
    let gone = Instant::now();
    agent.until(PATIENCE, "it is down for longer than the grace", |page| {
        page.of("a", "task_down_seconds") > Some(grace.as_secs_f64())
    });
    let took = gone.elapsed();
    assert!(took > interval - Duration::from_millis(500), "the worst was not hit: {took:?}");
    let ran = standstills.ran_since(gone);
    assert!(ran <= interval + grace + Duration::from_millis(500), "{took:?}, of it {ran:?} awake");
}

#[test]
fn a_reload_keeps_what_is_known_and_a_broken_file_changes_nothing() {
    let _rule = rule("13 series");
    let Some(server) =
        RedisServer::start("a_reload_keeps_what_is_known_and_a_broken_file_changes_nothing")
    else {
        return;
    };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = start(&server);
    expect_held(&agent, "outbound", Some(1.0));
    let acquisitions = |page: &Exposition| page.of("outbound", "lock_acquisitions_total");
    for round in 1..=5 {
        server.cli(&["SET", "lock:outbound", &format!("holder {round}")]);
        agent.until(PATIENCE, "the next holder is seen", |page| {
            acquisitions(page) == Some(f64::from(round))
        });
    }
    let before = agent.page();
    assert_eq!(acquisitions(&before), Some(5.0));
    agent.write_config(&configuration(&server, &["other", "outbound"]));
    agent.signal("HUP");
    let after = expect_held(&agent, "other", Some(0.0));
    assert_eq!(acquisitions(&after), acquisitions(&before));
    assert!(reconnects(&before).is_some());
    assert_eq!(reconnects(&after), reconnects(&before), "the connection is kept");
    expect_reload(&agent, 1.0);
    let loaded_at =
        |page: &Exposition| page.get("lockwatch_config_last_reload_success_timestamp_seconds", &[]);
    let in_force_since = loaded_at(&agent.page());
    assert!(in_force_since > loaded_at(&before));
    agent.write_config("redis: 5\n");
    agent.signal("HUP");
    expect_reload(&agent, 0.0);
    assert_eq!(loaded_at(&agent.page()), in_force_since, "what is in force was loaded then");
    server.cli(&["SET", "lock:other", "me"]);
    expect_held(&agent, "other", Some(1.0));
}

#[test]
fn a_reload_warns_as_a_start_does() {
    let Some(server) = RedisServer::start("a_reload_warns_as_a_start_does") else { return };
    let config = |more: &str| {
        let port = server.port;
        format!(
            "redis:\n  main: {{url: redis://127.0.0.1:{port}{more}}}\n\
             tasks: [{{name: a, redis: main, lock: {{key: a}}}}]\n"
        )
    };
    let agent = Agent::start(&config(""));
    assert_eq!(agent.log_lines(&["password file"]).len(), 0);
    agent.write_config(&config(", password_file: /nowhere/secret"));
    agent.signal("HUP");
    expect_reload(&agent, 1.0);
    wait_until(PATIENCE, "the warning", || {
        agent.log_lines(&["redis.main: cannot read the password file"]).len() == 1
    });
}

#[test]
fn a_reload_puts_another_interval_in_force() {
    let Some(server) = RedisServer::start("a_reload_puts_another_interval_in_force") else {
        return;
    };
    let config = |interval: &str, tasks: &[&str]| {
        let task = |task: &&str| {
            format!(
                "  - {{name: {task}, lock: {{key: \"lock:{task}\", library: string}}, blind_after: \
                 1h}}\n"
            )
        };
        let tasks: String = tasks.iter().map(task).collect();
        let port = server.port;
        format!(
            "redis:\n  main: {{url: redis://127.0.0.1:{port}, interval: {interval}, wake_ups: \
             false}}\ntasks:\n{tasks}"
        )
    };
    let agent = Agent::start(&config("10m", &["outbound"]));
    expect_held(&agent, "outbound", Some(0.0));
    agent.write_config(&config("200ms", &["outbound", "other"]));
    agent.signal("HUP");
    expect_held(&agent, "other", Some(0.0));
    server.cli(&["SET", "lock:outbound", "me"]);
    expect_held(&agent, "outbound", Some(1.0));
}

#[test]
fn the_generation_is_the_servers_and_not_the_agents() {
    let test = "the_generation_is_the_servers_and_not_the_agents";
    let Some(mut server) = RedisServer::start(test) else { return };
    let generation = |page: &Exposition| page.get("lockwatch_store_generation", &[]);
    let (one, another) = (start(&server), start(&server));
    let known = |agent: &Agent| {
        generation(&agent.until(PATIENCE, "a generation", |page| generation(page).is_some()))
    };
    let changed = |agent: &Agent, from| {
        let page = agent.until(PATIENCE, "another generation", |page| {
            generation(page).is_some_and(|now| Some(now) != from)
        });
        generation(&page)
    };
    let first = known(&one);
    assert_eq!(known(&another), first, "two agents");
    drop(another);
    let another = start(&server);
    assert_eq!(known(&another), first, "an agent's restart");

    assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    let flushed = changed(&one, first);
    assert_eq!(changed(&another, first), flushed);
    server.restart(Keep::Files);
    let restarted = changed(&one, flushed);
    assert_eq!(changed(&another, flushed), restarted);
    assert_ne!(restarted, first, "no value comes back");
}

#[test]
fn a_paused_server_is_unknown_and_a_restarted_one_is_read_again() {
    let Some(mut server) =
        RedisServer::start("a_paused_server_is_unknown_and_a_restarted_one_is_read_again")
    else {
        return;
    };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = start(&server);
    expect_held(&agent, "outbound", Some(1.0));
    server.pause();
    expect_held(&agent, "outbound", None);
    assert_eq!(agent.page().of("outbound", "task_down_seconds"), Some(0.0));
    server.go_on();
    expect_held(&agent, "outbound", Some(1.0));
    server.restart(Keep::Nothing);
    expect_held(&agent, "outbound", Some(0.0));
}

#[test]
fn a_paused_agent_claims_nothing_false() {
    let _rule = rule("2 instants");
    let Some(server) = RedisServer::start("a_paused_agent_claims_nothing_false") else { return };
    server.cli(&["SET", "lock:outbound", "me"]);
    let agent = start(&server);
    expect_held(&agent, "outbound", Some(1.0));
    for _ in 0..3 {
        agent.signal("STOP");
        std::thread::sleep(Duration::from_millis(2_500));
        agent.signal("CONT");
        expect_held(&agent, "outbound", Some(1.0));
    }
    let page = agent.page();
    assert_eq!(page.of("outbound", "task_down_seconds"), Some(0.0));
    assert_eq!(page.ends("outbound", "ended_early"), 0.0);
}

/// However many requests come, only the watcher reads Redis, at its own interval.
#[test]
fn no_request_touches_redis() {
    let _rule = rule("15 read only");
    let Some(server) = RedisServer::start("no_request_touches_redis") else { return };
    let slow = configuration(&server, &["outbound"]).replace("interval: 200ms", "interval: 50s");
    let agent = Agent::start(&slow);
    // The lock is free: wait for the confirmation and for the reading at the end of the grace.
    agent
        .until(PATIENCE, "it is down", |page| page.of("outbound", "task_down_seconds") > Some(2.0));
    let count = || {
        let number =
            |field| server.info(field).and_then(|text| text.parse::<u64>().ok()).expect("a count");
        let calls = |command: &str| {
            let counts = server.info(&format!("cmdstat_{command}"))?;
            counts.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()
        };
        // What keeps its connections alive comes each second.
        let alive = ["ping", "echo"].into_iter().filter_map(calls).sum::<u64>();
        (number("total_connections_received"), number("total_commands_processed") - alive)
    };
    // The measurement itself costs the same each time.
    let (before, own) = (count(), count());
    for _ in 0..50 {
        for path in [
            "/metrics",
            "/",
            "/tasks/outbound",
            "/api/v1/tasks",
            "/badge/outbound.svg",
            "/-/healthy",
        ] {
            assert_eq!(agent.get(path).status, 200, "{path}");
        }
    }
    let after = count();
    let per_count = (own.0 - before.0, own.1 - before.1);
    assert_eq!(
        (after.0 - own.0, after.1 - own.1),
        per_count,
        "connections and commands for 300 requests"
    );
}

#[test]
fn it_ends_when_asked_to_though_a_client_is_still_connected() {
    let Some(server) =
        RedisServer::start("it_ends_when_asked_to_though_a_client_is_still_connected")
    else {
        return;
    };
    for signal in ["TERM", "INT"] {
        let mut agent = start(&server);
        let mut client = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost").unwrap();
        agent.signal(signal);
        let status = agent.ended_within(Duration::from_secs(7));
        assert!(status.success(), "{signal}: {status:?}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn an_engine_that_stands_still_does_not_look_healthy() {
    let _rule = rule("16 freshness");
    let Some(server) = RedisServer::start("an_engine_that_stands_still_does_not_look_healthy")
    else {
        return;
    };
    let folder = tempfile::TempDir::new().unwrap();
    let stall = folder.path().join("stall");
    let agent = start_with(&server, |command| {
        command.env("LOCKWATCH_FAULT", format!("engine-stall:{}", stall.display()));
    });
    let status = |path| agent.get(path).status;
    assert_eq!((status("/metrics"), status("/-/healthy")), (200, 200));
    std::fs::write(&stall, "").unwrap();
    wait_until(Duration::from_secs(20), "503", || {
        status("/metrics") == 503 && status("/-/healthy") == 503
    });
    std::fs::remove_file(&stall).unwrap();
    wait_until(PATIENCE, "200 again", || status("/metrics") == 200 && status("/-/healthy") == 200);
}
