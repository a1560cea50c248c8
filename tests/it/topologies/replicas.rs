//! Plain replication: what offsets and replication ids say after a promotion or a restart.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::support::network::Options;
use crate::support::redis::{Keep, RedisServer};
use crate::support::replicas::Replicated;
use crate::support::sentinels::says_master;

fn start(test: &str, replicas: usize) -> Option<Replicated> {
    Replicated::start(&format!("topologies::replicas::{test}"), replicas, &Options::default())
}

fn offset(server: &RedisServer, field: &str) -> u64 {
    server.info(field).unwrap().parse().unwrap()
}

/// A pipeline of one GET per key and ROLE, as an observer sends it: which keys are there, and the offset.
struct Observer {
    stream: BufReader<TcpStream>,
}

impl Observer {
    fn connect(server: &RedisServer) -> Observer {
        Observer { stream: BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap()) }
    }

    fn look(&mut self, keys: &[String]) -> (Vec<bool>, u64) {
        let mut batch: String = keys.iter().map(|key| format!("EXISTS {key}\r\n")).collect();
        batch.push_str("INFO replication\r\n");
        self.stream.get_mut().write_all(batch.as_bytes()).unwrap();
        let seen = keys.iter().map(|_| self.line() == ":1").collect();
        let mut found = None;
        while found.is_none() {
            found = self.line().strip_prefix("master_repl_offset:").map(|number| number.parse().unwrap());
        }
        while !self.line().starts_with("repl_backlog_histlen") {}
        assert_eq!(self.line(), "");
        (seen, found.unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The rule by which lost is told from kept: a key that was seen in a batch at offset `o`, and not yet in the one before
/// at `p`, was written in (p, o]. A promoted replica has exactly the bytes before its `second_repl_offset`.
#[test]
fn offsets_tell_which_writes_a_promoted_replica_has() {
    let Some(replicated) = start("offsets_tell_which_writes_a_promoted_replica_has", 1) else { return };
    let keys: Vec<String> = (0..400).map(|number| format!("lock:{number}")).collect();
    let mut observer = Observer::connect(replicated.server(0));
    let (_, mut before) = observer.look(&keys);
    let mut written = BTreeMap::new();
    std::thread::scope(|scope| {
        let port = replicated.server(0).port;
        scope.spawn({
            let keys = &keys;
            move || {
                let mut writer = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
                for key in keys {
                    writer.get_mut().write_all(format!("SET {key} one PX 60000\r\n").as_bytes()).unwrap();
                    let mut reply = String::new();
                    writer.read_line(&mut reply).unwrap();
                    assert_eq!(reply, "+OK\r\n");
                }
            }
        });
        while written.len() < keys.len() {
            if written.len() > keys.len() / 2 {
                replicated.cut(0, 1);
            }
            let (seen, now) = observer.look(&keys);
            for (key, _) in keys.iter().zip(&seen).filter(|(_, seen)| **seen) {
                written.entry(key.clone()).or_insert((before, now));
            }
            before = now;
        }
    });
    replicated.promote(1);
    let has = offset(replicated.server(1), "second_repl_offset") - 1;
    let mut kept = 0;
    for (key, (not_before, at_latest)) in written {
        let is_there = replicated.server(1).cli(&["exists", &key]) == "1";
        assert!(
            is_there || at_latest > has,
            "{key} was written by {at_latest}, {has} were applied, but it is not there"
        );
        assert!(
            !is_there || not_before < has,
            "{key} was written after {not_before}, {has} were applied, but it is there"
        );
        kept += usize::from(is_there);
    }
    assert!(0 < kept && kept < keys.len(), "{kept} kept");
}

#[test]
fn a_promoted_replica_has_exactly_what_it_applied() {
    let Some(replicated) = start("a_promoted_replica_has_exactly_what_it_applied", 1) else { return };
    let (master, replica) = (replicated.server(0), replicated.server(1));
    master.cli(&["set", "a", "1"]);
    replicated.wait_in_sync(0);
    replicated.cut(0, 1);
    let applied = offset(replica, "slave_repl_offset");
    assert_eq!(master.cli(&["set", "lock", "one", "px", "60000"]), "OK");
    assert!(offset(master, "master_repl_offset") > applied);
    let old_id = master.info("master_replid");
    replicated.promote(1);
    assert_eq!(offset(replica, "second_repl_offset"), applied + 1);
    assert_eq!(replica.info("master_replid2"), old_id);
    assert_ne!(replica.info("master_replid"), old_id);
    assert!(says_master(master) && says_master(replica));
    assert_eq!((master.cli(&["exists", "lock"]), replica.cli(&["exists", "lock"])), ("1".into(), "0".into()));

    replicated.heal();
    replicated.follow(0, 1);
    replicated.wait_in_sync(1);
    assert_eq!(master.cli(&["exists", "lock"]), "0");
}

#[test]
fn a_hand_over_loses_nothing() {
    let Some(replicated) = start("a_hand_over_loses_nothing", 2) else { return };
    let (master, replica) = (replicated.server(0), replicated.server(1));
    master.cli(&["set", "lock", "one", "px", "60000"]);
    let acknowledged = offset(master, "master_repl_offset");
    replicated.hand_over(0, 1);
    assert!(!says_master(master) && says_master(replica));
    assert!(offset(replica, "second_repl_offset") > acknowledged);
    assert_eq!(replica.cli(&["get", "lock"]), "one");
}

/// A restart with a dump looks like a promotion at the offset of the dump.
#[test]
fn a_restart_keeps_what_was_saved_and_says_up_to_where() {
    let Some(mut replicated) = start("a_restart_keeps_what_was_saved_and_says_up_to_where", 1) else { return };
    let master = replicated.server(0);
    master.cli(&["set", "saved", "1"]);
    master.save();
    let (saved, id) = (offset(master, "master_repl_offset"), master.info("master_replid"));
    master.cli(&["set", "not-saved", "1"]);
    replicated.members[0].server.restart(Keep::Files);
    let master = replicated.server(0);
    assert_eq!(master.cli(&["exists", "saved", "not-saved"]), "1");
    assert_eq!((offset(master, "second_repl_offset"), master.info("master_replid2")), (saved + 1, id));

    replicated.members[0].server.restart(Keep::Nothing);
    let master = replicated.server(0);
    assert_eq!((offset(master, "master_repl_offset"), master.info("second_repl_offset")), (0, Some("-1".to_owned())));
    assert_eq!(master.cli(&["dbsize"]), "0");
}

/// Without replicas there is no replication stream: offsets say nothing there.
#[test]
fn the_offset_of_a_single_server_stands_still() {
    let Some(server) = RedisServer::start("topologies::replicas::the_offset_of_a_single_server_stands_still") else {
        return;
    };
    server.cli(&["set", "lock", "one"]);
    assert_eq!(offset(&server, "master_repl_offset"), 0);
}
