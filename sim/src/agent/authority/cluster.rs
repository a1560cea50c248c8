//! A cluster: each master decides about the keys in its slots. Mirrors
//! `src/sampler/authority/cluster.rs` and the effects of `src/sampler/seeker.rs`. All keys that a
//! task has beside its lock share a slot here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwatch_judge::input::{Role, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::reply::Reply;
use lockwatch_watch::redis::topology::cluster::{self, SLOTS, SlotMap, slot};

use super::{Duty, FORMER_MS, Plan};
use crate::plan::address;
use crate::server::Health;
use crate::world::{Keys, World};

/// Number of intervals between two reads of the layout without a reason to hurry.
const EVERY: u64 = 5;
/// Maximum number of reads of the layout per interval, whatever the reasons to hurry.
const HURRIES: u64 = 10;

/// What is known of the cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    map: Result<SlotMap, Unknown>,
    /// The former servers of a slot, and until when they are read.
    former: BTreeMap<u16, (Vec<usize>, Mono)>,
    /// When the first of them is no longer read.
    former_until: Option<Mono>,
    moved: Vec<(u16, Vec<usize>)>,
    deciding: BTreeSet<usize>,
    /// The slots of each task's lock and of the keys beside it.
    slots: Vec<(u16, u16)>,
    pub(super) hurry: bool,
    pub(super) interval_ms: u64,
    timeout_ms: u64,
}

impl Cluster {
    pub(super) fn new(interval_ms: u64, timeout_ms: u64, world: &World) -> Cluster {
        let slots =
            |keys: &Keys| (slot(&keys.lock), slot(keys.beside().next().unwrap_or(&keys.lock)));
        Cluster {
            map: Err(Unknown::NotReadYet),
            former: BTreeMap::new(),
            former_until: None,
            moved: Vec::new(),
            deciding: BTreeSet::new(),
            slots: world.tasks.iter().map(|task| slots(&task.keys)).collect(),
            hurry: false,
            interval_ms,
            timeout_ms,
        }
    }

    /// Pause before the next request after this answer.
    pub(super) fn pause_ms(&self) -> u64 {
        let calm = self.map.as_ref().is_ok_and(|map| map.uncovered() == 0);
        if calm { self.interval_ms * EVERY } else { self.interval_ms }
    }

    pub(super) fn hurry_ms(&self) -> u64 {
        self.interval_ms / HURRIES
    }

    /// The layout that most reachable servers know, and when it is answered.
    pub(super) fn ask(&self, agent: usize, world: &World) -> (u64, Option<Vec<Reply>>) {
        let reached: Vec<usize> = (0..world.servers.len())
            .filter(|server| {
                let (told, link) = (&world.servers[*server], &world.links[agent][*server]);
                let serves = told.health == Health::Up && told.refuses.is_none();
                serves && link.cut.is_none() && link.each_way_ms * 4 < self.interval_ms
            })
            .collect();
        let votes = |server: usize| {
            reached.iter().filter(|it| world.layouts[**it] == world.layouts[server]).count()
        };
        let weight =
            |server: usize| (!world.servers[server].alone, votes(server), usize::MAX - server);
        match reached.iter().copied().max_by_key(|server| weight(*server)) {
            Some(server) => (2, Some(layout(server, world))),
            None => (self.timeout_ms, None),
        }
    }

    /// Takes in a layout. A missing one leaves the newest in force.
    pub(super) fn learn(&mut self, told: Result<SlotMap, Unknown>) -> bool {
        if self.map == told || (told.is_err() && self.map.is_ok()) {
            return false;
        }
        if let (Ok(new), Ok(old)) = (&told, &self.map)
            && !old.same_owners(new)
        {
            let owners = (0..SLOTS).filter_map(|slot| Some((slot, old.owner(slot)?)));
            let moved = owners.filter(|(slot, owner)| new.owner(*slot) != Some(owner));
            self.moved.extend(moved.map(|(slot, _)| (slot, servers(old, slot).collect())));
        }
        self.map = told;
        true
    }

    pub(super) fn heard(
        &mut self,
        server: usize,
        role: Option<Role>,
        failed: Option<Unknown>,
        moved: bool,
    ) {
        let deposed = failed.is_some() || role == Some(Role::Replica);
        self.hurry |= moved || (deposed && self.deciding.contains(&server));
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        self.former_until
    }

    pub(super) fn plan(&mut self, now: Mono) -> Plan {
        let until = now.plus_ms(FORMER_MS);
        self.former.extend(self.moved.drain(..).map(|(slot, shard)| (slot, (shard, until))));
        self.former.retain(|_, (_, until)| *until > now);
        self.former_until = self.former.values().map(|(_, until)| *until).min();
        let all = (0..self.slots.len()).map(index);
        let map = match &self.map {
            Ok(map) => map,
            Err(why) => {
                let told = *why != Unknown::NotReadYet;
                let orphans = if told { vec![(all.collect(), *why)] } else { Vec::new() };
                return Plan {
                    orphans,
                    is_told: told,
                    masters: Some(Err(*why)),
                    ..Plan::default()
                };
            }
        };
        let mut own: BTreeMap<usize, Vec<TaskIndex>> = BTreeMap::new();
        let mut witnessed: BTreeMap<usize, Vec<TaskIndex>> = BTreeMap::new();
        let mut unserved = Vec::new();
        let mut besides = BTreeMap::new();
        let mut deciding = BTreeSet::new();
        let owner = |slot: u16| map.owner(slot).and_then(|owner| number(&owner.host));
        for (task, (slot, beside)) in self.slots.iter().enumerate() {
            let at = owner(*slot);
            let former =
                self.former.get(slot).into_iter().flat_map(|(shard, _)| shard.iter().copied());
            let others: BTreeSet<usize> =
                servers(map, *slot).chain(former).filter(|other| at != Some(*other)).collect();
            others
                .into_iter()
                .for_each(|other| witnessed.entry(other).or_default().push(index(task)));
            let Some(at) = at else {
                unserved.push(index(task));
                continue;
            };
            own.entry(at).or_default().push(index(task));
            deciding.insert(at);
            let other = owner(*beside);
            if other != Some(at) {
                deciding.extend(other);
                besides.insert(index(task), other.ok_or(Unknown::ClusterDown));
            }
        }
        self.deciding = deciding;
        let masters = map.masters();
        let masters: BTreeSet<usize> =
            masters.iter().filter_map(|master| number(&master.host)).collect();
        let known: BTreeSet<usize> =
            masters.iter().chain(own.keys()).chain(witnessed.keys()).copied().collect();
        let locks: Arc<BTreeSet<TaskIndex>> = Arc::new(besides.keys().copied().collect());
        let mut duty = |server: usize| match self.deciding.contains(&server) {
            true => Duty {
                locks: Arc::clone(&locks),
                ..Duty::new(Standing::Decides, own.remove(&server).unwrap_or_default().into())
            },
            false => {
                Duty::new(Standing::Witness, witnessed.remove(&server).unwrap_or_default().into())
            }
        };
        Plan {
            nodes: known.into_iter().map(|server| (server, duty(server))).collect(),
            orphans: if unserved.is_empty() {
                Vec::new()
            } else {
                vec![(unserved, Unknown::ClusterDown)]
            },
            besides,
            is_told: true,
            masters: Some(Ok(self.deciding.iter().map(|server| address(*server)).collect())),
            sentinels: Vec::new(),
            uncovered_slots: map.uncovered(),
        }
    }
}

/// Decodes an answer, or returns why there is none.
pub(super) fn decode(replies: Option<Vec<Reply>>) -> Result<SlotMap, Unknown> {
    cluster::decode(&replies.ok_or(Unknown::Connect)?, "10.0.0.1")
}

fn index(task: usize) -> TaskIndex {
    TaskIndex(u32::try_from(task).unwrap_or(u32::MAX))
}

/// The servers with the data of a slot.
fn servers(map: &SlotMap, slot: u16) -> impl Iterator<Item = usize> {
    map.servers(slot).filter_map(|server| number(&server.host))
}

fn number(host: &str) -> Option<usize> {
    host.rsplit('.').next()?.parse::<usize>().ok()?.checked_sub(1)
}

/// The layout as a server knows it: `CLUSTER SHARDS` if available, which also reports failed
/// servers, otherwise `CLUSTER SLOTS`.
fn layout(server: usize, world: &World) -> Vec<Reply> {
    let known = &world.layouts[server];
    let mut owners: Vec<usize> =
        (0..SLOTS).map(|slot| known.shards[world.first_shard(slot)]).collect();
    for (task, (home, at)) in world.tasks.iter().zip(known.homes.iter().zip(&known.besides)) {
        task.keys.beside().for_each(|key| owners[usize::from(slot(key))] = *at);
        owners[usize::from(slot(&task.keys.lock))] = *home;
    }
    let mut ranges: Vec<(i64, i64, usize)> = Vec::new();
    for (slot, owner) in (0..).zip(owners) {
        match ranges.last_mut() {
            Some((_, last, same)) if *same == owner => *last = slot,
            _ => ranges.push((slot, slot, owner)),
        }
    }
    let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
    let host = |server: usize| text(address(server).split_once(':').map_or("", |(host, _)| host));
    // The master of each shard first.
    let members = |master: usize| {
        let same = move |other: &usize| {
            *other != master && world.shard_of(*other) == world.shard_of(master)
        };
        [master].into_iter().chain((0..world.servers.len()).filter(same))
    };
    if !world.servers[server].has_pexpiretime {
        let told = |(first, last, owner): (i64, i64, usize)| {
            let servers = members(owner)
                .map(|server| Reply::Array(vec![host(server), Reply::Int(6_379), text("id")]));
            Reply::Array([Reply::Int(first), Reply::Int(last)].into_iter().chain(servers).collect())
        };
        return vec![Reply::Array(ranges.into_iter().map(told).collect())];
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
    vec![Reply::Array(known.shards.iter().map(shard).collect())]
}
