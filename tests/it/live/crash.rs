//! The holder's process is killed.

use crate::support::PATIENCE;
use std::time::{Duration, Instant};

use super::{LOCK, Scene, TASK, USERS, config, connect, greatest, one_task, verdicts};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::redisson::Redisson;

const LEASE: f64 = 3.0;
const PERIOD: f64 = 1.0;

/// Without a waiter: the lease runs out, the task is down after its grace, and up when another
/// holder comes.
#[test]
fn after_a_kill_the_hold_expires_and_the_task_is_pending_then_down_then_running_again() {
    let test = "live::crash: nobody waits";
    let Some(mut scene) = Scene::open(test, "500ms", &one_task("grace: 2s, settle: 1s")) else {
        return;
    };
    let Some(mut second) = Redisson::start(test) else { return };
    let heir = connect(&mut second, &scene.server, "c2", 3_000);
    scene.connect("c1", 3_000);
    scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
    scene.switch("anna", "1");
    scene
        .agent
        .until(PATIENCE, "learned", |page| page.of(TASK, "lock_lease_seconds") == Some(LEASE));
    let watch = scene.agent.watch();
    assert!(!scene.redisson.kill().success());
    let killed = Instant::now();
    scene.agent.until(PATIENCE, "expired", |page| page.ends(TASK, "expired") == 1.0);
    scene.agent.until(PATIENCE, "down", |page| page.verdict(TASK) == "down");
    eprintln!("down {:?} after the kill", killed.elapsed());
    watch.until_seen("down", |page| page.verdict(TASK) == "down");
    second.run(&format!("lock c2 t1 {LOCK}"));
    let held = Duration::from_millis(1500);
    let page = scene.agent.until(held, "running", |page| page.verdict(TASK) == "running");
    assert_eq!(page.label(TASK, "lock_holder", "holder"), Some(heir));
    scene.agent.until(PATIENCE, "handed over", |page| {
        page.of(TASK, "task_handover_seconds_count") == Some(1.0)
    });
    let pages = watch.stop();

    assert_eq!(verdicts(&pages, TASK), ["running", "pending", "down", "running"]);
    let last = pages.last().unwrap();
    let gap = last.of(TASK, "task_handover_seconds_sum").unwrap();
    let outage = last.of(TASK, "task_outage_seconds_sum").unwrap();
    assert!((2.0..6.0).contains(&gap), "{gap}");
    // Measured from the last renewal, so most of the lease is added.
    assert!(outage >= gap + LEASE - PERIOD && outage <= gap + LEASE + 1.0, "{outage}, {gap}");
    assert_eq!(last.ends(TASK, "expired"), 1.0);
    assert_eq!(greatest(&pages, TASK, "task_split_seconds"), 0.0);
    assert_eq!(last.of(TASK, "task_down_seconds"), Some(0.0));
}

/// A second client waits in `lock()`: it takes over within milliseconds of the deadline.
#[test]
fn with_a_waiter_the_gap_of_a_crash_is_short_and_the_outage_is_the_lease() {
    let test = "live::crash: a waiter";
    let (Some(mut first), Some(mut second)) = (Redisson::start(test), Redisson::start(test)) else {
        return;
    };
    let Some(server) = RedisServer::start(test) else { return };
    let agent = Agent::start(&config(&server, "1s", &one_task("settle: 1500ms")));
    connect(&mut first, &server, "c1", 3_000);
    let heir = connect(&mut second, &server, "c2", 3_000);
    first.run(&format!("lock c1 t1 {LOCK}"));
    server.cli(&["hset", USERS, "anna", "1"]);
    agent.until(2 * PATIENCE, "learned", |page| page.of(TASK, "lock_lease_seconds") == Some(LEASE));
    second.run(&format!("lock-async c2 t1 {LOCK}"));
    agent.until(PATIENCE, "the waiter", |page| page.of(TASK, "lock_waiters") == Some(1.0));
    let watch = agent.watch();
    assert!(!first.kill().success());
    second.event("acquired", LOCK, PATIENCE);
    agent.until(PATIENCE, "the outage", |page| {
        page.of(TASK, "task_outage_seconds_count") == Some(1.0)
    });
    let pages = watch.stop();

    let last = pages.last().unwrap();
    let gap = last.of(TASK, "task_handover_seconds_sum").unwrap();
    let outage = last.of(TASK, "task_outage_seconds_sum").unwrap();
    eprintln!("gap {gap} s, outage {outage} s");
    assert_eq!(last.of(TASK, "task_handover_seconds_count"), Some(1.0));
    assert!(gap <= 1.3, "{gap}");
    assert!((LEASE - PERIOD..=LEASE + 1.5).contains(&outage), "{outage}");
    assert_eq!(last.ends(TASK, "expired"), 1.0, "{}", agent.log());
    assert_eq!(last.label(TASK, "lock_holder", "holder"), Some(heir));
    assert_eq!(greatest(&pages, TASK, "task_split_seconds"), 0.0);
    assert!(!verdicts(&pages, TASK).contains(&"down".to_owned()));
}
