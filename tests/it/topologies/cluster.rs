//! Cluster: keys move with their deadlines, a replica takes over, a node in the minority stops
//! serving.

use crate::support::PATIENCE;
use std::ops::RangeInclusive;
use std::time::Instant;

use crate::support::cluster::{Cluster, NODE_TIMEOUT};
use crate::support::network::{Options, Wiring};
use crate::support::redis::Keep;
use crate::support::sentinels::says_master;
use crate::support::wait_until;

const LOCK: &str = "{outbound}:lock";

/// By how much a move may extend a deadline: `MIGRATE` transfers the remaining TTL, so transfer
/// time adds to it.
const MOVE_MS: RangeInclusive<i64> = 0..=2_000;

fn deadline_ms(cluster: &Cluster, key: &str) -> i64 {
    cluster.cli(key, &["pexpiretime", key]).parse().unwrap()
}

fn start(test: &str, replicas: usize, options: &Options) -> Option<Cluster> {
    Cluster::start(&format!("topologies::cluster::{test}"), replicas, options)
}

fn lock(cluster: &Cluster, node: usize, holder: &str) -> String {
    cluster.node(node).cli(&["set", LOCK, holder, "px", "60000"])
}

#[test]
fn a_moved_slot_takes_its_keys_and_their_deadlines_along() {
    let test = "a_moved_slot_takes_its_keys_and_their_deadlines_along";
    let options = Options { password: Some("one"), ..Options::default() };
    let Some(cluster) = start(test, 0, &options) else { return };
    let (from, slot) = (cluster.owner(LOCK), cluster.slot(LOCK));
    let to = (from + 1) % 3;
    assert_eq!(lock(&cluster, from, "one"), "OK");
    for number in 0..120 {
        cluster.node(from).cli(&["set", &format!("{{outbound}}:{number}"), "one", "px", "60000"]);
    }
    let first_ms = deadline_ms(&cluster, LOCK);

    cluster.begin_move(slot, to);
    assert_eq!(cluster.move_keys(slot, to), 100);
    assert!(cluster.node(from).cli(&["exists", "{outbound}:none"]).starts_with("ASK "));
    while cluster.move_keys(slot, to) > 0 {}
    assert!(cluster.node(from).cli(&["get", LOCK]).starts_with("ASK "));
    cluster.end_move(slot, to);

    assert_eq!(cluster.owner(LOCK), to);
    assert!(cluster.node(from).cli(&["get", LOCK]).starts_with("MOVED "));
    assert_eq!(cluster.cli(LOCK, &["get", LOCK]), "one");
    let second_ms = deadline_ms(&cluster, LOCK);
    assert!(MOVE_MS.contains(&(second_ms - first_ms)), "from {first_ms} to {second_ms}");
    cluster.move_slot(slot, from);
    assert_eq!(cluster.owner(LOCK), from);
    let third_ms = deadline_ms(&cluster, LOCK);
    assert!(MOVE_MS.contains(&(third_ms - second_ms)), "from {second_ms} to {third_ms}");
    assert_eq!(cluster.cli(LOCK, &["cluster", "countkeysinslot", &slot.to_string()]), "121");
}

#[test]
fn redis_cli_reshards() {
    let options = Options { wiring: Wiring::Direct, ..Options::default() };
    let Some(cluster) = start("redis_cli_reshards", 0, &options) else { return };
    // Slot 0 is node 0's first slot, and the first to be moved.
    let key =
        (0..).map(|number| format!("lock:{number}")).find(|key| cluster.slot(key) < 100).unwrap();
    let from = cluster.owner(&key);
    cluster.cli(&key, &["set", &key, "one", "px", "60000"]);
    let before_ms = deadline_ms(&cluster, &key);
    cluster.reshard(from, 2, 100);
    assert_eq!((from, cluster.owner(&key)), (0, 2));
    let after_ms = deadline_ms(&cluster, &key);
    assert!(MOVE_MS.contains(&(after_ms - before_ms)), "from {before_ms} to {after_ms}");
    cluster.wait_agreed();
}

#[test]
fn a_replica_takes_over_from_a_killed_master() {
    let Some(mut cluster) =
        start("a_replica_takes_over_from_a_killed_master", 1, &Options::default())
    else {
        return;
    };
    let old = cluster.owner(LOCK);
    let replicas = cluster.replicas_of(old);
    assert_eq!(replicas.len(), 1);
    assert_eq!(lock(&cluster, old, "one"), "OK");
    wait_until(PATIENCE, "it is replicated", || {
        cluster.node(replicas[0]).cli(&["readonly"]);
        cluster.node(replicas[0]).info("slave_repl_offset")
            == cluster.node(old).info("master_repl_offset")
    });
    cluster.node_mut(old).kill();
    let new = cluster.wait_taken_over(&replicas);
    assert_eq!(cluster.owner(LOCK), new);
    wait_until(PATIENCE, "it serves", || cluster.node(new).cli(&["get", LOCK]) == "one");
    cluster.node_mut(old).restart(Keep::Files);
    wait_until(PATIENCE, "the old one follows", || cluster.replicas_of(new) == [old]);
    cluster.wait_agreed();
}

#[test]
fn a_manual_failover_loses_nothing() {
    let Some(cluster) = start("a_manual_failover_loses_nothing", 1, &Options::default()) else {
        return;
    };
    let old = cluster.owner(LOCK);
    let new = cluster.replicas_of(old)[0];
    assert_eq!(lock(&cluster, old, "one"), "OK");
    let acknowledged: u64 = cluster.node(old).info("master_repl_offset").unwrap().parse().unwrap();
    cluster.fail_over(new);
    assert_eq!(cluster.owner(LOCK), new);
    assert_eq!(cluster.node(new).cli(&["get", LOCK]), "one");
    let promoted: u64 = cluster.node(new).info("second_repl_offset").unwrap().parse().unwrap();
    assert!(promoted > acknowledged);
    wait_until(PATIENCE, "the old one follows", || cluster.replicas_of(new) == [old]);
}

/// It serves for about its node timeout, then it refuses, unlike a master with Sentinel.
#[test]
fn a_master_in_the_minority_loses_what_it_acknowledged() {
    let test = "a_master_in_the_minority_loses_what_it_acknowledged";
    let Some(cluster) = start(test, 1, &Options::default()) else { return };
    let old = cluster.owner(LOCK);
    let replicas = cluster.replicas_of(old);
    cluster.isolate(old);
    let isolated = Instant::now();
    assert_eq!(lock(&cluster, old, "one"), "OK");
    wait_until(PATIENCE, "it gives up", || lock(&cluster, old, "one").starts_with("CLUSTERDOWN"));
    assert!(isolated.elapsed() > NODE_TIMEOUT / 2);
    let new = cluster.wait_taken_over(&replicas);
    assert!(says_master(cluster.node(old)) && says_master(cluster.node(new)));
    assert_eq!(cluster.owner(LOCK), new);
    wait_until(PATIENCE, "the new one serves", || cluster.node(new).cli(&["exists", LOCK]) == "0");
    cluster.heal();
    wait_until(PATIENCE, "the old one follows", || !says_master(cluster.node(old)));
    cluster.wait_agreed();
}

#[test]
fn slots_and_nodes_can_be_lost() {
    let Some(cluster) = start("slots_and_nodes_can_be_lost", 0, &Options::default()) else {
        return;
    };
    let (owner, slot) = (cluster.owner(LOCK), cluster.slot(LOCK));
    cluster.uncover(slot);
    assert_eq!(cluster.owner_of_slot(slot), None);
    assert!(cluster.node(owner).cli(&["get", LOCK]).starts_with("CLUSTERDOWN"));

    let other = (owner + 1) % 3;
    cluster.forget(other);
    cluster.reset(other);
    let nodes = |index| cluster.node(index).cli(&["cluster", "nodes"]).lines().count();
    assert_eq!((nodes(other), nodes(owner)), (1, 2));
}
