//! Masters that die, are cut off, or restart.

use crate::support::PATIENCE;
use std::time::{Duration, Instant};

use super::*;
use crate::failover::worker::Worker;
use crate::failover::{A, B};
use crate::support::redis::Keep;
use crate::support::wait_until;

const SPAN: Duration = Duration::from_secs(40);

/// Waits until the replica of a node has received everything.
fn wait_replicated(cluster: &Cluster, master: usize) -> usize {
    let replica = cluster.replicas_of(master)[0];
    wait_until(SPAN, "it is replicated", || {
        cluster.node(replica).info("slave_repl_offset")
            == cluster.node(master).info("master_repl_offset")
    });
    replica
}

#[test]
fn a_replica_takes_over_from_a_killed_master_and_nobody_else_notices() {
    let test = "a_replica_takes_over_from_a_killed_master";
    // Otherwise all nodes refuse to serve until the replica has taken over.
    let Some(mut cluster) = start(test, 1, &direct(&[PARTLY])) else { return };
    let (hurt, fine) = (key_on(0, "hurt"), key_on(1, "fine"));
    let (users, more) = (key_on(1, "users"), key_on(2, "more"));
    let wanted = format!(", wanted: {{hash: \"{users}\"}}");
    let tasks =
        task("hurt", &hurt, &wanted) + &task("fine", &fine, &wanted) + &task("more", &more, "");
    hold(&cluster, &hurt, "worker-1");
    hold(&cluster, &fine, "worker-2");
    hold(&cluster, &more, "worker-3");
    cluster.cli(&users, &["hset", &users, "anna", "1"]);
    let replica = wait_replicated(&cluster, 0);
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks));
    until_running(&agent, &["hurt", "fine", "more"]);
    agent.until(PATIENCE, "all masters are read", |page| {
        page.series("lockwatch_store_generation", &[]).len() == 1
            && of_redis(page, "readable") == 1.0
    });
    let watch = agent.watch();
    cluster.node_mut(0).kill();
    let killed = Instant::now();
    agent.until(PATIENCE, "it is missed", |page| {
        page.of("hurt", "lock_held").is_none() && of_redis(page, "readable") == 0.0
    });
    assert_eq!(cluster.wait_taken_over(&[replica]), replica);
    let switched = killed.elapsed();
    let new = cluster.node(replica).address();
    agent.until_view(PATIENCE, "the new master is read", |view| {
        view.task("hurt")["node"] == *new && view.held("hurt") == Some(1.0)
    });
    let blind = killed.elapsed();
    eprintln!("blind for {blind:?}; the cluster took {switched:?} to switch");
    agent.until(PATIENCE, "it is settled", |_| {
        !agent.log_lines(&["event=generation_settled"]).is_empty()
    });
    let pages = watch.stop();
    check_undisturbed(&agent, &pages, "more");
    for page in &pages {
        agent.check(
            page,
            "fine runs",
            page.verdict("fine") == "running" && page.of("fine", "lock_held") == Some(1.0),
        );
        agent.check(page, "hurt runs", page.verdict("hurt") == "running");
        agent.check(page, "nothing ended", all_ends(page) == 0.0 && all_splits(page) == 0.0);
    }
    let settled = agent.log_lines(&["event=generation_settled"]);
    assert_eq!(settled.len(), 1, "{settled:#?}");
    assert!(settled[0].contains("1 kept, 0 lost"), "{settled:#?}");
    let last = pages.last().unwrap();
    agent.check(last, "seen soon", blind < switched + Duration::from_secs(2));
    agent.check(
        last,
        "readable again",
        of_redis(last, "readable") == 1.0 && of_redis(last, "blind_seconds") == 0.0,
    );

    cluster.node_mut(0).restart(Keep::Files);
    let old = cluster.node(0).address();
    agent.until(PATIENCE, "the old one is a replica", |page| {
        !page.series("lockwatch_store_up", &[("server", &old), ("role", "replica")]).is_empty()
    });
    assert_eq!(all_ends(&agent.page()), 0.0);
}

/// A frozen master neither answers nor closes connections. When it resumes, it does not know of its
/// successor.
#[test]
fn a_frozen_master_holds_up_nobody_and_says_nothing_that_counts() {
    let Some(cluster) = start("a_frozen_master", 1, &direct(&[PARTLY])) else { return };
    let (frozen, fine) = (key_on(0, "frozen"), key_on(1, "fine"));
    let tasks =
        task("frozen", &frozen, ", wanted: always") + &task("fine", &fine, ", wanted: always");
    hold(&cluster, &frozen, "worker-1");
    hold(&cluster, &fine, "worker-2");
    let replica = wait_replicated(&cluster, 0);
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks));
    until_running(&agent, &["frozen", "fine"]);
    let watch = agent.watch();
    cluster.node(0).pause();
    assert_eq!(cluster.wait_taken_over(&[replica]), replica);
    let switched = Instant::now();
    let new = cluster.node(replica).address();
    agent.until_view(PATIENCE, "the new master is read", |view| {
        view.task("frozen")["node"] == *new && view.held("frozen") == Some(1.0)
    });
    let late = switched.elapsed();
    eprintln!("read {late:?} after the switch");
    assert!(late < Duration::from_secs(2), "{late:?}");
    assert_eq!(cluster.node(replica).cli(&["pexpire", &frozen, "90000"]), "1");
    cluster.node(0).go_on();
    let old = cluster.node(0).address();
    agent.until(PATIENCE, "the old one is a replica", |page| {
        !page.series("lockwatch_store_up", &[("server", &old), ("role", "replica")]).is_empty()
    });
    let pages = watch.stop();
    check_undisturbed(&agent, &pages, "fine");
    for page in &pages {
        agent.check(page, "it runs", page.verdict("frozen") == "running");
        agent.check(page, "nothing ended", all_ends(page) == 0.0 && all_splits(page) == 0.0);
    }
}

/// The old master is alive on the minority side and still shows what it acknowledged there.
#[test]
fn a_lock_taken_on_both_sides_of_a_partition_is_a_split_of_masters() {
    let test = "a_lock_taken_on_both_sides";
    let options =
        Options { lines: vec!["cluster-allow-reads-when-down yes"], ..Options::default() };
    let Some(cluster) = start(test, 1, &options) else { return };
    let (lock, other) = (key_on(0, "lock"), key_on(1, "other"));
    let outbound =
        format!("  - {{name: outbound, lock: {{key: \"{lock}\"}}, wanted: always, settle: 1s}}\n");
    let tasks = outbound + &task("other", &other, "");
    hold(&cluster, &other, "worker-0");
    let replica = wait_replicated(&cluster, 0);
    // A lock taken on the minority side cannot be renewed there for long. The attempt only counts
    // if neither the agent nor the machine stalled within these two and a half intervals.
    let agent = Agent::start(&config_every("1s", &cluster.addresses(), "", "", &tasks));
    agent.until(PATIENCE, "free", |page| page.of("outbound", "lock_held") == Some(0.0));
    until_running(&agent, &["other"]);
    let watch = agent.watch();

    cluster.isolate(0);
    let _old = Worker::take(cluster.node(0).port, &lock, A, Duration::from_secs(25));
    agent.until(PATIENCE, "the old side is read", |page| {
        page.of("outbound", "lock_held") == Some(1.0)
    });
    assert_eq!(cluster.wait_taken_over(&[replica]), replica);
    let _new = Worker::take(cluster.node(replica).port, &lock, B, Duration::from_secs(9));
    let taken = Instant::now();
    agent.until(PATIENCE, "split", |page| page.verdict("outbound") == "split");
    eprintln!("split after {:?}", taken.elapsed());
    let kinds = |page: &Exposition, kind| {
        page.get("lockwatch_task_splits_by_kind_total", &[("task", "outbound"), ("kind", kind)])
    };
    agent.until(PATIENCE, "of masters", |page| kinds(page, "masters") == Some(1.0));
    let reported = agent.log_lines(&["event=split"]);
    let (old, new) = (cluster.members[0].announced(), cluster.members[replica].announced());
    assert!(
        reported.iter().any(|line| line.contains(&old) && line.contains(&new)),
        "both nodes are named: {reported:#?}"
    );

    // The old master learns of the new one and discards what it acknowledged.
    cluster.heal();
    agent.until(PATIENCE, "one master again", |_| {
        !agent.log_lines(&["event=split_ended", "reason=masters"]).is_empty()
    });
    // A client that trusts the old lease may go on until the lease would have ended.
    agent.until(SPAN, "the split is over", |page| {
        page.verdict("outbound") == "running"
            && page.of("outbound", "task_split_seconds") == Some(0.0)
    });
    let pages = watch.stop();
    check_undisturbed(&agent, &pages, "other");
    let last = pages.last().unwrap();
    agent.check(last, "it is remembered", all_splits(last) >= 1.0);
    assert!(last.label("outbound", "lock_holder", "holder").is_some());
}

/// Restarts all nodes at once, with their data. A reload meanwhile changes nothing.
#[test]
fn a_restart_of_the_whole_cluster_with_its_data_keeps_all_locks() {
    let test = "a_restart_of_the_whole_cluster";
    let Some(mut cluster) = start(test, 0, &direct(&[])) else { return };
    let locks: Vec<String> = (0..3).map(|node| key_on(node, "lock")).collect();
    let users = key_on(1, "users");
    let name = |node: usize| format!("task-{node}");
    let tasks = |grace: &str| -> String {
        let more = format!(", wanted: {{hash: \"{users}\"}}, grace: {grace}");
        (0..3).map(|node| task(&name(node), &locks[node], &more)).collect()
    };
    for lock in &locks {
        hold(&cluster, lock, "worker");
    }
    cluster.cli(&users, &["hset", &users, "anna", "1"]);
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks("10s")));
    let names = [name(0), name(1), name(2)];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    until_running(&agent, &names);
    let watch = agent.watch();

    // A change of thresholds keeps the state, and so does one that leaves the switches where they
    // are.
    let loaded_at =
        |page: &Exposition| page.get("lockwatch_config_last_reload_success_timestamp_seconds", &[]);
    let before = loaded_at(&agent.page());
    agent.write_config(&config(&cluster.addresses(), "", "", &tasks("11s")));
    agent.signal("HUP");
    agent.until(PATIENCE, "reloaded", |page| loaded_at(page) > before);
    until_running(&agent, &names);

    for node in 0..3 {
        cluster.node(node).save();
    }
    (0..3).for_each(|node| cluster.node_mut(node).kill());
    agent.until(PATIENCE, "all are missed", |page| {
        names.iter().all(|task| page.of(task, "lock_held").is_none())
    });
    (0..3).for_each(|node| cluster.node_mut(node).restart(Keep::Files));
    agent.until(PATIENCE, "all are back", |page| {
        names.iter().all(|task| {
            page.of(task, "lock_held") == Some(1.0) && page.of(task, "task_wanted") == Some(1.0)
        })
    });
    agent.until(PATIENCE, "all are settled", |_| {
        agent.log_lines(&["event=generation_settled"]).len() == 3
    });
    let pages = watch.stop();
    for page in &pages {
        for task in &names {
            agent.check(page, "it runs", page.verdict(task) == "running");
            agent.check(
                page,
                "no switch is lost",
                page.of(task, "task_switches_lost_seconds") == Some(0.0),
            );
        }
        agent.check(page, "nothing ended", all_ends(page) == 0.0 && all_splits(page) == 0.0);
    }
    let settled = agent.log_lines(&["event=generation_settled"]);
    assert!(settled.iter().all(|line| line.contains("1 kept, 0 lost")), "{settled:#?}");
}
