//! What Sentinels and the servers of a cluster say of others.

use std::collections::{BTreeMap, BTreeSet};

use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::topology::cluster::{SLOTS, slot};

use crate::plan::address;
use crate::replies::error;
use crate::server::Health;
use crate::world::World;

/// The answer of a Sentinel to one command.
pub(crate) fn sentinel(sentinel: usize, command: &Command, world: &World) -> Reply {
    let word = |position: usize| command.args.get(position).map(Vec::as_slice).unwrap_or_default();
    match (word(0), word(1)) {
        (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME") => {
            let (host, port) = named(world.sentinels[sentinel].names);
            Reply::Array(vec![host, port])
        }
        (b"SENTINEL", b"REPLICAS") => replicas(world.sentinels[sentinel].names, world),
        (b"SUBSCRIBE", _) => Reply::Array(vec![text("subscribe")]),
        (b"ROLE", _) => Reply::Array(vec![text("sentinel")]),
        (b"CLIENT", _) => text("OK"),
        (b"INFO", b"server") => text("redis_version:7.0.15\r\nredis_mode:sentinel\r\n"),
        (b"INFO", _) => text(""),
        _ => error("ERR", "unknown command"),
    }
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

/// Host and port of a server.
fn named(server: usize) -> (Reply, Reply) {
    let address = address(server);
    let (host, port) = address.split_once(':').map_or(("", ""), |pair| pair);
    (text(host), text(port))
}

/// The list of a Sentinel that names this master.
fn replicas(names: usize, world: &World) -> Reply {
    let others = (0..world.servers.len()).filter(|server| *server != names);
    let replicas = others.map(|server| {
        let (ip, port) = named(server);
        let flags = (text("flags"), text("slave"));
        let fields = [(text("name"), text("x")), (text("ip"), ip), (text("port"), port), flags];
        Reply::Array(fields.into_iter().flat_map(|(name, value)| [name, value]).collect())
    });
    Reply::Array(replicas.collect())
}

/// The answer of a server to `CLUSTER …`.
pub(crate) fn cluster(server: usize, what: &[u8], world: &World) -> Reply {
    match what {
        b"INFO" => {
            let state = if world.servers[server].alone { "fail" } else { "ok" };
            text(&format!("cluster_state:{state}\r\n"))
        }
        b"SHARDS" if !world.servers[server].has_pexpiretime => error("ERR", "unknown subcommand"),
        _ => layout(server, world),
    }
}

/// The layout as a server knows it: `CLUSTER SHARDS` if available, which also reports failed
/// servers, otherwise `CLUSTER SLOTS`.
fn layout(server: usize, world: &World) -> Reply {
    let known = &world.layouts[server];
    // Keys of tasks may have moved one by one. Their slots, and where a shard begins, are where the
    // owner may change.
    let mut moved = BTreeMap::new();
    for (task, (home, at)) in world.tasks.iter().zip(known.homes.iter().zip(&known.part_homes)) {
        task.keys.parts().for_each(|key| _ = moved.insert(slot(key), *at));
        moved.insert(slot(&task.keys.lock), *home);
    }
    let shards = u32::try_from(known.shards.len()).unwrap_or(1);
    let begin = |shard: u32| u16::try_from((shard * u32::from(SLOTS)).div_ceil(shards)).ok();
    let mut borders: BTreeSet<u16> = (0..shards).filter_map(begin).collect();
    borders.extend(moved.keys().flat_map(|slot| [*slot, slot + 1]).filter(|slot| *slot < SLOTS));
    let ends = borders.iter().skip(1).copied().chain([SLOTS]);
    let mut ranges: Vec<(i64, i64, usize)> = Vec::new();
    for (from, end) in borders.iter().zip(ends) {
        let owner = moved.get(from).copied();
        let owner = owner.unwrap_or_else(|| known.shards[world.first_shard(*from)]);
        let (from, last) = (i64::from(*from), i64::from(end) - 1);
        match ranges.last_mut() {
            Some((_, before, same)) if *same == owner => *before = last,
            _ => ranges.push((from, last, owner)),
        }
    }
    let host = |server: usize| text(address(server).split_once(':').map_or("", |(host, _)| host));
    // The master of each shard first.
    let members = |master: usize| {
        let same = move |other: &usize| {
            *other != master && world.shard_of(*other) == world.shard_of(master)
        };
        [master].into_iter().chain((0..world.servers.len()).filter(same))
    };
    if !world.servers[server].has_pexpiretime {
        let shown = |(first, last, owner): (i64, i64, usize)| {
            let servers = members(owner)
                .map(|server| Reply::Array(vec![host(server), Reply::Int(6_379), text("id")]));
            Reply::Array([Reply::Int(first), Reply::Int(last)].into_iter().chain(servers).collect())
        };
        return Reply::Array(ranges.into_iter().map(shown).collect());
    }
    let node = |server: usize, is_master: bool| {
        let health = if world.servers[server].health == Health::Down { "fail" } else { "online" };
        let node = vec![
            (text("id"), text("id")),
            (text("port"), Reply::Int(6_379)),
            (text("endpoint"), host(server)),
            (text("role"), text(if is_master { "master" } else { "replica" })),
            (text("health"), text(health)),
        ];
        Reply::Array(node.into_iter().flat_map(|(name, value)| [name, value]).collect())
    };
    let shard = |master: &usize| {
        let own = ranges.iter().filter(|(_, _, owner)| owner == master);
        let slots =
            own.flat_map(|(first, last, _)| [Reply::Int(*first), Reply::Int(*last)]).collect();
        let nodes = members(*master).map(|server| node(server, server == *master)).collect();
        Reply::Array(vec![text("slots"), Reply::Array(slots), text("nodes"), Reply::Array(nodes)])
    };
    Reply::Array(known.shards.iter().map(shard).collect())
}
