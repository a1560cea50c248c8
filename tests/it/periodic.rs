//! A periodic task with a real Redis: its last run, and that the next one is missed in time.

use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;

const EVERY: Duration = Duration::from_secs(2);
const LATE_AFTER: Duration = Duration::from_secs(1);
const WORK: Duration = Duration::from_millis(500);
/// How exactly the agent knows when the run began.
const NOISE: Duration = Duration::from_millis(100);

#[test]
fn a_job_that_stops_is_overdue_in_time_and_one_that_runs_is_not() {
    let Some(server) = RedisServer::start(
        "periodic::a_job_that_stops_is_overdue_in_time_and_one_that_runs_is_not",
    ) else {
        return;
    };
    let agent = Agent::start(&format!(
        "redis: {{main: {{url: 'redis://{}', interval: 100ms}}}}\ntasks:\n  - name: report\n    \
         lock: {{key: 'job-lock:default:report', library: shedlock}}\n    \
         runs: {{every: {}s, late_after: {}s}}\n",
        server.address(),
        EVERY.as_secs(),
        LATE_AFTER.as_secs()
    ));
    let key = "job-lock:default:report";
    let value = "ADDED:2026-11-29T10:00:00Z@web-1";
    agent.until(PATIENCE, "the free lock is seen", |page| {
        page.of("report", "lock_held") == Some(0.0)
    });
    // As ShedLock does with `lockAtLeastFor`: the lease is shortened when the work is done.
    let began = Instant::now();
    server.cli(&["set", key, value, "px", "10000", "nx"]);
    agent.until(PATIENCE, "the work is done", |page| {
        page.of("report", "lock_held_seconds") >= Some(WORK.as_secs_f64())
    });
    server.cli(&["pexpire", key, "700"]);
    let done = began.elapsed();
    agent.until(PATIENCE, "the last run", |page| {
        let lasted = page.of("report", "task_last_run_duration_seconds");
        lasted.is_some_and(|lasted| (lasted - done.as_secs_f64()).abs() < 0.3)
    });
    agent.until(PATIENCE, "what is well", |page| page.of("report", "task_clear") == Some(1.0));
    agent.until(PATIENCE, "it is overdue", |page| page.of("report", "task_clear") == Some(0.0));
    assert!(began.elapsed() + NOISE >= EVERY + LATE_AFTER, "{:?}", began.elapsed());
    server.cli(&["set", key, value, "px", "10000", "nx"]);
    agent.until(PATIENCE, "the next run ends it", |page| {
        page.of("report", "task_clear") == Some(1.0)
            && page.of("report", "lock_expired_total") == Some(0.0)
    });
}

/// What it cannot have seen: a run may have fallen into the time before it began, or in which it
/// stood still. The rules wait for that one a period longer, and so does the agent.
#[test]
fn a_run_that_falls_into_a_standstill_is_waited_for_a_period_longer() {
    let Some(server) = RedisServer::start(
        "periodic::a_run_that_falls_into_a_standstill_is_waited_for_a_period_longer",
    ) else {
        return;
    };
    let every = Duration::from_secs(6);
    let agent = Agent::start(&format!(
        "redis: {{main: {{url: 'redis://{}', interval: 100ms}}}}\ntasks:\n  - name: report\n    \
         lock: {{key: 'report:lock', library: string}}\n    runs: {{every: 6s, late_after: 2s}}\n",
        server.address(),
    ));
    // All is well as far as it goes, though it saw no run yet.
    let page = agent.until(PATIENCE, "the free lock is seen", |page| {
        page.of("report", "lock_held") == Some(0.0) && page.of("report", "task_clear") == Some(1.0)
    });
    assert_eq!(page.of("report", "task_run_due_timestamp_seconds"), None, "no run yet");
    let began = Instant::now();
    server.cli(&["set", "report:lock", "web-1", "px", "10000", "nx"]);
    agent.until(PATIENCE, "it began", |page| {
        page.of("report", "task_run_due_timestamp_seconds").is_some()
    });
    server.cli(&["del", "report:lock"]);
    agent.until(PATIENCE, "it was watched for long", |page| {
        let watched = page.of("report", "task_run_watched_seconds");
        let due = began.elapsed() + Duration::from_millis(300) > every;
        due && watched > Some(4.0)
    });
    agent.signal("STOP");
    server.cli(&["set", "report:lock", "web-2", "px", "300", "nx"]);
    std::thread::sleep(Duration::from_millis(1_500));
    agent.signal("CONT");
    let page = agent.until(PATIENCE, "the standstill is noticed", |page| {
        let watched = page.of("report", "task_run_watched_seconds");
        watched.is_some_and(|watched| watched < 4.0)
    });
    assert_eq!(page.of("report", "task_clear"), Some(0.0), "it does not know");
    let is_late = |page: &Exposition| page.verdict("report") == "down";
    agent.until(PATIENCE, "now it is overdue", is_late);
    assert!(began.elapsed() + NOISE >= 2 * every + Duration::from_secs(2), "{:?}", began.elapsed());
}
