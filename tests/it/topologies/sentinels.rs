//! Sentinel: which server is master after which fault, and which data are lost.

use crate::support::PATIENCE;
use std::time::{Duration, Instant};

use crate::support::network::Options;
use crate::support::redis::{Keep, RedisServer, answers};
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels, says_master};
use crate::support::wait_until;

/// Minimum time for which two masters must be seen: Sentinel does not demote a returning master
/// earlier.
const BOTH: Duration = Duration::from_secs(3);
const LOCK: &str = "outbound:lock";

fn start(test: &str, options: &SentinelOptions) -> Option<Sentinels> {
    Sentinels::start(&format!("topologies::sentinels::{test}"), options)
}

fn lock(server: &RedisServer, holder: &str) -> String {
    server.cli(&["set", LOCK, holder, "px", "60000"])
}

/// The old master is demoted only seconds later: until then its clients write to a stale master.
#[test]
fn an_orderly_failover_leaves_two_masters_for_seconds() {
    let test = "an_orderly_failover_leaves_two_masters_for_seconds";
    let Some(sentinels) = start(test, &SentinelOptions::default()) else { return };
    assert_eq!(sentinels.master(), Some(0));
    let new = sentinels.failover();
    let switched = Instant::now();
    assert_ne!(new, 0);
    assert_eq!(lock(sentinels.server(0), "old"), "OK");
    assert_eq!(lock(sentinels.server(new), "new"), "OK");
    while switched.elapsed() < BOTH {
        assert!(says_master(sentinels.server(0)) && says_master(sentinels.server(new)));
    }
    sentinels.wait_follows(0);
    sentinels.wait_settled();
    assert_eq!(sentinels.server(0).cli(&["get", LOCK]), "new");

    // A second failover back and forth: the set still works.
    let third = sentinels.failover();
    assert_ne!(third, new);
    assert_eq!(sentinels.server(third).cli(&["get", LOCK]), "new");
}

#[test]
fn a_killed_master_is_replaced_and_follows_when_it_is_back() {
    let test = "a_killed_master_is_replaced_and_follows_when_it_is_back";
    let Some(mut sentinels) = start(test, &SentinelOptions::default()) else { return };
    lock(sentinels.server(0), "one");
    sentinels.wait_settled();
    sentinels.server_mut(0).kill();
    let new = sentinels.wait_switched(0);
    assert_eq!(sentinels.server(new).cli(&["get", LOCK]), "one");

    // The restarted server does not know of the failover, and is empty.
    sentinels.server_mut(0).restart(Keep::Files);
    assert!(says_master(sentinels.server(0)));
    assert_eq!(sentinels.server(0).cli(&["exists", LOCK]), "0");
    sentinels.wait_follows(0);

    // Sentinel made it rewrite its configuration: from now on it starts as a replica.
    sentinels.server_mut(0).restart(Keep::Files);
    assert!(!says_master(sentinels.server(0)));
    sentinels.wait_settled();
}

#[test]
fn a_frozen_master_is_replaced_and_says_master_when_it_thaws() {
    let test = "a_frozen_master_is_replaced_and_says_master_when_it_thaws";
    let Some(sentinels) = start(test, &SentinelOptions::default()) else { return };
    lock(sentinels.server(0), "one");
    sentinels.wait_settled();
    sentinels.server(0).pause();
    let new = sentinels.wait_switched(0);
    assert_eq!(lock(sentinels.server(new), "two"), "OK");
    sentinels.server(0).go_on();
    let thawed = Instant::now();
    while thawed.elapsed() < BOTH {
        assert!(says_master(sentinels.server(0)) && says_master(sentinels.server(new)));
        assert_eq!(sentinels.server(0).cli(&["get", LOCK]), "one");
    }
    sentinels.wait_follows(0);
    assert_eq!(sentinels.server(0).cli(&["get", LOCK]), "two");
}

/// An acknowledged lock is missing after the failover, and the offsets prove it.
#[test]
fn a_lossy_failover_loses_the_lock() {
    let Some(mut sentinels) = start("a_lossy_failover_loses_the_lock", &SentinelOptions::default())
    else {
        return;
    };
    sentinels.isolate_server(0);
    assert_eq!(lock(sentinels.server(0), "one"), "OK");
    let acknowledged = offset(sentinels.server(0), "master_repl_offset");
    sentinels.server_mut(0).kill();
    let new = sentinels.wait_switched(0);
    assert_eq!(sentinels.server(new).cli(&["exists", LOCK]), "0");
    assert!(offset(sentinels.server(new), "second_repl_offset") <= acknowledged);
    sentinels.heal();
    assert_eq!(sentinels.server(new).cli(&["exists", LOCK]), "0");
}

#[test]
fn a_partition_leaves_two_masters_with_different_holders() {
    let test = "a_partition_leaves_two_masters_with_different_holders";
    let Some(sentinels) = start(test, &SentinelOptions::default()) else { return };
    let old_id = sentinels.server(0).info("master_replid");
    sentinels.isolate_server(0);
    let new = sentinels.wait_switched(0);
    let switched = Instant::now();
    while switched.elapsed() < BOTH {
        assert_eq!(
            (lock(sentinels.server(0), "one"), lock(sentinels.server(new), "two")),
            ("OK".into(), "OK".into())
        );
        let holder = |index| sentinels.server(index).cli(&["get", LOCK]);
        assert_eq!((holder(0), holder(new)), ("one".into(), "two".into()));
        assert!(says_master(sentinels.server(0)) && says_master(sentinels.server(new)));
    }
    assert_eq!(sentinels.server(new).info("master_replid2"), old_id);
    assert_eq!(sentinels.server(0).info("master_replid"), old_id);
    sentinels.heal();
    sentinels.wait_follows(0);
    assert_eq!(sentinels.server(0).cli(&["get", LOCK]), "two");
}

#[test]
fn a_master_that_needs_replicas_refuses_writes_in_a_partition() {
    let test = "a_master_that_needs_replicas_refuses_writes_in_a_partition";
    let lines = vec!["min-replicas-to-write 1", "min-replicas-max-lag 2"];
    let servers = Options { lines, ..Options::default() };
    let Some(sentinels) = start(test, &SentinelOptions { servers, ..SentinelOptions::default() })
    else {
        return;
    };
    assert_eq!(lock(sentinels.server(0), "one"), "OK");
    sentinels.isolate_server(0);
    wait_until(PATIENCE, "it refuses", || {
        lock(sentinels.server(0), "one").starts_with("NOREPLICAS")
    });
    assert!(says_master(sentinels.server(0)));
}

#[test]
fn replication_alone_can_be_cut() {
    let Some(sentinels) = start("replication_alone_can_be_cut", &SentinelOptions::default()) else {
        return;
    };
    sentinels.cut_replication(0, 1);
    sentinels.cut_replication(0, 2);
    lock(sentinels.server(0), "one");
    let began = Instant::now();
    while began.elapsed() < BOTH {
        assert_eq!((sentinels.master(), says_master(sentinels.server(0))), (Some(0), true));
        assert_eq!(sentinels.server(1).cli(&["exists", LOCK]), "0");
    }
    sentinels.heal();
    sentinels.wait_settled();
    assert_eq!(sentinels.server(1).cli(&["get", LOCK]), "one");
}

#[test]
fn sentinels_and_servers_may_want_passwords_and_users() {
    let test = "sentinels_and_servers_may_want_passwords_and_users";
    let servers = Options {
        password: Some("one"),
        lines: vec!["user watcher on >three ~* +@read +role"],
        ..Options::default()
    };
    let lines = vec!["user watcher on >four +sentinel|get-master-addr-by-name +ping"];
    let Some(sentinels) = start(test, &SentinelOptions { servers, password: Some("two"), lines })
    else {
        return;
    };
    let as_watcher = |server: &RedisServer, password: &str, rest: &[&str]| {
        server
            .cli(&[&["--no-auth-warning", "--user", "watcher", "--pass", password], rest].concat())
    };
    assert!(as_watcher(sentinels.server(0), "three", &["role"]).starts_with("master"));
    let ask = ["sentinel", "get-master-addr-by-name", MASTER];
    assert!(as_watcher(sentinels.sentinel(0), "four", &ask).starts_with("127.0.0.1"));
    assert!(
        as_watcher(sentinels.sentinel(0), "four", &["sentinel", "failover", MASTER])
            .starts_with("NOPERM")
    );
    assert_ne!(sentinels.failover(), 0);
}

#[test]
fn a_sentinel_may_lie_or_be_gone() {
    let test = "topologies::sentinels::a_sentinel_may_lie_or_be_gone";
    let (Some(mut sentinels), Some(other)) =
        (start("lie", &SentinelOptions::default()), RedisServer::start(test))
    else {
        return;
    };
    sentinels.lie(2, other.port);
    assert_eq!((sentinels.master_port_at(2), sentinels.master()), (Some(other.port), Some(0)));
    // The two others suffice for a failover, and do not convince the lying one.
    let new = sentinels.failover();
    assert_ne!(new, 0);
    assert_eq!(sentinels.master_port_at(2), Some(other.port));

    sentinels.sentinel(0).pause();
    assert_eq!(sentinels.master(), None);
    sentinels.sentinel(0).go_on();
    assert_eq!(sentinels.master(), Some(new));
    sentinels.sentinel_mut(2).kill();
    assert_eq!(sentinels.master(), Some(new));
    sentinels.sentinel_mut(0).kill();
    assert_eq!(sentinels.master(), None);
}

#[test]
fn announced_ports_can_be_dead_for_clients() {
    let Some(sentinels) =
        start("announced_ports_can_be_dead_for_clients", &SentinelOptions::default())
    else {
        return;
    };
    let member = &sentinels.members[0];
    assert_eq!(sentinels.master_port_at(0), Some(member.port));
    assert_ne!(member.port, member.server.port);
    assert!(answers(member.port) && answers(member.server.port));
    sentinels.hide_announced();
    assert!(!answers(member.port) && answers(member.server.port));
    // The members still work.
    assert_ne!(sentinels.failover(), 0);
    sentinels.heal();
    assert!(answers(member.port));
}

fn offset(server: &RedisServer, field: &str) -> u64 {
    server.info(field).unwrap().parse().unwrap()
}
