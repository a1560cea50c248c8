//! The effects of a change.

use crate::support::PATIENCE;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::*;
use crate::support::wait_until;

#[test]
fn a_change_is_seen_long_before_the_next_sweep() {
    let Some(server) = RedisServer::start("a_change_is_seen_long_before_the_next_sweep") else {
        return;
    };
    let agent =
        Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one"), ("two", "lock:two")]));
    until_listening(&agent);
    until_held(&agent, "one", false);
    let began = Instant::now();
    server.cli(&["set", "lock:one", "token", "px", "60000"]);
    let page = until_held(&agent, "one", true);
    eprintln!("seen after {:?}", began.elapsed());
    agent.check(&page, "an acquisition", page.of("one", "lock_acquisitions_total") == Some(1.0));
    agent.check(&page, "two is free", page.of("two", "lock_held") == Some(0.0));
    agent.until(PATIENCE, "a hint that is counted", |page| hints(page, "read") >= 1.0);
    server.cli(&["pexpire", "lock:one", "90000"]);
    agent.until(PATIENCE, "the renewal", |page| page.of("one", "lock_renewals_total") == Some(1.0));
    server.cli(&["del", "lock:one"]);
    let page = until_held(&agent, "one", false);
    agent.check(&page, "an early end", page.ends("one", "ended_early") == 1.0);
}

/// Each hold ends long before the next sweep: without hints none would be seen.
#[test]
fn short_holds_are_counted() {
    let Some(server) = RedisServer::start("short_holds_are_counted") else { return };
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    until_held(&agent, "one", false);
    for round in 1..=5 {
        let count = f64::from(round);
        server.cli(&["set", "lock:one", &format!("token {round}"), "px", "60000"]);
        agent.until(PATIENCE, "the hold", |page| {
            page.of("one", "lock_acquisitions_total") == Some(count)
        });
        server.cli(&["del", "lock:one"]);
        agent.until(PATIENCE, "its end", |page| page.ends("one", "ended_early") == count);
    }
}

/// Renewals at a regular period, and a change of holder between two of them.
#[test]
fn no_renewal_is_forgotten() {
    let Some(server) = RedisServer::start("no_renewal_is_forgotten") else { return };
    let agent =
        Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one"), ("two", "lock:two")]));
    until_listening(&agent);
    server.cli(&["set", "lock:one", "token", "px", "60000"]);
    server.cli(&["set", "lock:two", "token", "px", "60000"]);
    until_held(&agent, "one", true);
    let began = Instant::now();
    for turn in 1..=8 {
        let at = Duration::from_millis(1_100) * turn;
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        server.cli(&["pexpire", "lock:one", "60000"]);
        agent.until(PATIENCE, "the renewal", |page| {
            page.of("one", "lock_renewals_total") == Some(f64::from(turn))
        });
        let took = began.elapsed().saturating_sub(at);
        assert!(took < Duration::from_millis(1_000), "renewal {turn} shows after {took:?}");
    }
    server.cli(&["set", "lock:two", "another token", "px", "60000"]);
    agent.until(PATIENCE, "the change of hands", |page| page.ends("two", "replaced") == 1.0);
}

#[test]
fn an_expiry_is_seen_when_it_is_announced() {
    let Some(server) = RedisServer::start("an_expiry_is_seen_when_it_is_announced") else { return };
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    server.cli(&["set", "lock:one", "token", "px", "700"]);
    agent.until(PATIENCE, "the end", |page| page.ends("one", "expired") == 1.0);
}

/// Changes of switches and of the pause are announced too, those of the progress are not.
#[test]
fn the_keys_beside_a_lock_wake_too() {
    let Some(server) = RedisServer::start("the_keys_beside_a_lock_wake_too") else { return };
    let tasks = format!(
        "  - {{name: one, lock: {{key: lock, library: string}}, wanted: {{hash: users}}, \
         paused_until: {{key: pause}}, \
         progress: {{key: progress, stale_after: 1h}}, {BLIND}}}\n"
    );
    let agent = Agent::start(&format!("{}{tasks}", config(server.port, NEVER, "", &[])));
    until_listening(&agent);
    agent.until(PATIENCE, "stopped", |page| page.verdict("one") == "stopped");
    server.cli(&["hset", "users", "anna", "1"]);
    agent.until(PATIENCE, "wanted", |page| page.of("one", "task_wanted") == Some(1.0));
    server.cli(&["set", "pause", "4000000000"]);
    agent.until(PATIENCE, "paused", |page| page.of("one", "task_paused") == Some(1.0));
    let before = calls(&server, "echo");
    for number in 0..50 {
        server.cli(&["set", "progress", &number.to_string()]);
    }
    server.cli(&["set", "lock", "token", "px", "60000"]);
    until_held(&agent, "one", true);
    let batches = calls(&server, "echo") - before;
    assert!(batches <= 10, "{batches} batches: the progress must not cost any");
}

#[test]
fn when_everything_is_deleted_everything_is_read() {
    let Some(server) = RedisServer::start("when_everything_is_deleted_everything_is_read") else {
        return;
    };
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| {
        drop(server.cli(&["set", &format!("lock:{name}"), "token", "px", "600000"]))
    });
    let tasks = names.map(|name| (name, format!("lock:{name}")));
    let tasks: Vec<(&str, &str)> = tasks.iter().map(|(name, key)| (*name, key.as_str())).collect();
    let agent = Agent::start(&config(server.port, NEVER, "", &tasks));
    until_listening(&agent);
    names.iter().for_each(|name| drop(until_held(&agent, name, true)));
    server.cli(&["flushall"]);
    names.iter().for_each(|name| drop(until_held(&agent, name, false)));
}

/// Keys that are prefixes of each other, bytes that are not UTF-8, hash tags: the server accepts
/// the prefixes, and each key wakes its task and no other.
#[test]
fn any_keys_can_be_announced() {
    let Some(server) = RedisServer::start("any_keys_can_be_announced") else { return };
    let tasks = [
        ("t1", "a"),
        ("t2", "ab"),
        ("t3", "abc"),
        ("t4", "{shop}:lock"),
        ("t5", "{shop"),
        ("t6", "ü \\\" key"),
    ];
    let binary =
        format!("  - {{name: t7, lock: {{key: {{hex: \"ff00fe\"}}, library: string}}, {BLIND}}}\n");
    let agent = Agent::start(&format!("{}{binary}", config(server.port, NEVER, "", &tasks)));
    until_listening(&agent);
    server.cli(&["eval", "return redis.call('set', '\\255\\0\\254', 'x')", "0"]);
    until_held(&agent, "t7", true);
    for (held, (name, key)) in tasks.iter().enumerate() {
        let key = key.replace('\\', "");
        server.cli(&["set", &key, "token", "px", "600000"]);
        let page = until_held(&agent, name, true);
        let all = page.series("lockwatch_lock_held", &[]).into_values().sum::<f64>();
        agent.check(&page, "no other lock", all == (held + 2) as f64);
    }
    server.cli(&["set", "abcd", "foreign"]);
    agent.until(PATIENCE, "a foreign key", |page| hints(page, "foreign") >= 1.0);
}

#[test]
fn thousands_of_tasks_need_one_prefix() {
    let Some(server) = RedisServer::start("thousands_of_tasks_need_one_prefix") else { return };
    let tasks: Vec<(String, String)> =
        (0..5_000).map(|n| (format!("t{n}"), format!("lock:{n}"))).collect();
    let tasks: Vec<(&str, &str)> =
        tasks.iter().map(|(name, key)| (name.as_str(), key.as_str())).collect();
    let agent = Agent::start(&config(server.port, NEVER, "", &tasks));
    wait_until(PATIENCE, "it is announced", || {
        !agent.log_lines(&["announces changes", "prefixes=1"]).is_empty()
    });
    for task in [0, 1_234, 4_999] {
        server.cli(&["set", &format!("lock:{task}"), "token", "px", "600000"]);
        wait_until(PATIENCE, "it is held", || {
            agent.task(&format!("t{task}"))["lock"]["held"] == true
        });
    }
}

#[test]
fn a_reload_adds_a_task_and_wakes_it() {
    let Some(server) = RedisServer::start("a_reload_adds_a_task_and_wakes_it") else { return };
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    agent.write_config(&config(
        server.port,
        NEVER,
        "",
        &[("zero", "other:zero"), ("one", "lock:one")],
    ));
    agent.signal("HUP");
    until_held(&agent, "zero", false);
    until_listening(&agent);
    for (name, key) in [("zero", "other:zero"), ("one", "lock:one")] {
        server.cli(&["set", key, "token", "px", "600000"]);
        until_held(&agent, name, true);
    }
    agent.write_config(&config(server.port, NEVER, ", wake_ups: false", &[("one", "lock:one")]));
    agent.signal("HUP");
    agent.until(PATIENCE, "it is not asked any more", |page| {
        wakes(page).is_none() && page.of("zero", "lock_held").is_none()
    });
    wait_until(PATIENCE, "nobody listens", || listener(&server).is_none());
}

/// A replay of the recording needs no server and gives the same results.
#[test]
fn what_was_seen_by_hints_is_recorded_and_replayed() {
    let Some(server) = RedisServer::start("what_was_seen_by_hints_is_recorded_and_replayed") else {
        return;
    };
    let folder = tempfile::TempDir::new().unwrap();
    let config = config(server.port, NEVER, "", &[("one", "lock:one")]);
    let mut agent = Agent::start_with(&config, |command| {
        command.arg("--record").arg(folder.path());
    });
    until_listening(&agent);
    agent.until(PATIENCE, "stopped", |page| page.verdict("one") == "stopped");
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    until_held(&agent, "one", true);
    server.cli(&["del", "lock:one"]);
    agent.until(PATIENCE, "the end", |page| page.ends("one", "ended_early") == 1.0);
    agent.signal("TERM");
    agent.ended_within(Duration::from_secs(20));
    let mut replay = crate::support::agent::program();
    let reported = replay.arg("replay").arg(folder.path()).stdout(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&reported.stdout);
    assert!(reported.status.success(), "{text}{}", String::from_utf8_lossy(&reported.stderr));
    assert!(text.contains("stopped -> running"), "{text}");
}
