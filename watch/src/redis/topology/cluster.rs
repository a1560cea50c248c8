//! The layout of a cluster: the slot of a key, and the server of each slot.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::{Announced, map_field};
use crate::command;
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::Unknown;

/// Number of slots of a cluster.
pub const SLOTS: u16 = 16_384;
/// Maximum number of servers of one cluster. A larger layout is refused, to bound memory.
const NODES_MAX: usize = 1_000;
/// Placeholder for a host name that was not configured, or that other servers have not learned yet.
const NO_HOST_NAME: &[u8] = b"?";

/// The slot of a key. If the key has a hash tag, only the tag counts: the text between the first
/// `{` and the next `}`, unless it is empty.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let (_, rest) = split_at_byte(key, b'{')?;
    let (tag, _) = split_at_byte(rest, b'}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The parts before and after the first `byte`.
fn split_at_byte(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|found| *found == byte)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// CRC-16/XMODEM: polynomial 0x1021, start 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// The commands that read the layout. `shards`: the server has `CLUSTER SHARDS` (Redis 7.0), which
/// also reports failed servers. The second command reads whether the cluster serves: see
/// [`serves`].
pub fn commands(shards: bool) -> Vec<Command> {
    vec![command!("CLUSTER", if shards { "SHARDS" } else { "SLOTS" }), command!("CLUSTER", "INFO")]
}

/// Whether the cluster serves according to the server that gave this reply to `CLUSTER INFO`. A
/// server that has forgotten the others, or sees too few of the masters, reports that it does not.
pub fn serves(state: &Reply) -> bool {
    let lines = state.as_bytes().unwrap_or_default().split(|byte| *byte == b'\n');
    lines.map(<[u8]>::trim_ascii).any(|line| line == b"cluster_state:ok")
}

/// Decodes the replies to [`commands`] of a server at `asked_at_host`. A server that does not know
/// its own host gets this one.
///
/// # Errors
/// Returns why there is no usable layout.
pub fn decode(replies: &[Reply], asked_at_host: &str) -> Result<SlotMap, Unknown> {
    let entries = match replies {
        [Reply::Array(entries)] => entries,
        [Reply::Error(error)] => return Err(error.into()),
        _ => return Err(Unknown::Protocol),
    };
    let mut map = SlotMap::default();
    for entry in entries {
        let entry = entry.as_array().ok_or(Unknown::Protocol)?;
        match entry.first() {
            Some(Reply::Int(_)) => map.add_range_entry(entry, asked_at_host)?,
            Some(Reply::Bytes(_)) => map.add_shard(entry, asked_at_host)?,
            _ => return Err(Unknown::Protocol),
        }
        if map.nodes.len() > NODES_MAX {
            return Err(Unknown::TooLarge);
        }
    }
    Ok(map)
}

/// The servers of each slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// By first slot. Ranges do not overlap.
    ranges: BTreeMap<u16, Range>,
    nodes: BTreeSet<Announced>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    last: u16,
    master: Announced,
    /// The master and its replicas.
    servers: BTreeSet<Announced>,
}

impl SlotMap {
    /// The master that serves a slot; `None`: no reachable master does.
    pub fn owner(&self, slot: u16) -> Option<&Announced> {
        let (_, range) = self.ranges.range(..=slot).next_back()?;
        (slot <= range.last).then_some(&range.master)
    }

    /// The servers with the data of a slot, including its master, sorted; empty when no master
    /// serves the slot.
    pub fn servers(&self, slot: u16) -> impl Iterator<Item = &Announced> {
        let range = self.ranges.range(..=slot).next_back().filter(|(_, range)| slot <= range.last);
        range.into_iter().flat_map(|(_, range)| &range.servers)
    }

    /// The masters that serve slots, sorted.
    pub fn masters(&self) -> Vec<Announced> {
        let masters: BTreeSet<&Announced> =
            self.ranges.values().map(|range| &range.master).collect();
        masters.into_iter().cloned().collect()
    }

    /// All servers, whatever their role and health, sorted.
    pub fn nodes(&self) -> Vec<Announced> {
        self.nodes.iter().cloned().collect()
    }

    /// Whether the same masters serve the same slots as in the other layout, regardless of
    /// replicas.
    pub fn same_owners(&self, other: &SlotMap) -> bool {
        self.stretches().eq(other.stretches())
    }

    /// First slot, last slot and master of each maximal range that one master serves, in order.
    fn stretches(&self) -> impl Iterator<Item = (u16, u16, &Announced)> {
        let mut ranges = self.ranges.iter().peekable();
        core::iter::from_fn(move || {
            let (first, range) = ranges.next()?;
            let mut last = range.last;
            while let Some((_, next)) = ranges.next_if(|(first, next)| {
                **first == last.saturating_add(1) && next.master == range.master
            }) {
                last = next.last;
            }
            Some((*first, last, &range.master))
        })
    }

    /// Number of slots without an owner.
    pub fn uncovered(&self) -> u32 {
        let covered: u32 =
            self.ranges.iter().map(|(first, range)| u32::from(range.last - first) + 1).sum();
        u32::from(SLOTS) - covered
    }

    /// Adds an entry of `CLUSTER SLOTS`: first and last slot, the master, its replicas. A server is
    /// a list of host, port, id and more.
    fn add_range_entry(&mut self, entry: &[Reply], asked_at_host: &str) -> Result<(), Unknown> {
        let [first, last, servers @ ..] = entry else { return Err(Unknown::Protocol) };
        let mut announced = Vec::new();
        for server in servers {
            let [host, port, ..] = server.as_array().ok_or(Unknown::Protocol)? else {
                return Err(Unknown::Protocol);
            };
            announced.push(announced_at(host, port, asked_at_host));
        }
        let servers: BTreeSet<Announced> = announced.iter().flatten().cloned().collect();
        self.nodes.extend(servers.iter().cloned());
        let master = announced.into_iter().next().ok_or(Unknown::Protocol)?;
        self.add_range(first, last, master.as_ref(), &servers)
    }

    /// Adds an entry of `CLUSTER SHARDS`: a map of slots (pairs of first and last) and of nodes,
    /// each again a map.
    fn add_shard(&mut self, shard: &[Reply], asked_at_host: &str) -> Result<(), Unknown> {
        let list = |name| map_field(shard, name).and_then(Reply::as_array).ok_or(Unknown::Protocol);
        let (mut serving, mut servers) = (BTreeSet::new(), BTreeSet::new());
        for node in list("nodes")? {
            let node = node.as_array().ok_or(Unknown::Protocol)?;
            let word =
                |name| map_field(node, name).and_then(Reply::as_bytes).ok_or(Unknown::Protocol);
            let serves = word("role")? == b"master" && word("health")? == b"online";
            // A server that prefers host names but has none reports its address in another field.
            let endpoint =
                map_field(node, "endpoint").filter(|host| host.as_bytes() != Some(NO_HOST_NAME));
            let host = endpoint.or_else(|| map_field(node, "ip")).ok_or(Unknown::Protocol)?;
            // A server with TLS only has no other port.
            let port = map_field(node, "port").unwrap_or(&Reply::Nil);
            if let Some(server) = announced_at(host, port, asked_at_host) {
                serving.extend(serves.then(|| server.clone()));
                servers.insert(server.clone());
                self.nodes.insert(server);
            }
        }
        let slots = list("slots")?;
        if slots.len() % 2 != 0 {
            return Err(Unknown::Protocol);
        }
        // Two masters of the same slots contradict each other, so neither counts.
        let master = if serving.len() == 1 { serving.first() } else { None };
        slots.chunks_exact(2).try_for_each(|range| match range {
            [first, last] => self.add_range(first, last, master, &servers),
            _ => Err(Unknown::Protocol),
        })
    }

    /// Adds a range of slots. `None`: no master serves it.
    fn add_range(
        &mut self,
        first: &Reply,
        last: &Reply,
        master: Option<&Announced>,
        servers: &BTreeSet<Announced>,
    ) -> Result<(), Unknown> {
        let slot = |reply: &Reply| match reply {
            Reply::Int(slot) => {
                u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS).ok_or(Unknown::Protocol)
            }
            _ => Err(Unknown::Protocol),
        };
        let (first, last) = (slot(first)?, slot(last)?);
        let overlaps =
            self.ranges.range(..=last).next_back().is_some_and(|(_, before)| before.last >= first);
        if first > last || overlaps {
            return Err(Unknown::Protocol);
        }
        if let Some(master) = master {
            self.ranges
                .insert(first, Range { last, master: master.clone(), servers: servers.clone() });
        }
        Ok(())
    }
}

/// The address of a server; `None` if it has no usable one.
fn announced_at(host: &Reply, port: &Reply, asked_at_host: &str) -> Option<Announced> {
    let unnamed = *host == Reply::Nil || host.as_bytes().is_some_and(<[u8]>::is_empty);
    if unnamed {
        return Announced::new(asked_at_host, u16::try_from(port.as_int()?).ok()?);
    }
    Announced::from_replies(host, port)
}

#[cfg(test)]
mod tests;
