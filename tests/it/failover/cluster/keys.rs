//! The keys of one task on several nodes, or in one slot by hash tags.

use crate::support::PATIENCE;
use std::io::Write as _;
use std::net::TcpStream;

use super::*;
use crate::support::redis::Keep;
use crate::support::redisson::Redisson;

/// Three tasks: one has every key on another node than its lock, one has all keys in one slot, and
/// one is held by the real Redisson, with a waiter.
#[test]
fn lock_and_switches_on_different_nodes_make_one_verdict() {
    let test = "lock_and_switches_on_different_nodes_make_one_verdict";
    let Some(mut redisson) = Redisson::start(test) else { return };
    let Some(cluster) = start(test, 1, &direct(&[])) else { return };
    let (lock, users, pause) =
        (key_on(0, "apart"), key_on(1, "apart-users"), key_on(1, "apart-pause"));
    let (stats, claims, hosts) =
        (key_on(2, "apart-stats"), key_on(1, "apart-claims"), key_on(2, "apart-hosts"));
    let work = key_on(1, "work:lock");
    let apart = format!(
        ", wanted: {{hash: \"{users}\"}}, paused_until: {{key: \"{pause}\"}}, claims: {{hash: \
         \"{claims}\"}}, \
         progress: {{hash: \"{stats}\", field: last_run, stale_after: 2s}}, hosts: {{hash: \
         \"{hosts}\"}}, grace: 2s, settle: 1s"
    );
    let tagged = ", wanted: {keys: [\"{tagged}:anna\", \"{tagged}:ben\"]}";
    let tasks = task("apart", &lock, &apart)
        + &task("tagged", "{tagged}:lock", tagged)
        + &format!("  - {{name: work, lock: {{key: \"{work}\"}}, wanted: always}}\n");
    hold(&cluster, &lock, "worker-1");
    hold(&cluster, "{tagged}:lock", "worker-2");
    let set =
        |key: &str, words: &[&str]| cluster.cli(key, &[&[words[0], key], &words[1..]].concat());
    set(&users, &["hset", "anna", "1"]);
    set(&stats, &["hset", "last_run", "1"]);
    set(&claims, &["hset", "worker-1", "1"]);
    set(&hosts, &["hset", "worker-1", "host-1"]);
    set("{tagged}:ben", &["set", "off"]);
    let agent = Agent::start(&config(&[cluster.node(2).address()], "", "", &tasks));

    // Before it is stalled: its progress does not move.
    agent.until(PATIENCE, "it runs and is wanted", |page| {
        page.verdict("apart") == "running" && page.of("apart", "task_wanted") == Some(1.0)
    });
    redisson
        .connect("c1", &format!("mode=cluster nodes={} watchdog=3000", cluster.node(0).address()));
    let waiting = redisson
        .connect("c2", &format!("mode=cluster nodes={} watchdog=3000", cluster.node(0).address()));
    redisson.run(&format!("lock c1 t1 {work}"));
    redisson.run(&format!("lock-async c2 t1 {work}"));
    let page = agent.until(PATIENCE, "all are read, and the waiter is counted", |page| {
        let runs = |task| page.verdict(task) == "running";
        runs("tagged") && runs("work") && page.of("work", "lock_waiters") == Some(1.0)
    });
    // Redisson before 3.22 waits like this, also in a cluster with sharded pub/sub.
    let braced = if work.contains('{') { work.clone() } else { format!("{{{work}}}") };
    let mut older = TcpStream::connect(cluster.node(1).address()).unwrap();
    write!(older, "SUBSCRIBE redisson_lock__channel:{braced}\r\n").unwrap();
    agent.until(PATIENCE, "one that waits on an ordinary channel", |page| {
        page.of("work", "lock_waiters") == Some(2.0)
    });
    drop(older);
    assert_eq!(page.of("tagged", "task_wanted"), Some(0.0));
    assert_eq!(page.of("apart", "task_paused"), Some(0.0));
    let view = agent.until_view(PATIENCE, "the host is known", |view| {
        view.task("apart").to_string().contains("host-1")
    });
    assert_eq!(view.task("apart")["node"], cluster.node(0).address());

    // Stalled, because the progress on another node stands still; then it moves.
    agent.until(PATIENCE, "stalled", |page| page.verdict("apart") == "stalled");
    set(&stats, &["hset", "last_run", "2"]);
    agent.until(PATIENCE, "running again", |page| page.verdict("apart") == "running");
    set(&pause, &["set", "2099-01-01T00:00:00Z"]);
    agent.until(PATIENCE, "paused", |page| page.of("apart", "task_paused") == Some(1.0));

    // A gap, ended by a handover.
    set(&lock, &["del"]);
    agent.until(PATIENCE, "down", |page| page.verdict("apart") == "down");
    hold(&cluster, &lock, "worker-3");
    let page = agent.until(PATIENCE, "the handover is counted", |page| {
        page.of("apart", "task_handover_seconds_count") == Some(1.0)
    });
    let gap = page.of("apart", "task_handover_seconds_sum").unwrap();
    assert!((2.0..5.0).contains(&gap), "{gap}");
    assert_eq!(page.of("apart", "lock_acquisitions_total"), Some(1.0));
    // Switched off: first it winds down, then the free lock is the desired state.
    set(&users, &["hset", "anna", "0"]);
    set(&lock, &["del"]);
    agent.until(PATIENCE, "stopped", |page| page.verdict("apart") == "stopped");
    set(&users, &["hset", "anna", "1"]);
    agent.until(PATIENCE, "down again", |page| page.verdict("apart") == "down");

    redisson.run(&format!("unlock c1 t1 {work}"));
    agent.until(PATIENCE, "the waiter has it", |page| {
        page.label("work", "lock_holder", "holder").is_some_and(|holder| holder.contains(&waiting))
    });
    let page =
        agent.until(PATIENCE, "nobody waits", |page| page.of("work", "lock_waiters") == Some(0.0));
    assert_eq!((all_splits(&page), of_redis(&page, "uncovered_slots")), (0.0, 0.0));
    let refused = |reason: &str| page.get("lockwatch_store_errors_total", &[("reason", reason)]);
    assert_eq!((refused("moved"), refused("server_error")), (Some(0.0), Some(0.0)));
}

#[test]
fn switches_on_a_node_that_restarts_empty_are_lost_and_on_a_dead_one_unknown() {
    let test = "switches_on_a_node_that_restarts_empty";
    let Some(mut cluster) = start(test, 0, &direct(&[PARTLY])) else { return };
    let (lock, users) = (key_on(0, "lock"), key_on(1, "users"));
    let near = "near:lock";
    let more = format!(", wanted: {{hash: \"{users}\"}}, grace: 1s, settle: 1s, blind_after: 2s");
    let other = key_on(2, "other");
    let tasks =
        task("outbound", &lock, &more) + &task("other", &other, "") + &task("near", near, "");
    hold(&cluster, &lock, "worker-1");
    hold(&cluster, &other, "worker-2");
    cluster.cli(&users, &["hset", &users, "anna", "1"]);
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks));
    until_running(&agent, &["outbound", "other"]);
    agent.until(PATIENCE, "wanted", |page| page.of("outbound", "task_wanted") == Some(1.0));

    cluster.node_mut(1).restart(Keep::Files);
    let page = agent.until(PATIENCE, "the switches are lost", |page| {
        page.of("outbound", "task_switches_lost_seconds") > Some(0.0)
    });
    assert_eq!(
        (page.verdict("outbound"), all_ends(&page)),
        ("running", 0.0),
        "the lock's node is fine"
    );
    // The last known "on" stays in force, so a free lock is a gap.
    cluster.cli(&lock, &["del", &lock]);
    agent.until(PATIENCE, "down", |page| page.verdict("outbound") == "down");
    cluster.cli(&users, &["hset", &users, "anna", "0"]);
    agent.until(PATIENCE, "stopped", |page| {
        page.verdict("outbound") == "stopped"
            && page.of("outbound", "task_switches_lost_seconds") == Some(0.0)
    });

    // The node with the switches is down, so it is unknown whether the free lock is wanted.
    cluster.node_mut(1).kill();
    let page = agent.until(PATIENCE, "blind", |page| page.verdict("outbound") == "unknown");
    assert_eq!(page.of("outbound", "lock_held"), Some(0.0));
    assert_eq!(page.of("outbound", "task_wanted"), None);
    assert!(page.of("outbound", "task_blind_seconds") >= Some(2.0));
    assert_eq!(page.of("outbound", "task_down_seconds"), Some(0.0));
    assert_eq!(page.verdict("other"), "running");
    // A held lock means that the task runs, wanted or not.
    hold(&cluster, &lock, "worker-3");
    agent.until(PATIENCE, "held again", |page| page.verdict("outbound") == "running");
    cluster.node_mut(1).restart(Keep::Files);
    agent.until(PATIENCE, "known again", |page| {
        page.of("outbound", "task_blind_seconds") == Some(0.0)
    });
}
