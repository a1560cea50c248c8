//! A cluster: each master decides about the keys in its slots.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::redis::read::{Scope, keys_beside};
use crate::redis::topology::Announced;
use crate::redis::topology::cluster::{SLOTS, SlotMap, slot};
use lockwatch_judge::input::{Role, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::Mono;

use super::seeker::Seeker;
use crate::redis::driver::{Event, LinkId};
use crate::redis::out::Out;
use crate::redis::plan::{Duty, FORMER_MS, NodeReport, Plan, Planned, orphans};
use crate::redis::store::{Cluster as Configured, HostPort, Store};
use crate::redis::tasks::{Server, Tasks};

/// A master and its replicas.
type Shard = Arc<Vec<Announced>>;

/// The state of the cluster as far as known.
#[derive(Debug)]
pub(super) struct Cluster {
    seeker: Seeker,
    config: Configured,
    /// The newest layout, or why there is none.
    map: Result<SlotMap, Unknown>,
    /// The previous servers of slots that changed hands, and until when they are read.
    former: BTreeMap<u16, (Shard, Mono)>,
    /// The earliest of these instants.
    former_until: Option<Mono>,
    /// Slots that changed hands since the last plan, and their previous servers.
    moved: Vec<(u16, Shard)>,
    /// The servers that decide by the last plan.
    deciding: BTreeSet<Arc<str>>,
}

impl Cluster {
    pub(super) fn new(store: &Store, cluster: &Configured, now: Mono) -> Cluster {
        Cluster {
            seeker: Seeker::new(store, cluster, now),
            config: cluster.clone(),
            map: Err(Unknown::NotReadYet),
            former: BTreeMap::new(),
            former_until: None,
            moved: Vec::new(),
            deciding: BTreeSet::new(),
        }
    }

    pub(super) fn close(&self, out: &mut Out) {
        self.seeker.close(out);
    }

    /// When to call [`Cluster::launch`] again.
    pub(super) fn next_launch(&self) -> Option<Mono> {
        self.seeker.next_launch()
    }

    /// Asks for the layout if that is due. Returns whether anything was learned.
    pub(super) fn launch(&mut self, now: Mono, out: &mut Out) -> bool {
        let layout = self.seeker.launch(now, out);
        layout.is_some_and(|layout| self.learn(layout, out))
    }

    /// Takes in what happened on a connection of its own; returns whether anything was learned.
    pub(super) fn take(&mut self, link: LinkId, event: Event, now: Mono, out: &mut Out) -> bool {
        let layout = self.seeker.take(link, event, now, out);
        layout.is_some_and(|layout| self.learn(layout, out))
    }

    /// Takes in a layout and returns whether it changes anything. After a failure the newest layout
    /// stays in force: each server still reports its role, and which slots it no longer serves.
    fn learn(&mut self, layout: Result<SlotMap, Unknown>, out: &mut Out) -> bool {
        if self.map == layout || (layout.is_err() && self.map.is_ok()) {
            return false;
        }
        if let Ok(new) = &layout {
            let old = self.map.as_ref().ok();
            if old.is_none_or(|old| old.nodes() != new.nodes()) {
                self.tell_foreign(new, out);
            }
            if let Some(old) = old.filter(|old| !old.same_owners(new)) {
                self.moved.extend(moved(old, new));
            }
        }
        self.map = layout;
        true
    }

    /// Takes in what a server reported, or that it failed.
    pub(super) fn report(&mut self, address: &str, report: &NodeReport) {
        let deposed = report.failed.is_some() || report.role == Some(Role::Replica);
        if report.moved || (deposed && self.deciding.contains(address)) {
            self.seeker.hurry();
        }
    }

    /// When the plan may change without a new layout.
    pub(super) fn next_plan(&self) -> Option<Mono> {
        self.former_until
    }

    pub(super) fn plan(&mut self, now: Mono, all: &Tasks) -> Plan {
        let until = now.plus_ms(FORMER_MS);
        self.former.extend(self.moved.drain(..).map(|(slot, shard)| (slot, (shard, until))));
        self.former.retain(|_, (_, until)| *until > now);
        self.former_until = self.former.values().map(|(_, until)| *until).min();
        let map = match &self.map {
            Ok(map) => map,
            Err(why) => {
                let is_known = *why != Unknown::NotReadYet;
                let orphans = if is_known { orphans(all, Some(*why)) } else { Vec::new() };
                return Plan { orphans, is_known, masters: Some(Err(*why)), ..Plan::default() };
            }
        };
        let servers = Servers { map, former: &self.former, reached: self.reached(map) };
        let mut sorting = Sorting::default();
        for (task, spec) in all.iter() {
            servers.sort(*task, spec, &mut sorting);
        }
        // A master without tasks is part of the topology, but decides nothing.
        let masters: BTreeSet<&HostPort> =
            map.masters().iter().filter_map(|master| servers.resolve(master)).collect();
        let deciding = sorting.deciding;
        let known: BTreeSet<&HostPort> = masters.iter().copied().chain(sorting.known).collect();
        let names: Vec<Arc<str>> = deciding.iter().map(|at| at.to_string().into()).collect();
        self.deciding = names.iter().cloned().collect();
        let (mut own, mut scopes, mut witnessed) = (sorting.own, sorting.scopes, sorting.witnessed);
        let mut duty = |at: &HostPort| match deciding.contains(at) {
            true => {
                let scopes = Arc::new(scopes.remove(at).unwrap_or_default());
                let own = Arc::new(own.remove(at).unwrap_or_default());
                Duty { scopes, ..Duty::new(Standing::Decides, &own, all) }
            }
            false => Duty::new(
                Standing::Witness,
                &Arc::new(witnessed.remove(at).unwrap_or_default()),
                all,
            ),
        };
        let nodes = known.into_iter().map(|at| Planned::new(at.clone(), duty(at))).collect();
        let unserved = sorting.unserved.into_iter().map(|(why, tasks)| (Arc::new(tasks), why));
        Plan {
            nodes,
            orphans: unserved.collect(),
            remote_parts: sorting.remote_parts,
            is_known: true,
            masters: Some(Ok(names)),
            sentinels: Vec::new(),
            uncovered_slots: map.uncovered(),
        }
    }

    /// The address at which each announced server is dialled; servers that the configuration does
    /// not allow are left out.
    fn reached(&self, map: &SlotMap) -> BTreeMap<Announced, HostPort> {
        let former: BTreeSet<&Shard> = self.former.values().map(|(shard, _)| shard).collect();
        let former = former.into_iter().flat_map(|shard| shard.iter().cloned());
        let announced: BTreeSet<Announced> = map.nodes().into_iter().chain(former).collect();
        let resolve = |announced: Announced| {
            let at = self.resolve(&announced)?;
            Some((announced, at))
        };
        announced.into_iter().filter_map(resolve).collect()
    }

    fn resolve(&self, announced: &Announced) -> Option<HostPort> {
        self.config.peers.resolve(announced, &self.config.nodes)
    }

    /// Logs the servers that the configuration does not allow, once for each layout.
    fn tell_foreign(&self, map: &SlotMap, out: &mut Out) {
        let nodes = map.nodes();
        let of = |node: &&Announced| self.resolve(node).is_none();
        nodes.iter().filter(of).for_each(|node| out.note_foreign(node));
    }
}

/// The slots that moved to another master, or to none, and their previous servers.
fn moved(old: &SlotMap, new: &SlotMap) -> Vec<(u16, Shard)> {
    let mut shards: BTreeMap<&Announced, Shard> = BTreeMap::new();
    let owners = (0..SLOTS).filter_map(|slot| Some((slot, old.owner(slot)?)));
    let moved = owners.filter(|(slot, owner)| new.owner(*slot) != Some(owner));
    let shard = |(slot, owner)| {
        let shard =
            shards.entry(owner).or_insert_with(|| Arc::new(old.servers(slot).cloned().collect()));
        (slot, Arc::clone(shard))
    };
    moved.map(shard).collect()
}

/// Maps keys to servers.
struct Servers<'a> {
    map: &'a SlotMap,
    former: &'a BTreeMap<u16, (Shard, Mono)>,
    reached: BTreeMap<Announced, HostPort>,
}

/// The tasks of a cluster, grouped by server.
#[derive(Default)]
struct Sorting<'a> {
    known: BTreeSet<&'a HostPort>,
    /// The servers that have locks, or keys beside them.
    deciding: BTreeSet<&'a HostPort>,
    own: BTreeMap<&'a HostPort, Vec<(TaskIndex, Arc<TaskSpec>)>>,
    witnessed: BTreeMap<&'a HostPort, Vec<(TaskIndex, Arc<TaskSpec>)>>,
    unserved: BTreeMap<Unknown, Vec<(TaskIndex, Arc<TaskSpec>)>>,
    /// For tasks whose keys are on several servers, the parts that live with the lock.
    scopes: BTreeMap<&'a HostPort, BTreeMap<TaskIndex, Scope>>,
    remote_parts: BTreeMap<TaskIndex, Vec<(Server, Scope)>>,
}

impl Servers<'_> {
    fn resolve(&self, announced: &Announced) -> Option<&HostPort> {
        self.reached.get(announced)
    }

    /// The server of a slot, or why there is none.
    fn of(&self, slot: u16) -> Result<&HostPort, Unknown> {
        let owner = self.map.owner(slot).ok_or(Unknown::ClusterDown)?;
        self.resolve(owner).ok_or(Unknown::ForeignAddress)
    }

    /// Finds the servers of one task.
    fn sort<'a>(&'a self, task: TaskIndex, spec: &Arc<TaskSpec>, sorting: &mut Sorting<'a>) {
        let own = (task, Arc::clone(spec));
        let number = slot(spec.kind.key());
        let at = self.of(number);
        // The previous server of a slot stays a witness even while nobody serves the slot: to
        // detect a split, both sides must be read without interruption.
        let former = self.former.get(&number).into_iter().flat_map(|(shard, _)| shard.iter());
        let others: BTreeSet<&HostPort> = self
            .map
            .servers(number)
            .chain(former)
            .filter_map(|other| self.resolve(other))
            .collect();
        for other in others.into_iter().filter(|other| at != Ok(*other)) {
            sorting.witnessed.entry(other).or_default().push(own.clone());
            sorting.known.insert(other);
        }
        let at = match at {
            Ok(at) => at,
            Err(why) => return sorting.unserved.entry(why).or_default().push(own),
        };
        let mut apart: BTreeMap<Result<&HostPort, Unknown>, Scope> = BTreeMap::new();
        let mut here = Scope::ALL;
        for (key, part) in keys_beside(spec) {
            let server = self.of(slot(&key));
            if server != Ok(at) {
                sorting.deciding.extend(server);
                let there = apart.entry(server).or_insert(Scope::NOTHING);
                *there = there.with(part);
                here = here.without(part);
            }
        }
        if !apart.is_empty() {
            let named = apart
                .into_iter()
                .map(|(server, scope)| (server.map(|at| at.to_string().into()), scope));
            sorting.remote_parts.insert(task, named.collect());
            sorting.scopes.entry(at).or_default().insert(task, here);
        }
        sorting.known.insert(at);
        sorting.deciding.insert(at);
        sorting.own.entry(at).or_default().push(own);
    }
}
