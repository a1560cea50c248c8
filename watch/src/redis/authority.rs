//! Determines which servers decide, from what Sentinels, a cluster or the servers themselves
//! report, and plans which server is asked for what.

mod asker;
mod cluster;
mod replicated;
mod seeker;
mod sentinel;

use alloc::boxed::Box;

use lockwatch_judge::input::Standing;
use lockwatch_judge::time::Mono;

use self::cluster::Cluster;
use self::replicated::Replicated;
use self::sentinel::Sentinels;
use super::driver::{Event, LinkId, Now};
use super::out::Out;
use super::plan::{Duty, NodeReport, Plan, Planned};
use super::store::{HostPort, Servers, Store};
use super::tasks::Tasks;

/// The source from which it is known which servers decide.
#[derive(Debug)]
pub(super) struct Authority {
    kind: Kind,
    /// Whether anything changed since the last plan.
    changed: bool,
}

#[derive(Debug)]
enum Kind {
    Standalone(HostPort),
    Replicated(Replicated),
    Sentinel(Sentinels),
    Cluster(Box<Cluster>),
}

impl Authority {
    /// Starts without knowledge.
    pub(super) fn new(store: &Store, now: Mono) -> Authority {
        let kind = match &store.servers {
            Servers::One(at) => Kind::Standalone(at.clone()),
            Servers::Nodes(nodes) => Kind::Replicated(Replicated::new(store, nodes)),
            Servers::Sentinel(sentinels) => Kind::Sentinel(Sentinels::new(store, sentinels, now)),
            Servers::Cluster(cluster) => Kind::Cluster(Box::new(Cluster::new(store, cluster, now))),
        };
        Authority { kind, changed: true }
    }

    /// Forces a new plan.
    pub(super) fn forget_plan(&mut self) {
        self.changed = true;
    }

    /// Closes the connections of its own.
    pub(super) fn close(&self, out: &mut Out) {
        match &self.kind {
            Kind::Standalone(_) | Kind::Replicated(_) => {}
            Kind::Sentinel(sentinels) => sentinels.close(out),
            Kind::Cluster(cluster) => cluster.close(out),
        }
    }

    /// Asks whoever is due to be asked.
    pub(super) fn launch(&mut self, now: Now, out: &mut Out) {
        match &mut self.kind {
            Kind::Standalone(_) | Kind::Replicated(_) => {}
            Kind::Sentinel(sentinels) => self.changed |= sentinels.launch(now.mono, out),
            Kind::Cluster(cluster) => self.changed |= cluster.launch(now.mono, out),
        }
    }

    /// Takes in what happened on a connection of its own.
    pub(super) fn take(&mut self, link: LinkId, event: Event, now: Now, out: &mut Out) {
        match &mut self.kind {
            Kind::Standalone(_) | Kind::Replicated(_) => {}
            Kind::Sentinel(sentinels) => {
                self.changed |= sentinels.take(link, event, now.mono, out);
            }
            Kind::Cluster(cluster) => self.changed |= cluster.take(link, event, now.mono, out),
        }
    }

    /// Takes in what a server of the plan reported, or that it failed.
    pub(super) fn report(&mut self, address: &str, report: &NodeReport, now: Mono) {
        match &mut self.kind {
            Kind::Standalone(_) => {}
            Kind::Replicated(replicated) => self.changed |= replicated.report(address, report, now),
            Kind::Sentinel(sentinels) => sentinels.report(address, report),
            Kind::Cluster(cluster) => cluster.report(address, report),
        }
    }

    /// When to call [`Authority::launch`] or [`Authority::plan`] again if nothing happens.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        let asks = match &self.kind {
            Kind::Standalone(_) | Kind::Replicated(_) => None,
            Kind::Sentinel(sentinels) => sentinels.next_launch(),
            Kind::Cluster(cluster) => cluster.next_launch(),
        };
        asks.into_iter().chain(self.next_plan()).min()
    }

    /// When the plan may change without any report.
    fn next_plan(&self) -> Option<Mono> {
        match &self.kind {
            Kind::Standalone(_) => None,
            Kind::Replicated(replicated) => replicated.silent_at(),
            Kind::Sentinel(sentinels) => sentinels.next_plan(),
            Kind::Cluster(cluster) => cluster.next_plan(),
        }
    }

    /// The new plan, if it may differ from the last one.
    pub(super) fn plan(&mut self, now: Mono, all: &Tasks, out: &mut Out) -> Option<Plan> {
        let due = self.next_plan().is_some_and(|at| at <= now);
        if !core::mem::take(&mut self.changed) && !due {
            return None;
        }
        Some(match &mut self.kind {
            Kind::Standalone(at) => {
                let node = Planned::new(at.clone(), Duty::new(Standing::Decides, all, all));
                Plan { nodes: [node].into(), ..Plan::default() }
            }
            Kind::Replicated(replicated) => replicated.plan(now, all),
            Kind::Sentinel(sentinels) => sentinels.plan(now, all, out),
            Kind::Cluster(cluster) => cluster.plan(now, all),
        })
    }
}
