use alloc::format;
use alloc::string::{String, ToString};

use super::*;
use crate::redis::reply::ServerError;

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn list(items: &[Reply]) -> Reply {
    Reply::Array(items.to_vec())
}

/// A server of `CLUSTER SLOTS`.
fn server(host: Reply, port: i64) -> Reply {
    list(&[host, Reply::Int(port), text("0f926bd5"), list(&[text("ip"), text("10.9.9.9")])])
}

fn range(first: i64, last: i64, servers: &[Reply]) -> Reply {
    let mut entry = vec![Reply::Int(first), Reply::Int(last)];
    entry.extend_from_slice(servers);
    Reply::Array(entry)
}

/// A node of `CLUSTER SHARDS`.
fn node(endpoint: Reply, port: i64, role: &str, health: &str) -> Reply {
    let mut fields = vec![
        text("id"),
        text("0f926bd5"),
        text("port"),
        Reply::Int(port),
        text("ip"),
        text("10.9.9.9"),
    ];
    fields.extend([text("endpoint"), endpoint, text("role"), text(role)]);
    fields.extend([text("replication-offset"), Reply::Int(7), text("health"), text(health)]);
    Reply::Array(fields)
}

fn shard(slots: &[i64], nodes: &[Reply]) -> Reply {
    let slots: Vec<Reply> = slots.iter().map(|slot| Reply::Int(*slot)).collect();
    list(&[text("slots"), list(&slots), text("nodes"), list(nodes)])
}

/// Ranges with owners, all nodes, and the number of slots without an owner.
fn shown(map: &SlotMap) -> (String, String, u32) {
    let mut ranges: Vec<String> = Vec::new();
    let mut before = None;
    for slot in 0..SLOTS {
        let owner = map.owner(slot);
        if owner != before {
            ranges
                .extend(owner.map(|owner| format!("{slot}={owner}")).or(Some(format!("{slot}="))));
        }
        before = owner;
    }
    let nodes: Vec<String> = map.nodes().iter().map(ToString::to_string).collect();
    (ranges.join(" "), nodes.join(" "), map.uncovered())
}

#[test]
fn keys_fall_into_the_slots_that_redis_says() {
    // From CLUSTER KEYSLOT of Redis 7.0.
    let table: &[(&[u8], u16)] = &[
        (b"", 0),
        (b"123456789", 12_739),
        (b"foo", 12_182),
        (b"{foo}bar", 12_182),
        (b"bar{foo}", 12_182),
        (b"a{foo}b{bar}", 12_182),
        (b"foo{}{bar}", 8_363),
        (b"foo{{bar}}zap", 4_015),
        (b"foo{bar", 15_278),
        (b"foo}bar{", 11_073),
        (b"outbound:lock", 11_029),
        (b"\x00\xff\x80", 4_727),
    ];
    for (key, wanted) in table {
        assert_eq!(slot(key), *wanted, "{}", String::from_utf8_lossy(key));
    }
}

#[test]
fn asks_what_the_server_has() {
    assert_eq!(commands(true), [command!("CLUSTER", "SHARDS"), command!("CLUSTER", "INFO")]);
    assert_eq!(commands(false), [command!("CLUSTER", "SLOTS"), command!("CLUSTER", "INFO")]);
}

#[test]
fn only_a_server_that_says_so_serves() {
    let refused = Reply::Error(ServerError { code: b"NOPERM".to_vec(), detail: vec![] });
    let table = [
        (text("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"), true),
        (text("cluster_slots_fail:0\r\ncluster_state:ok\r\n"), true),
        (text("cluster_state:fail\r\ncluster_slots_assigned:16384\r\n"), false),
        (text("not_cluster_state:ok\r\n"), false),
        (text(""), false),
        (Reply::Nil, false),
        (refused, false),
    ];
    for (reply, wanted) in table {
        assert_eq!(serves(&reply), wanted, "{reply:?}");
    }
}

#[test]
fn owners_are_compared_whoever_follows_and_however_ranges_are_cut() {
    let map = |entries: &[Reply]| decode(&[list(entries)], "asked").unwrap();
    let (a, b) = (server(text("a"), 1), server(text("b"), 1));
    let one =
        map(&[range(0, 9, core::slice::from_ref(&a)), range(10, 20, core::slice::from_ref(&b))]);
    let same = map(&[
        range(0, 4, core::slice::from_ref(&a)),
        range(5, 9, &[a.clone(), b.clone()]),
        range(10, 20, core::slice::from_ref(&b)),
    ]);
    assert!(one.same_owners(&same) && same.same_owners(&one) && one != same);
    let others = [
        vec![range(0, 10, core::slice::from_ref(&a)), range(11, 20, core::slice::from_ref(&b))],
        vec![range(0, 9, core::slice::from_ref(&a)), range(11, 20, core::slice::from_ref(&b))],
        vec![range(0, 9, core::slice::from_ref(&b)), range(10, 20, &[b])],
        vec![range(0, 9, &[a])],
        vec![],
    ];
    for entries in others {
        assert!(
            !one.same_owners(&map(&entries)) && !map(&entries).same_owners(&one),
            "{entries:?}"
        );
    }
}

#[test]
fn a_slot_has_its_master_and_whoever_follows_it() {
    let entries = [
        range(5, 9, &[server(text("b"), 1), server(text("a"), 2)]),
        range(20, 20, &[server(text("c"), 3)]),
    ];
    let map = decode(&[list(&entries)], "asked").unwrap();
    let servers = |slot| map.servers(slot).map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let found = [4, 5, 9, 10, 19, 20, 21].map(servers);
    assert_eq!(found, ["", "a:2 b:1", "a:2 b:1", "", "", "c:3", ""]);
}

#[test]
fn reads_both_forms() {
    let (a, b) = (text("10.0.0.1"), text("10.0.0.2"));
    let master = |host: &Reply| node(host.clone(), 1, "master", "online");
    let replica = |host: &Reply| node(host.clone(), 2, "replica", "online");
    let everything = [0, 16_383];
    let table = [
        ("no slots yet", vec![], ("", "", 16_384)),
        (
            "slots",
            vec![
                range(0, 5_000, &[server(a.clone(), 1), server(b.clone(), 2)]),
                range(5_001, 16_383, &[server(b.clone(), 1)]),
            ],
            ("0=10.0.0.1:1 5001=10.0.0.2:1", "10.0.0.1:1 10.0.0.2:1 10.0.0.2:2", 0),
        ),
        (
            "slots of a server that does not know its host, and one that it does not know",
            vec![
                range(0, 0, &[server(Reply::Nil, 1)]),
                range(1, 1, &[server(text(""), 2)]),
                range(2, 2, &[server(text("?"), 3), server(a.clone(), 4)]),
            ],
            ("0=asked:1 1=asked:2 2=", "10.0.0.1:4 asked:1 asked:2", 16_382),
        ),
        (
            "shards",
            vec![
                shard(&[5_001, 16_383], &[replica(&a), master(&b)]),
                shard(&[0, 100, 200, 5_000], &[master(&a), replica(&b)]),
            ],
            (
                "0=10.0.0.1:1 101= 200=10.0.0.1:1 5001=10.0.0.2:1",
                "10.0.0.1:1 10.0.0.1:2 10.0.0.2:1 10.0.0.2:2",
                99,
            ),
        ),
        (
            "a shard whose master failed",
            vec![shard(&everything, &[node(a.clone(), 1, "master", "fail"), replica(&b)])],
            ("", "10.0.0.1:1 10.0.0.2:2", 16_384),
        ),
        (
            "the failed one is still there after the failover",
            vec![shard(&everything, &[node(a.clone(), 1, "master", "fail"), master(&b)])],
            ("0=10.0.0.2:1", "10.0.0.1:1 10.0.0.2:1", 0),
        ),
        (
            "a master that loads, and two that contradict each other",
            vec![
                shard(&[0, 0], &[node(a.clone(), 1, "master", "loading")]),
                shard(&[1, 1], &[master(&a), master(&b)]),
            ],
            ("", "10.0.0.1:1 10.0.0.2:1", 16_384),
        ),
        ("a new master without slots", vec![shard(&[], &[master(&a)])], ("", "10.0.0.1:1", 16_384)),
        (
            "a shard by itself, and one whose host name is not known",
            vec![shard(&everything, &[master(&text("")), replica(&text("?"))])],
            ("0=asked:1", "10.9.9.9:2 asked:1", 0),
        ),
        (
            "host names are preferred, and nobody has one",
            vec![
                shard(&[0, 9], &[master(&text("?"))]),
                shard(&[10, 16_383], &[replica(&text("?")), master(&a)]),
            ],
            ("0=10.9.9.9:1 10=10.0.0.1:1", "10.0.0.1:1 10.9.9.9:1 10.9.9.9:2", 0),
        ),
        (
            "unusable addresses are left out",
            vec![shard(
                &everything,
                &[
                    node(a.clone(), 0, "master", "online"),
                    node(a.clone(), -1, "replica", "online"),
                    node(a.clone(), 65_536, "replica", "online"),
                    node(text("evil\r\n"), 1, "replica", "online"),
                    node(Reply::Bytes(b"\xff".to_vec()), 1, "replica", "online"),
                    node(Reply::Int(7), 1, "replica", "online"),
                    node(list(core::slice::from_ref(&a)), 1, "replica", "online"),
                ],
            )],
            ("", "", 16_384),
        ),
    ];
    for (what, entries, (ranges, nodes, uncovered)) in table {
        let map = decode(&[Reply::Array(entries)], "asked").expect(what);
        assert_eq!(shown(&map), (ranges.to_string(), nodes.to_string(), uncovered), "{what}");
    }
}

#[test]
fn masters_are_those_that_serve() {
    let entries = [
        shard(&[9, 9], &[node(text("b"), 1, "master", "online")]),
        shard(&[3, 3, 5, 5], &[node(text("a"), 1, "master", "online")]),
        shard(&[], &[node(text("c"), 1, "master", "online")]),
    ];
    let map = decode(&[list(&entries)], "asked").unwrap();
    assert_eq!(map.masters().iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "b:1"]);
    assert_eq!((map.owner(SLOTS), map.owner(u16::MAX)), (None, None));
}

#[test]
fn refuses_what_is_no_layout() {
    let error =
        |code: &str| Reply::Error(ServerError { code: code.as_bytes().to_vec(), detail: vec![] });
    let one = |entry: Reply| vec![list(&[entry])];
    let good = [server(text("a"), 1)];
    let master = node(text("a"), 1, "master", "online");
    let many: Vec<Reply> =
        (1..=1_001).map(|port| node(text("a"), port, "replica", "online")).collect();
    let table = [
        ("down", vec![error("CLUSTERDOWN")], Unknown::ClusterDown),
        ("cluster support disabled", vec![error("ERR")], Unknown::ServerError),
        ("no permission", vec![error("NOPERM")], Unknown::NoPermission),
        ("no reply", vec![], Unknown::Protocol),
        ("two replies", vec![list(&[]), list(&[])], Unknown::Protocol),
        ("nil", vec![Reply::Nil], Unknown::Protocol),
        ("an empty entry", one(list(&[])), Unknown::Protocol),
        ("deep", vec![(0..50).fold(Reply::Nil, |inner, _| list(&[inner]))], Unknown::Protocol),
        ("text", one(text("slots")), Unknown::Protocol),
        ("a range without master", one(range(0, 1, &[])), Unknown::Protocol),
        ("a range without end", one(list(&[Reply::Int(0)])), Unknown::Protocol),
        ("backwards", one(range(2, 1, &good)), Unknown::Protocol),
        ("negative", one(range(-1, 1, &good)), Unknown::Protocol),
        ("beyond the last", one(range(0, 16_384, &good)), Unknown::Protocol),
        ("a server without port", one(range(0, 1, &[list(&[text("a")])])), Unknown::Protocol),
        ("a server is text", one(range(0, 1, &[text("a:1")])), Unknown::Protocol),
        (
            "claimed twice",
            vec![list(&[range(0, 9, &good), range(9, 12, &good)])],
            Unknown::Protocol,
        ),
        (
            "one inside another",
            vec![list(&[range(0, 9, &good), range(3, 4, &good)])],
            Unknown::Protocol,
        ),
        (
            "one around another",
            vec![list(&[range(3, 4, &good), range(0, 9, &good)])],
            Unknown::Protocol,
        ),
        ("a shard without nodes", one(list(&[text("slots"), list(&[])])), Unknown::Protocol),
        ("a shard without slots", one(list(&[text("nodes"), list(&[])])), Unknown::Protocol),
        (
            "an odd number of slots",
            one(shard(&[0, 1, 2], core::slice::from_ref(&master))),
            Unknown::Protocol,
        ),
        (
            "a node without role",
            one(shard(&[0, 1], &[list(&[text("port"), Reply::Int(1)])])),
            Unknown::Protocol,
        ),
        ("a node is a number", one(shard(&[0, 1], &[Reply::Int(1)])), Unknown::Protocol),
        ("too many nodes", one(shard(&[], &many)), Unknown::TooLarge),
    ];
    for (what, replies, wanted) in table {
        assert_eq!(decode(&replies, "asked"), Err(wanted), "{what}");
    }
}
