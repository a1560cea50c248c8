//! A periodic task with a real Redis: its last run, and that the next one is missed in time.

use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use crate::support::agent::Agent;
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
