//! With many locks, and a server that announces changes, most sweeps only read the deadlines.

use super::*;
use crate::support::PATIENCE;
use crate::support::wait_until;

/// So many that they are read in three batches, and in full every third sweep.
const TASKS: usize = 600;
const WHOLE_EVERY: u64 = 3;

/// All locks are held.
fn many(server: &RedisServer, more: &str) -> Agent {
    let lock_all =
        "for n = 1, ARGV[1] do redis.call('set', 'lock:' .. n - 1, 'token', 'px', 600000) end";
    server.cli(&["eval", lock_all, "0", &TASKS.to_string()]);
    let tasks: Vec<(String, String)> =
        (0..TASKS).map(|n| (format!("t{n}"), format!("lock:{n}"))).collect();
    let tasks: Vec<(&str, &str)> =
        tasks.iter().map(|(name, key)| (name.as_str(), key.as_str())).collect();
    let agent = Agent::start(&config(server.port, "200ms", more, &tasks));
    agent.until(PATIENCE, "all are held", all_are_held);
    agent
}

fn all_are_held(page: &Exposition) -> bool {
    page.series("lockwatch_lock_held", &[]).into_values().sum::<f64>() == TASKS as f64
}

/// How many locks were read in full, and of how many only the deadline, during this many more
/// sweeps.
fn reads(server: &RedisServer, sweeps: u64) -> (u64, u64) {
    let now = || calls_of(server, ["getrange", "pexpiretime"]);
    let before = now();
    let mut since = (0, 0);
    wait_until(PATIENCE, "it goes on reading", || {
        let [values, deadlines] = now();
        let whole = values - before[0];
        // A full reading requests the deadline twice.
        since = (whole, (deadlines - before[1]).saturating_sub(2 * whole));
        since.0 + since.1 >= sweeps * TASKS as u64
    });
    since
}

#[test]
fn most_sweeps_over_many_locks_only_look_at_the_deadlines() {
    let Some(server) = RedisServer::start("most_sweeps_over_many_locks_only_look_at_the_deadlines")
    else {
        return;
    };
    let agent = many(&server, "");
    until_listening(&agent);
    reads(&server, 2 * WHOLE_EVERY);
    let (whole, glances) = reads(&server, 4 * WHOLE_EVERY);
    eprintln!("{whole} whole, {glances} glances");
    assert!(glances > whole && whole > 0, "{whole} whole, {glances} glances");
    let page = agent.page();
    agent.check(&page, "all are held", all_are_held(&page));
    agent.check(&page, "nobody else", page.of("t300", "lock_acquisitions_total") == Some(0.0));
    // An explanation always shows a full reading. If the machine stalls, nothing is read meanwhile.
    let mut shown = 0;
    wait_until(PATIENCE, "it was read meanwhile", || {
        let said = agent.text("/api/v1/tasks/t300/explain");
        let (deadline, value) = (said.contains("PEXPIRETIME"), said.contains("GETRANGE"));
        assert_eq!(deadline, value, "{said}");
        shown += u64::from(value);
        shown == 2 * WHOLE_EVERY
    });
    // Another holder with the same deadline, another deadline of the same holder, and no holder.
    server.cli(&["set", "lock:300", "another", "keepttl"]);
    agent.until(PATIENCE, "the change of hands", |page| page.ends("t300", "replaced") == 1.0);
    server.cli(&["pexpire", "lock:301", "700000"]);
    agent
        .until(PATIENCE, "the renewal", |page| page.of("t301", "lock_renewals_total") == Some(1.0));
    server.cli(&["del", "lock:302"]);
    until_held(&agent, "t302", false);
}

/// Without announcements, a value that changes while its deadline stays would be detected late.
#[test]
fn where_nothing_is_announced_every_lock_is_read_whole() {
    let Some(server) = RedisServer::start("where_nothing_is_announced_every_lock_is_read_whole")
    else {
        return;
    };
    let agent = many(&server, ", wake_ups: false");
    let (whole, glances) = reads(&server, 2 * WHOLE_EVERY);
    // A batch may be in flight.
    assert!(glances <= whole / 10, "{whole} whole, {glances} glances");
    server.cli(&["set", "lock:300", "another", "keepttl"]);
    agent.until(PATIENCE, "the change of hands", |page| page.ends("t300", "replaced") == 1.0);
}
