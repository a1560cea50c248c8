//! Plain replication: offsets and replication ids after a promotion or a restart.

use crate::support::PATIENCE;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::network::Options;
use crate::support::redis::{Keep, RedisServer};
use crate::support::replicas::Replicated;
use crate::support::sentinels::says_master;
use crate::support::wait_until;

const PACE: Duration = Duration::from_millis(1);

fn start(test: &str, replicas: usize) -> Option<Replicated> {
    Replicated::start(&format!("topologies::replicas::{test}"), replicas, &Options::default())
}

fn offset(server: &RedisServer, field: &str) -> u64 {
    server.info(field).unwrap().parse().unwrap()
}

/// A pipeline that reads all keys and then the offset, as lockwatch does.
struct Observer {
    stream: BufReader<TcpStream>,
}

impl Observer {
    fn connect(server: &RedisServer) -> Observer {
        Observer { stream: BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap()) }
    }

    fn look(&mut self, keys: &[String]) -> (Vec<bool>, u64) {
        let mut batch: String = keys.iter().map(|key| format!("EXISTS {key}\r\n")).collect();
        batch.push_str("ROLE\r\n");
        self.stream.get_mut().write_all(batch.as_bytes()).unwrap();
        let seen = keys.iter().map(|_| self.line() == ":1").collect();
        let role: Vec<String> = (0..5).map(|_| self.line()).collect();
        let [_, _, _, offset, replicas] = role.as_slice() else { unreachable!() };
        let count: usize = replicas.strip_prefix('*').unwrap().parse().unwrap();
        // Each reply is an array of three: address, port, offset.
        (0..count * 7).for_each(|_| drop(self.line()));
        (seen, offset.strip_prefix(':').unwrap().parse().unwrap())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

struct Writer {
    stream: BufReader<TcpStream>,
}

impl Writer {
    fn connect(server: &RedisServer) -> Writer {
        Writer { stream: BufReader::new(TcpStream::connect(("127.0.0.1", server.port)).unwrap()) }
    }

    /// Takes a lock, slowly enough for the replica to follow.
    fn write(&mut self, key: &str) {
        self.stream.get_mut().write_all(format!("SET {key} one PX 60000\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.stream.read_line(&mut reply).unwrap();
        assert_eq!(reply, "+OK\r\n");
        std::thread::sleep(PACE);
    }
}

/// The rule that separates lost from kept: a key that was seen in a batch at offset `o`, and not
/// yet in the previous one at `p`, was written in (p, o]. A promoted replica has exactly the bytes
/// before its `second_repl_offset`.
#[test]
fn offsets_tell_which_writes_a_promoted_replica_has() {
    let Some(replicated) = start("offsets_tell_which_writes_a_promoted_replica_has", 1) else {
        return;
    };
    let keys: Vec<String> = (0..400).map(|number| format!("lock:{number}")).collect();
    let (early, late) = keys.split_at(keys.len() / 2);
    let begin = offset(replicated.server(1), "slave_repl_offset");
    let mut observer = Observer::connect(replicated.server(0));
    let (_, mut before) = observer.look(&keys);
    let mut written = BTreeMap::new();
    let is_cut = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::connect(replicated.server(0));
            early.iter().for_each(|key| writer.write(key));
            wait_until(PATIENCE, "the link is cut", || is_cut.load(Ordering::SeqCst));
            late.iter().for_each(|key| writer.write(key));
        });
        while written.len() < keys.len() {
            // Among the early ones: some were applied, some may be in flight.
            if !is_cut.load(Ordering::SeqCst)
                && offset(replicated.server(1), "slave_repl_offset") > begin + 200
            {
                replicated.cut(0, 1);
                is_cut.store(true, Ordering::SeqCst);
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
    let Some(replicated) = start("a_promoted_replica_has_exactly_what_it_applied", 1) else {
        return;
    };
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
    assert_eq!(
        (master.cli(&["exists", "lock"]), replica.cli(&["exists", "lock"])),
        ("1".into(), "0".into())
    );

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
    let Some(mut replicated) = start("a_restart_keeps_what_was_saved_and_says_up_to_where", 1)
    else {
        return;
    };
    let master = replicated.server(0);
    master.cli(&["set", "saved", "1"]);
    master.save();
    let (saved, id) = (offset(master, "master_repl_offset"), master.info("master_replid"));
    master.cli(&["set", "not-saved", "1"]);
    replicated.members[0].server.restart(Keep::Files);
    let master = replicated.server(0);
    assert_eq!(master.cli(&["exists", "saved", "not-saved"]), "1");
    assert_eq!(
        (offset(master, "second_repl_offset"), master.info("master_replid2")),
        (saved + 1, id)
    );

    replicated.members[0].server.restart(Keep::Nothing);
    let master = replicated.server(0);
    assert_eq!(
        (offset(master, "master_repl_offset"), master.info("second_repl_offset")),
        (0, Some("-1".to_owned()))
    );
    assert_eq!(master.cli(&["dbsize"]), "0");
}

/// Without replicas there is no replication stream, so offsets prove nothing.
#[test]
fn the_offset_of_a_single_server_stands_still() {
    let Some(server) =
        RedisServer::start("topologies::replicas::the_offset_of_a_single_server_stands_still")
    else {
        return;
    };
    server.cli(&["set", "lock", "one"]);
    assert_eq!(offset(&server, "master_repl_offset"), 0);
}
