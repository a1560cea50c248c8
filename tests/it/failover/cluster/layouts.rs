//! Uncovered slots, nodes with false layouts, and addresses that must not be dialled.

use crate::support::PATIENCE;
use std::net::TcpListener;
use std::time::Duration;

use super::*;
use crate::support::redis::Keep;
use crate::support::wait_until;

/// Further fields of a task that soon becomes blind.
const BLIND_SOON: &str = ", settle: 1s, blind_after: 2s";

/// A dead shard, an uncovered slot and a node without a cluster affect only their own tasks.
#[test]
fn what_is_not_served_is_unknown_and_the_rest_goes_on() {
    let Some(mut cluster) = start("what_is_not_served_is_unknown", 0, &direct(&[PARTLY])) else {
        return;
    };
    let keys: Vec<String> = (0..3).map(|node| key_on(node, "lock")).collect();
    let bare = key_on(0, "bare");
    assert_ne!(slot(bare.as_bytes()), slot(keys[0].as_bytes()));
    let tasks: String =
        (0..3).map(|node| task(&format!("task-{node}"), &keys[node], BLIND_SOON)).collect();
    let tasks = tasks + &task("bare", &bare, BLIND_SOON);
    for key in keys.iter().chain([&bare]) {
        hold(&cluster, key, "worker");
    }
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks));
    let page = until_running(&agent, &["task-0", "task-1", "task-2", "bare"]);
    assert_eq!((of_redis(&page, "uncovered_slots"), of_redis(&page, "masters")), (0.0, 3.0));

    let watch = agent.watch();
    cluster.uncover(slot(bare.as_bytes()));
    agent.until_view(PATIENCE, "one slot is uncovered", |view| {
        view.reason("bare") == Some("cluster_down")
            && of_redis(&view.page, "uncovered_slots") == 1.0
    });
    agent.until(PATIENCE, "blind", |page| page.verdict("bare") == "unknown");
    let pages = watch.stop();
    for task in ["task-0", "task-1", "task-2"] {
        check_undisturbed(&agent, &pages, task);
    }
    let number = slot(bare.as_bytes()).to_string();
    assert_eq!(cluster.node(0).cli(&["cluster", "addslots", &number]), "OK");
    cluster.node(0).cli(&["set", &bare, "worker", "px", "60000"]);
    agent.until(PATIENCE, "covered again", |page| {
        page.verdict("bare") == "running" && of_redis(page, "uncovered_slots") == 0.0
    });

    // A dead shard.
    let watch = agent.watch();
    cluster.node_mut(2).kill();
    let page =
        agent.until(PATIENCE, "its tasks are blind", |page| page.verdict("task-2") == "unknown");
    agent.check(&page, "not all is readable", of_redis(&page, "readable") == 0.0);
    let blind = of_redis(&page, "blind_seconds");
    agent.until(PATIENCE, "ever longer", |page| of_redis(page, "blind_seconds") > blind + 1.0);
    let page = agent.until(PATIENCE, "its slots are uncovered, and still not readable", |page| {
        of_redis(page, "uncovered_slots") > 5_000.0 && of_redis(page, "readable") == 0.0
    });
    let blind = of_redis(&page, "blind_seconds");
    agent.until(PATIENCE, "ever longer, also then", |page| {
        of_redis(page, "blind_seconds") > blind + 1.0
    });
    let pages = watch.stop();
    for task in ["task-0", "task-1", "bare"] {
        check_undisturbed(&agent, &pages, task);
    }
    cluster.node_mut(2).restart(Keep::Files);
    wait_until(PATIENCE, "it serves again", || {
        cluster.node(2).cli(&["set", &keys[2], "worker", "px", "60000"]) == "OK"
    });
    agent.until(PATIENCE, "it is back", |page| {
        page.verdict("task-2") == "running"
            && of_redis(page, "readable") == 1.0
            && of_redis(page, "blind_seconds") == 0.0
    });
    cluster.wait_agreed();

    // A reset node reports that no slot is covered. The other nodes outvote it.
    let watch = agent.watch();
    cluster.reset(1);
    agent.until(PATIENCE, "its tasks are blind", |page| page.verdict("task-1") == "unknown");
    agent.throughout(Duration::from_secs(2), "the layout stays", |view| {
        of_redis(&view.page, "uncovered_slots") == 0.0
    });
    let pages = watch.stop();
    for task in ["task-0", "task-2", "bare"] {
        check_undisturbed(&agent, &pages, task);
    }
    assert!(pages.iter().all(|page| all_splits(page) == 0.0));
}

/// The announced addresses are unreachable for clients; `announce_map` has the reachable ones.
#[test]
fn a_cluster_behind_nat_is_reached_by_the_map() {
    let options = Options { password: Some("one"), ..Options::default() };
    let Some(cluster) = start("a_cluster_behind_nat", 0, &options) else { return };
    let keys: Vec<String> = (0..3).map(|node| key_on(node, "lock")).collect();
    keys.iter().for_each(|key| hold(&cluster, key, "worker"));
    cluster.hide_announced();
    let pairs = cluster
        .members
        .iter()
        .map(|member| format!("\"{}\": \"{}\"", member.announced(), member.server.address()));
    let map =
        format!(", allow_peers: [], announce_map: {{{}}}", pairs.collect::<Vec<_>>().join(", "));
    let tasks: String = (0..3).map(|node| task(&format!("task-{node}"), &keys[node], "")).collect();
    let password = ", password_env: REDIS_PASSWORD";
    let config = config(&[cluster.node(0).address()], &map, password, &tasks);
    let agent = Agent::start_with(&config, |command| {
        command.env("REDIS_PASSWORD", "one");
    });
    until_running(&agent, &["task-0", "task-1", "task-2"]);
    let view = agent.view();
    assert_eq!(view.task("task-2")["node"], cluster.node(2).address());
}

/// One node announces a host that the configuration does not allow, in its layout and in every
/// `MOVED`.
#[test]
fn a_foreign_host_gets_no_connection_and_no_password() {
    const FOREIGN: &str = "127.0.0.99";
    let test = "a_foreign_host_gets_no_connection";
    let options =
        Options { password: Some("one"), ..direct(&["cluster-preferred-endpoint-type hostname"]) };
    let Some(cluster) = start(test, 0, &options) else { return };
    let trap = TcpListener::bind((FOREIGN, cluster.node(2).port)).unwrap();
    trap.set_nonblocking(true).unwrap();
    for node in 0..2 {
        cluster.node(node).cli(&["config", "set", "cluster-announce-hostname", "127.0.0.1"]);
    }
    let keys: Vec<String> = (0..3).map(|node| key_on(node, "lock")).collect();
    keys.iter().for_each(|key| hold(&cluster, key, "worker"));
    let tasks: String =
        (0..3).map(|node| task(&format!("task-{node}"), &keys[node], BLIND_SOON)).collect();
    let config = config(
        &cluster.addresses()[..2],
        ", allow_peers: []",
        ", password_env: REDIS_PASSWORD",
        &tasks,
    );
    cluster.node(2).cli(&["config", "set", "cluster-announce-hostname", FOREIGN]);
    wait_until(PATIENCE, "the others say so", || {
        (0..2).all(|node| cluster.node(node).cli(&["get", &keys[2]]).contains(FOREIGN))
    });
    let agent = Agent::start_with(&config, |command| {
        command.env("REDIS_PASSWORD", "one");
    });
    until_running(&agent, &["task-0", "task-1"]);
    agent.until_view(PATIENCE, "unknown, with the reason", |view| {
        view.verdict("task-2") == "unknown" && view.reason("task-2") == Some("foreign_address")
    });
    // A slot moves from an allowed address to the foreign one: each reply is now a MOVED to it.
    let watch = agent.watch();
    cluster.move_slot(slot(keys[1].as_bytes()), 2);
    agent.until_view(PATIENCE, "it went there", |view| {
        view.reason("task-1") == Some("foreign_address")
    });
    let pages = watch.stop();
    check_undisturbed(&agent, &pages, "task-0");
    cluster.move_slot(slot(keys[1].as_bytes()), 1);
    let page = until_running(&agent, &["task-0", "task-1"]);
    assert_eq!(all_ends(&page), 0.0);
    assert!(trap.accept().is_err(), "somebody dialled the foreign host");
    let reported = agent.log_lines(&["announced at an address that is not allowed", FOREIGN]);
    assert!(!reported.is_empty() && reported.len() < 10, "{reported:#?}");
}

/// Host names are preferred but not set: each node then reports `?` and its address.
#[test]
fn nodes_without_the_preferred_host_name_are_reached_by_their_addresses() {
    let options = direct(&["cluster-preferred-endpoint-type hostname"]);
    let Some(cluster) = start("nodes_without_the_preferred_host_name", 0, &options) else { return };
    let keys: Vec<String> = (0..3).map(|node| key_on(node, "lock")).collect();
    let tasks: String = (0..3).map(|node| task(&format!("task-{node}"), &keys[node], "")).collect();
    for (node, key) in keys.iter().enumerate() {
        assert_eq!(
            cluster.node(node).cli(&["set", key, "worker", "nx", "px", "60000"]),
            "OK",
            "{key}"
        );
    }
    let agent = Agent::start(&config(&cluster.addresses()[..1], "", "", &tasks));
    let page = until_running(&agent, &["task-0", "task-1", "task-2"]);
    assert_eq!((of_redis(&page, "uncovered_slots"), of_redis(&page, "masters")), (0.0, 3.0));
}
