//! The watcher of one store: connects to its servers, tracks which of them decide, sends reads when
//! the schedules are due, and makes evidence of all results.
//!
//! Failures are data: a batch that fails, and each tick without a connection or without a deciding
//! server, is reported for exactly the tasks concerned.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{Input as Evidence, Outcome, Standing, Topology};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::Mono;

use super::authority::Authority;
use super::driver::{Action, Event, Input, LinkId, Now};
use super::node::Node;
use super::out::Out;
use super::plan::{Hints, NodeReport, Plan};
use super::read::Scope;
use super::tasks::{Assignment, Server, spec, unreadable};
use super::tracking::Filter;

/// Watches one store. Call [`Watcher::poll`] until it returns nothing: after each
/// [`Watcher::handle`], and at [`Watcher::next_wake`].
#[derive(Debug)]
pub struct Watcher {
    assignment: Arc<Assignment>,
    /// Maps keys to tasks; `None` if the servers are not asked to announce changes.
    filter: Option<Arc<Filter>>,
    authority: Authority,
    /// The plan in force.
    plan: Plan,
    nodes: Vec<Node>,
    /// The topology that was reported last.
    reported: Option<Topology>,
    /// When to report again that nobody decides about the tasks without a server.
    orphans_at: Mono,
    out: Out,
}

impl Watcher {
    /// A watcher that begins at `now`. All its random numbers follow from `seed`.
    pub fn new(assignment: Arc<Assignment>, now: Now, seed: u64) -> Watcher {
        Watcher {
            filter: filter(&assignment),
            authority: Authority::new(&assignment.store, now.mono),
            plan: Plan::default(),
            nodes: Vec::new(),
            reported: None,
            orphans_at: now.mono,
            out: Out::new(assignment.epoch, assignment.index, seed),
            assignment,
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Link(link, event) => self.happened(link, event, now),
            Input::Assigned { assignment, same_logins } => {
                self.reassign(assignment, same_logins, now.mono);
            }
            Input::Traced(tasks) => self.out.traced = tasks,
        }
    }

    /// The next thing to do at `now`; `None`: nothing until [`Watcher::next_wake`].
    pub fn poll(&mut self, now: Now) -> Option<Action> {
        if self.out.actions.is_empty() {
            self.launch(now);
        }
        self.out.actions.pop_front()
    }

    /// When to call [`Watcher::poll`] again if nothing happens.
    pub fn next_wake(&self) -> Option<Mono> {
        let orphans = (!self.plan.orphans.is_empty()).then_some(self.orphans_at);
        self.nodes
            .iter()
            .filter_map(Node::next_wake)
            .chain(self.authority.next_wake())
            .chain(orphans)
            .min()
    }

    /// Does everything that is due now.
    fn launch(&mut self, now: Now) {
        for position in 0..self.nodes.len() {
            let node = self.nodes.get_mut(position);
            if let Some(report) = node.and_then(|node| node.overdue(now, &mut self.out)) {
                self.spread(position, &report, now.mono);
            }
        }
        self.authority.launch(now, &mut self.out);
        self.follow_authority(now.mono);
        for node in &mut self.nodes {
            node.launch(now, &mut self.out);
        }
        if self.orphans_at <= now.mono && !self.plan.orphans.is_empty() {
            self.orphans_at = now.mono.plus_ms(self.assignment.store.interval_ms);
            for (tasks, why) in &self.plan.orphans {
                let tasks = tasks.iter().map(|(task, _)| *task).collect();
                let outcome = Outcome::Failed { tasks, why: *why };
                self.out.sample(None, Standing::Decides, (now.mono, 0), outcome);
            }
        }
    }

    /// Something happened on a connection.
    fn happened(&mut self, link: LinkId, event: Event, now: Now) {
        match self.nodes.iter().position(|node| node.has(link)) {
            Some(position) => {
                let Some(node) = self.nodes.get_mut(position) else { return };
                let report = node.take(link, event, now, &mut self.out);
                self.spread(position, &report, now.mono);
            }
            None => self.authority.take(link, event, now, &mut self.out),
        }
    }

    /// Passes on what others must know of the server at this position.
    fn spread(&mut self, position: usize, report: &NodeReport, now: Mono) {
        let Some(address) = self.nodes.get(position).map(|node| Arc::clone(node.address())) else {
            return;
        };
        self.read_parts(&address, report.read.as_deref().unwrap_or_default(), now);
        self.observe_switches(report);
        if let Some(hints) = &report.hints {
            self.follow_hints(hints, now);
        }
        self.authority.report(&address, report, now);
    }

    /// Applies the plan that follows from what is known of the servers.
    fn follow_authority(&mut self, now: Mono) {
        let tasks = &self.assignment.tasks;
        let Some(plan) = self.authority.plan(now, tasks, &mut self.out) else { return };
        if plan.knows_nothing() {
            // After a reload the servers stay connected until it is known which of them decide.
            return;
        }
        self.plan = plan;
        self.orphans_at = now;
        let mut old: BTreeMap<Arc<str>, Node> =
            self.nodes.drain(..).map(|node| (Arc::clone(node.address()), node)).collect();
        for planned in &self.plan.nodes {
            let mut node = old.remove(&planned.address).unwrap_or_else(|| {
                let (at, address) = (planned.at.clone(), Arc::clone(&planned.address));
                Node::new(at, address, &self.assignment, now)
            });
            node.assign(&planned.duty, now);
            node.listen(self.filter.as_ref(), now, &mut self.out);
            self.nodes.push(node);
        }
        old.values().for_each(|node| node.close(&mut self.out));
        let topology = self.plan.topology(self.out.epoch, self.out.store);
        if self.plan.is_known && self.reported.as_ref() != Some(&topology) {
            self.reported = Some(topology.clone());
            self.out.evidence(Evidence::Topology(topology));
        }
    }

    /// Locks were read at `address`: reads what lives beside them on other servers.
    fn read_parts(&mut self, address: &Arc<str>, read: &[TaskIndex], now: Mono) {
        if self.plan.remote_parts.is_empty() {
            return;
        }
        let mut by_server: BTreeMap<Server, Vec<(TaskIndex, Scope)>> = BTreeMap::new();
        for task in read {
            for (server, scope) in self.plan.remote_parts.get(task).into_iter().flatten() {
                by_server.entry(server.clone()).or_default().push((*task, *scope));
            }
        }
        for (server, parts) in by_server {
            let node = server.and_then(|server| {
                let node = self.nodes.iter_mut().find(|node| *node.address() == server);
                node.ok_or(Unknown::NotReadYet)
            });
            match node {
                Ok(node) => node.read_parts(parts, address, now, &mut self.out),
                Err(why) => {
                    let readings =
                        unreadable(&parts, |task| spec(&self.assignment.tasks, task), why);
                    let outcome = Outcome::Parts { attestation: None, readings };
                    self.out.sample(None, Standing::Decides, (now, 0), outcome);
                }
            }
        }
    }

    /// Passes switches that live on another server to the schedule of the lock's server.
    fn observe_switches(&mut self, report: &NodeReport) {
        for (of, sent, task, switches) in &report.switches {
            if let Some(node) = self.nodes.iter_mut().find(|node| node.address() == of) {
                node.observe_switches(*task, *sent, switches);
            }
        }
    }

    /// A server announced changed keys: the servers that have the locks of these tasks read them at
    /// once.
    fn follow_hints(&mut self, hints: &Hints, now: Mono) {
        for node in &mut self.nodes {
            if hints.all {
                node.hint_all(now);
            }
            for task in &hints.tasks {
                node.hint(*task, now);
            }
        }
    }

    /// Applies a new assignment. Batches in flight belong to the old one and are dropped.
    fn reassign(&mut self, assignment: Arc<Assignment>, same_logins: bool, now: Mono) {
        self.out.epoch = assignment.epoch;
        self.out.store = assignment.index;
        self.reported = None;
        self.out.reported.clear();
        self.plan = Plan::default();
        if same_logins && self.assignment.store == assignment.store {
            self.authority.forget_plan();
        } else {
            self.authority.close(&mut self.out);
            self.authority = Authority::new(&assignment.store, now);
            if !same_logins || !self.assignment.store.same_servers(&assignment.store) {
                self.nodes.drain(..).for_each(|node| node.close(&mut self.out));
            }
        }
        self.nodes.iter_mut().for_each(|node| node.configure(&assignment.store, now));
        self.filter = filter(&assignment);
        self.assignment = assignment;
    }
}

/// The keys that the servers are asked to announce, if that is enabled.
fn filter(assignment: &Assignment) -> Option<Arc<Filter>> {
    let Assignment { store, tasks, .. } = assignment;
    let wanted = store.wake_ups && !tasks.is_empty();
    wanted.then(|| Arc::new(Filter::new(tasks, store.interval_ms)))
}
