//! Tracks one named store: its servers, which of them decide, and losses of its data.

mod node;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::node::Node;
use crate::continuity::failover_report::FailoverReports;
use crate::continuity::generation::{self, Delta};
use crate::event::EventKind;
use crate::evidence::Origin;
use crate::grounds::{StoreGrounds, follow};
use crate::input::{
    Attestation, Generation, NodeNewsKind, Refusal, Role, Standing, Topology, agreeing,
};
use crate::reading::Unknown;
use crate::snapshot::{NodeView, Said, StoreTotals, StoreView, newest_words, unreached};
use crate::spec::StoreSpec;
use crate::time::Mono;

/// Maximum number of former masters of a cluster that are remembered. It bounds memory.
const RETIRED_MAX: usize = 32;
/// Maximum number of failures whose words are remembered. It bounds memory.
const SAID_MAX: usize = 64;

/// An event of a store, and the server whose answer shows it.
pub(crate) type StoreEvent = (Option<Arc<str>>, EventKind);

/// The state of one named store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) spec: StoreSpec,
    /// Sorted by address.
    nodes: Vec<Node>,
    topology: Option<Topology>,
    /// The servers that decide, as far as they were read; a single one without a name while the
    /// deciding server is unknown.
    deciding: Vec<Deciding>,
    /// The first attempt to read a deciding server.
    began: Option<Mono>,
    /// Origins of former masters of a cluster. Another master may continue their data.
    retired: Vec<Origin>,
    /// A second server that reports that it is master.
    rival: Option<Arc<str>>,
    /// The servers certainly never replicated from each other, and this was reported.
    unrelated: bool,
    pub(crate) failover_reports: FailoverReports,
    totals: StoreTotals,
    /// The words that came with failures, newest last.
    said: Arc<Vec<Said>>,
    pub(crate) grounds: StoreGrounds,
}

/// The results of the sweeps of one deciding server.
#[derive(Clone, Debug)]
struct Deciding {
    /// In a cluster, each master decides for its own slots. Otherwise one entry decides for all,
    /// whichever server that is.
    node: Option<Arc<str>>,
    newest: Result<(), Unknown>,
    /// The newest accepted sweep, or the first attempt.
    good: Mono,
    origin: Option<Origin>,
    /// The newest accepted sweep that reported a generation, unless another server has decided
    /// since. Changes of the data are judged against it.
    reported: Option<Origin>,
}

impl Store {
    pub(crate) fn new(spec: StoreSpec) -> Store {
        let nodes = match spec.authority.announced {
            true => Vec::new(),
            false => spec.addresses.iter().cloned().map(Node::new).collect(),
        };
        let mut store = Store {
            spec,
            nodes,
            topology: None,
            deciding: Vec::new(),
            began: None,
            retired: Vec::new(),
            rival: None,
            unrelated: false,
            failover_reports: FailoverReports::default(),
            totals: StoreTotals::default(),
            said: Arc::default(),
            grounds: StoreGrounds::default(),
        };
        store.nodes.sort_by(|a, b| a.address.cmp(&b.address));
        if store.spec.authority.alone {
            store.nodes.iter_mut().for_each(|node| node.stands(Standing::Decides));
        }
        store
    }

    /// The same servers under a changed configuration.
    pub(crate) fn configured(self, spec: StoreSpec) -> Store {
        Store { spec, ..self }
    }

    /// Other servers under the same name. Their state is new, but counters must not decrease.
    pub(crate) fn replaced(self, spec: StoreSpec) -> Store {
        Store { totals: self.totals, ..Store::new(spec) }
    }

    /// An accepted batch. Returns its origin, and why its readings may not be used, if so: in the
    /// round in which the server's clock has stepped, or of servers that have nothing to do with
    /// each other.
    pub(crate) fn accepted(
        &mut self,
        node: &Arc<str>,
        standing: Standing,
        attestation: &Attestation,
        (sent, took_ms): (Mono, u64),
        events: &mut Vec<StoreEvent>,
    ) -> (Origin, Result<(), Unknown>) {
        self.totals.sample_duration.observe(took_ms);
        let authority = self.spec.authority;
        let mut kinds = Vec::new();
        let server = self.node(node);
        let stepped = server.accepted(attestation, standing, sent, took_ms, &mut kinds);
        let origin = Origin {
            node: server.address.clone(),
            clock_steps: server.clock_steps(),
            // A server that refuses to report its generation proves nothing.
            generation: match attestation.generation {
                Some(_) => server.generation().cloned(),
                None => None,
            },
            histories: server.histories().clone(),
            offset: attestation.offset,
            authority,
        };
        events.extend(kinds.into_iter().map(|kind| (Some(node.clone()), kind)));
        if stepped {
            self.grounds.clock_step = Some(sent);
            self.totals.count(Unknown::ClockStep, 1);
        }
        self.follow_relations(events);
        if standing == Standing::Decides {
            self.follow_deciding(&origin, sent, events);
        }
        self.follow_rivals(events);
        self.follow_grounds(sent);
        let usable = match stepped {
            _ if self.unrelated => Err(Unknown::Unrelated),
            true => Err(Unknown::ClockStep),
            false => Ok(()),
        };
        (origin, usable)
    }

    /// Reports when it is certain that the servers never replicated from each other. Each must have
    /// been read: what is not known of one may be what joins it to the others.
    fn follow_relations(&mut self, events: &mut Vec<StoreEvent>) {
        let others = |at: usize| self.nodes.iter().take(at).flat_map(|node| &**node.histories());
        let shares = |(at, node): (usize, &Node)| {
            others(at).any(|history| node.histories().contains(history))
        };
        let unrelated = self.spec.authority.self_declared()
            && self.nodes.len() > 1
            && self.nodes.iter().all(Node::is_original)
            && !self.nodes.iter().enumerate().any(shares);
        if unrelated && !core::mem::replace(&mut self.unrelated, unrelated) {
            events.push((None, EventKind::UnrelatedServers));
        }
        self.unrelated = unrelated;
    }

    fn follow_deciding(&mut self, origin: &Origin, sent: Mono, events: &mut Vec<StoreEvent>) {
        let unrelated = self.unrelated;
        let deciding = self.deciding(&origin.node, sent);
        if deciding.origin.is_some() && sent < deciding.good {
            return; // Asked before the newest one, perhaps of the server that decided before.
        }
        if unrelated {
            deciding.newest = Err(Unknown::Unrelated);
            self.totals.count(Unknown::Unrelated, 1);
            return;
        }
        deciding.newest = Ok(());
        let blind_ms = sent.since_ms(core::mem::replace(&mut deciding.good, sent));
        let old = deciding.reported.clone();
        let is_another = deciding.origin.as_ref().is_none_or(|old| old.node != origin.node);
        if origin.generation.is_some() || is_another {
            deciding.reported = Some(origin.clone());
        }
        deciding.origin = Some(origin.clone());
        let Some(old) = old.or_else(|| self.continued_by(origin)) else { return };
        let delta = Delta::since(Some(&old), origin);
        if delta.reported().next().is_none() {
            return;
        }
        for change in delta.reported() {
            self.totals.generation_changes += 1;
            // A change that certainly lost nothing goes only into the failover report.
            if delta.may_lose_locks() {
                events.push((Some(origin.node.clone()), EventKind::GenerationChanged { change }));
            }
        }
        self.failover_reports.begin(&old, origin, delta, (sent, blind_ms));
    }

    /// The master of a cluster whose history `new`, which decides for the first time, continues.
    fn continued_by(&mut self, new: &Origin) -> Option<Origin> {
        let continues = |old: &Origin| match (&old.generation, &new.generation) {
            (Some(old), Some(new)) => generation::shared_bytes(old, new).is_some(),
            _ => false,
        };
        if let Some(position) = self.retired.iter().position(continues) {
            return Some(self.retired.swap_remove(position));
        }
        let others = self.deciding.iter().filter_map(|deciding| deciding.reported.as_ref());
        others.filter(|old| old.node != new.node).find(|old| continues(old)).cloned()
    }

    /// Reports when a second server begins or ceases to call itself master.
    fn follow_rivals(&mut self, events: &mut Vec<StoreEvent>) {
        if self.spec.authority.divided || self.spec.authority.ensemble {
            return;
        }
        let rival = self.nodes.iter().find(|node| {
            let same_process = |other: &&Node| {
                other.standing() == Standing::Decides
                    && other.generation().map(|g| &g.process)
                        == node.generation().map(|g| &g.process)
            };
            let first = |other: &Node| {
                other.address != node.address
                    && (other.standing() == Standing::Decides || other.role() == Some(Role::Master))
            };
            node.witnesses()
                && node.role() == Some(Role::Master)
                && !self.nodes.iter().any(|other| same_process(&other))
                // While no server decides, a single master is no second one.
                && self.nodes.iter().any(first)
        });
        // A server that cannot be read has not given up its role.
        let silent = self
            .nodes
            .iter()
            .find(|node| Some(&node.address) == self.rival.as_ref() && node.witnesses());
        let rival =
            rival.or(silent.filter(|node| node.unreadable())).map(|node| node.address.clone());
        // A server that has not been tried yet may be the same one under another name, or show that
        // they have nothing to do with each other.
        let counts = |node: &Node| {
            node.standing() == Standing::Decides || self.spec.authority.self_declared()
        };
        let is_early = self.nodes.iter().any(|node| counts(node) && node.untried());
        let is_early = is_early && self.rival.is_none();
        let rival = if is_early || self.unrelated { None } else { rival };
        if rival == self.rival {
            return;
        }
        if let Some(gone) = core::mem::replace(&mut self.rival, rival) {
            events.push((Some(gone), EventKind::RivalMasterGone));
        }
        if let Some(rival) = &self.rival {
            events.push((Some(rival.clone()), EventKind::RivalMaster));
        }
    }

    /// A batch failed. Without a node, no server was read.
    pub(crate) fn failed(
        &mut self,
        node: Option<&Arc<str>>,
        standing: Standing,
        why: Unknown,
        (sent, at): (Mono, Mono),
        events: &mut Vec<StoreEvent>,
    ) {
        self.totals.count(why, 1);
        if let Some(address) = node {
            let mut kinds = Vec::new();
            let server = self.node(address);
            server.stands(standing);
            server.failed(why, &mut kinds);
            events.extend(kinds.into_iter().map(|kind| (Some(address.clone()), kind)));
        }
        if standing == Standing::Decides {
            let nobody = Arc::from("");
            let deciding = self.deciding(node.unwrap_or(&nobody), at);
            let elsewhere = node
                .is_some_and(|node| deciding.origin.as_ref().is_some_and(|old| old.node != *node));
            if !(elsewhere && sent < deciding.good) {
                deciding.newest = Err(why);
            }
        }
        self.follow_rivals(events);
    }

    /// Counts a refusal of a single task in an accepted batch.
    pub(crate) fn count(&mut self, why: Unknown) {
        self.totals.count(why, 1);
    }

    /// Takes in a report about a connection.
    pub(crate) fn news(
        &mut self,
        node: &Arc<str>,
        kind: &NodeNewsKind,
        events: &mut Vec<StoreEvent>,
    ) {
        match kind {
            NodeNewsKind::Connected { version, role } => {
                let again = self.node(node).connected(version.as_ref(), *role);
                self.totals.reconnects += u64::from(again);
            }
            NodeNewsKind::Failed { why } => {
                self.totals.count(*why, 1);
                let mut kinds = Vec::new();
                self.node(node).failed(*why, &mut kinds);
                events.extend(kinds.into_iter().map(|kind| (Some(node.clone()), kind)));
            }
            NodeNewsKind::Said { why, words } => self.heard(node, *why, words),
            // That is the tasks'.
            NodeNewsKind::SaidOf(_) => {}
            NodeNewsKind::TickSkipped => self.totals.skipped_ticks += 1,
            NodeNewsKind::WakeUps(wake_ups) => self.node(node).wake_ups(*wake_ups),
        }
    }

    /// Remembers the words that came with a failure.
    fn heard(&mut self, server: &Arc<str>, why: Unknown, words: &Arc<str>) {
        let said = Arc::make_mut(&mut self.said);
        said.retain(|old| old.why != why || old.server != *server);
        if said.len() >= SAID_MAX {
            said.remove(0);
        }
        said.push(Said { server: Arc::clone(server), why, words: Arc::clone(words) });
    }

    /// Why the server at `address` refuses writes, if it is known to.
    pub(crate) fn refuses_writes(&self, address: &str) -> Option<Refusal> {
        self.nodes.iter().find(|node| *node.address == *address)?.refuses_writes()
    }

    /// The words that came with the failure `why`: of a server that decides, else of any.
    pub(crate) fn words(&self, why: Unknown) -> Option<Arc<str>> {
        let decides = |server: &str| {
            let own = self.nodes.iter().find(|node| *node.address == *server);
            own.is_some_and(|node| node.standing() == Standing::Decides)
        };
        let words = newest_words(&self.said, why, decides).cloned();
        let announcers = self.topology.as_ref().map_or(&[][..], |topology| &topology.announcers);
        let nodes = self
            .nodes
            .iter()
            .map(|node| (&node.address, node.standing() == Standing::Decides, node.unknown()));
        unreached(announcers, nodes, why, words.as_deref()).or(words)
    }

    /// Takes in the known servers, and which of them decide.
    pub(crate) fn topology(&mut self, topology: &Topology, events: &mut Vec<StoreEvent>) {
        let masters = |topology: &Topology| topology.masters.clone().unwrap_or_default();
        let before = self.topology.as_ref();
        if before.map(|before| &before.masters) != Some(&topology.masters) {
            let from = before.map(masters).unwrap_or_default();
            events.push((None, EventKind::MastersChanged { from, to: topology.masters.clone() }));
        }
        self.nodes.retain(|node| topology.nodes.contains(&node.address));
        for address in &topology.nodes {
            self.node(address);
        }
        if let Ok(masters) = &topology.masters {
            for node in &mut self.nodes {
                node.stands(if masters.contains(&node.address) {
                    Standing::Decides
                } else {
                    Standing::Witness
                });
            }
            if self.spec.authority.divided {
                self.retire(masters, topology.uncovered > 0);
            }
            // Nobody has a connection to the others.
            let others = self.nodes.iter_mut().filter(|node| !masters.contains(&node.address));
            others.filter(|_| self.spec.authority.ensemble).for_each(Node::forget);
        }
        self.topology = Some(topology.clone());
        self.follow_rivals(events);
    }

    /// Removes former masters of a cluster. While their slots are unserved, the time without a
    /// reading of them continues to count.
    fn retire(&mut self, masters: &[Arc<str>], some_unserved: bool) {
        let decides =
            |deciding: &Deciding| deciding.node.as_ref().is_some_and(|node| masters.contains(node));
        let (stay, go): (Vec<_>, Vec<_>) = self.deciding.drain(..).partition(decides);
        self.deciding = stay;
        let unread = go
            .iter()
            .filter(|deciding| deciding.newest.is_err())
            .map(|deciding| deciding.good)
            .min();
        if some_unserved && let Some(since) = unread {
            let nobody = self.deciding(&Arc::from(""), since);
            nobody.newest = Err(Unknown::ClusterDown);
        }
        self.retired.extend(go.into_iter().filter_map(|deciding| deciding.reported));
        let surplus = self.retired.len().saturating_sub(RETIRED_MAX);
        self.retired.drain(..surplus);
    }

    fn node(&mut self, address: &Arc<str>) -> &mut Node {
        let position = match self.nodes.binary_search_by(|node| node.address.cmp(address)) {
            Ok(position) => position,
            Err(position) => {
                self.nodes.insert(position, Node::new(address.clone()));
                position
            }
        };
        #[expect(clippy::indexing_slicing, reason = "it was found or inserted there")]
        &mut self.nodes[position]
    }

    fn deciding(&mut self, node: &Arc<str>, at: Mono) -> &mut Deciding {
        let name = self.spec.authority.divided.then(|| node.clone());
        let position = match self.deciding.iter().position(|deciding| deciding.node == name) {
            Some(position) => position,
            None => {
                let newest = Err(Unknown::NotReadYet);
                self.began.get_or_insert(at);
                self.deciding.push(Deciding {
                    node: name,
                    newest,
                    good: at,
                    origin: None,
                    reported: None,
                });
                self.deciding.len() - 1
            }
        };
        #[expect(clippy::indexing_slicing, reason = "it was found or pushed there")]
        &mut self.deciding[position]
    }

    /// Time has passed, so the effect of a change of generation may have become known.
    pub(crate) fn tick(&mut self, at: Mono, events: &mut Vec<StoreEvent>) {
        for failover_report in self.failover_reports.over(at, self.settle_ms()) {
            for (total, count) in self.totals.fates.iter_mut().zip(failover_report.fates) {
                *total += count;
            }
            let node = failover_report.to.clone();
            events.push((node, EventKind::FailoverReport(failover_report)));
        }
        self.follow_grounds(at);
    }

    /// Follows the grounds of the store's problems.
    fn follow_grounds(&mut self, at: Mono) {
        let readable =
            !self.deciding.is_empty() && self.deciding.iter().all(|one| one.newest.is_ok());
        self.grounds.was_read |= readable;
        let rivals = !self.spec.authority.divided && !self.unrelated && self.masters() > 1;
        follow(&mut self.grounds.rival_master, rivals, at);
        let announcers = self.topology.as_ref().map(|topology| &*topology.announcers);
        let differ = announcers.is_some_and(|all| agreeing(all) < all.len());
        follow(&mut self.grounds.sentinel_missing, differ, at);
    }

    /// Follows whether a replica lacks the newest holds, of which there are `held`, as `nodes` show
    /// it.
    pub(crate) fn follow_replicas(&mut self, nodes: &[NodeView], held: u64, at: Mono) {
        if self.spec.authority.ensemble {
            return;
        }
        let deciding = nodes.iter().filter(|node| node.decides).count().max(1);
        // Of many locks some are always being renewed. A replica has those of one server that
        // decides: in a cluster, of a shard.
        let of_one = held / u64::try_from(deciding).unwrap_or(1);
        let lags = nodes.iter().any(|node| node.locks_behind.is_some_and(|n| n * 2 > of_one));
        // A store that cannot be read has a problem of its own.
        let readable = self.deciding.iter().all(|one| one.newest.is_ok());
        let silent = nodes.iter().any(|node| !node.decides && node.up == Some(false));
        follow(&mut self.grounds.replica_behind, lags || silent && readable, at);
    }

    /// Time after which every task was read, or could not be read. In milliseconds.
    fn settle_ms(&self) -> u64 {
        self.spec.interval_ms.saturating_mul(2).saturating_add(self.spec.timeout_ms)
    }

    /// The view for outputs, as of `at`.
    pub(crate) fn view(&self, at: Mono) -> StoreView {
        let failing = || self.deciding.iter().filter(|deciding| deciding.newest.is_err());
        let mut nodes: Vec<NodeView> = self.nodes.iter().map(Node::view).collect();
        let is_ensemble = self.spec.authority.ensemble;
        for node in nodes.iter_mut().filter(|_| is_ensemble) {
            (node.clock_offset_ms, node.role_verified) = (None, None);
        }
        let has_masters = self.nodes.iter().any(|node| node.role().is_some()) && !is_ensemble;
        StoreView {
            spec: self.spec.clone(),
            readable: (!self.deciding.is_empty()).then(|| failing().next().is_none()),
            unknown: failing().find_map(|deciding| deciding.newest.err()),
            blind_ms: failing().map(|deciding| at.since_ms(deciding.good)).max().unwrap_or(0),
            masters: has_masters.then(|| self.masters()),
            nodes,
            announcers: self
                .topology
                .as_ref()
                .map(|topology| topology.announcers.clone())
                .unwrap_or_default(),
            said: Arc::clone(&self.said),
            uncovered: self.topology.as_ref().map_or(0, |topology| topology.uncovered),
            generations: self.generations(at).unwrap_or_default(),
            totals: self.totals,
            grounds: self.grounds,
        }
    }

    /// Number of servers that report that they are master. One with two addresses counts once.
    fn masters(&self) -> u64 {
        let masters = || self.nodes.iter().filter(|node| node.role() == Some(Role::Master));
        let process = |node: &Node| node.generation().map(|generation| generation.process.clone());
        let again = |at: usize, node: &Node| {
            let own = process(node).filter(|id| !id.is_empty());
            own.is_some() && masters().take(at).any(|other| process(other) == own)
        };
        let distinct = masters().enumerate().filter(|(at, node)| !again(*at, node)).count();
        u64::try_from(distinct).unwrap_or(u64::MAX)
    }

    /// The generations of all deciding servers; `None` while one is missing, so that its later
    /// arrival does not look like a change of the whole.
    fn generations(&self, at: Mono) -> Option<Vec<Arc<Generation>>> {
        // A cluster's masters are read one after the other; those without a watched lock are never
        // read.
        if self.spec.authority.divided && at.since_ms(self.began?) <= self.settle_ms() {
            return None;
        }
        // A server without a run id reports too little.
        let is_known = |generation: &Arc<Generation>| !generation.process.is_empty();
        self.deciding
            .iter()
            .map(|deciding| deciding.origin.as_ref()?.generation.clone().filter(is_known))
            .collect()
    }
}

impl StoreTotals {
    fn count(&mut self, why: Unknown, times: u64) {
        if let Some(count) = self.errors.get_mut(why as usize) {
            *count += times;
        }
    }
}

#[cfg(test)]
mod tests;
