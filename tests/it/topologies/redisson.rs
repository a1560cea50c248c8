//! The real Redisson in each topology: takes a lock, renews it, and keeps it through a failover.

use crate::support::PATIENCE;

use crate::support::cluster::Cluster;
use crate::support::network::Options;
use crate::support::redis::RedisServer;
use crate::support::redisson::Redisson;
use crate::support::replicas::Replicated;
use crate::support::sentinels::{SentinelOptions, Sentinels};
use crate::support::wait_until;

const LOCK: &str = "outbound:lock";
/// Renewed every 7 s: long enough to survive a failover on a busy machine.
const WATCHDOG: &str = "watchdog=21000";

fn deadline_ms(server: &RedisServer) -> i64 {
    server.cli(&["pexpiretime", LOCK]).parse().unwrap()
}

/// Whether this server has the lock of this client and sees it renewed.
fn wait_renewed(server: &RedisServer, holder: &str) {
    let first_ms = deadline_ms(server);
    wait_until(PATIENCE, "the lock is renewed", || deadline_ms(server) > first_ms);
    assert_eq!(server.cli(&["hkeys", LOCK]), holder);
}

fn take(redisson: &mut Redisson, options: &str) -> String {
    let id = redisson.connect("c1", &format!("{options} {WATCHDOG}"));
    redisson.run(&format!("lock c1 t1 {LOCK}"));
    let thread = redisson.run("thread-id c1 t1")["id"].to_string();
    assert_eq!(redisson.run(&format!("held c1 t1 {LOCK}"))["held"], true);
    format!("{id}:{thread}")
}

#[test]
fn a_lock_lives_through_a_failover_of_sentinel() {
    let test = "topologies::redisson::a_lock_lives_through_a_failover_of_sentinel";
    let Some(mut redisson) = Redisson::start(test) else { return };
    // Redisson sends Sentinels their password only if the servers have one too.
    let servers = Options { password: Some("one"), ..Options::default() };
    let options = SentinelOptions { servers, password: Some("two"), ..SentinelOptions::default() };
    let Some(mut sentinels) = Sentinels::start(test, &options) else { return };
    let nodes = sentinels.addresses().join(",");
    let holder = take(
        &mut redisson,
        &format!("mode=sentinel nodes={nodes} password=one sentinel_password=two"),
    );
    wait_renewed(sentinels.server(0), &holder);
    sentinels.server_mut(0).kill();
    let new = sentinels.wait_switched(0);
    wait_renewed(sentinels.server(new), &holder);
    redisson.run(&format!("unlock c1 t1 {LOCK}"));
    assert_eq!(sentinels.server(new).cli(&["exists", LOCK]), "0");
}

#[test]
fn a_lock_lives_through_a_failover_of_a_cluster_behind_nat() {
    let test = "topologies::redisson::a_lock_lives_through_a_failover_of_a_cluster_behind_nat";
    let Some(mut redisson) = Redisson::start(test) else { return };
    let options = Options { password: Some("one"), ..Options::default() };
    let Some(mut cluster) = Cluster::start(test, 1, &options) else { return };
    let (owner, pairs) = (cluster.owner(LOCK), &cluster.members);
    let pairs: Vec<String> = pairs
        .iter()
        .map(|member| format!("{}>{}", member.announced(), member.server.address()))
        .collect();
    cluster.hide_announced();
    let (nodes, nat) = (cluster.node(0).address(), pairs.join(","));
    let holder =
        take(&mut redisson, &format!("mode=cluster nodes={nodes} nat={nat} password=one scan=500"));
    wait_renewed(cluster.node(owner), &holder);
    let replicas = cluster.replicas_of(owner);
    cluster.node_mut(owner).kill();
    let new = cluster.wait_taken_over(&replicas);
    wait_renewed(cluster.node(new), &holder);
    redisson.run(&format!("unlock c1 t1 {LOCK}"));
    assert_eq!(cluster.node(new).cli(&["exists", LOCK]), "0");
}

#[test]
fn a_lock_lives_through_a_promotion_by_hand() {
    let test = "topologies::redisson::a_lock_lives_through_a_promotion_by_hand";
    let Some(mut redisson) = Redisson::start(test) else { return };
    let Some(replicated) = Replicated::start(test, 1, &Options::default()) else { return };
    let nodes: Vec<String> =
        replicated.members.iter().map(|member| member.server.address()).collect();
    let holder =
        take(&mut redisson, &format!("mode=replicated nodes={} scan=200", nodes.join(",")));
    wait_renewed(replicated.server(0), &holder);
    replicated.promote(1);
    replicated.follow(0, 1);
    wait_renewed(replicated.server(1), &holder);
    redisson.run(&format!("unlock c1 t1 {LOCK}"));
    assert_eq!(replicated.server(1).cli(&["exists", LOCK]), "0");
}

/// By default Redisson refuses a lock that no replica has acknowledged.
#[test]
fn a_lock_that_no_replica_has_is_refused_unless_configured_otherwise() {
    let test =
        "topologies::redisson::a_lock_that_no_replica_has_is_refused_unless_configured_otherwise";
    let Some(mut redisson) = Redisson::start(test) else { return };
    let Some(replicated) = Replicated::start(test, 1, &Options::default()) else { return };
    let nodes: Vec<String> =
        replicated.members.iter().map(|member| member.server.address()).collect();
    let options = format!("mode=replicated nodes={}", nodes.join(","));
    redisson.connect("strict", &options);
    redisson.connect("lax", &format!("{options} check_synced=no"));
    replicated.cut(0, 1);
    redisson.send(&format!("lock strict t1 {LOCK}"));
    let refused = redisson.answer(PATIENCE).unwrap_err();
    assert!(refused.contains("NoSyncedSlaves"), "{refused}");
    redisson.run(&format!("lock lax t1 {LOCK}"));
    assert_eq!(replicated.server(0).cli(&["exists", LOCK]), "1");
    assert_eq!(replicated.server(1).cli(&["exists", LOCK]), "0");
}
