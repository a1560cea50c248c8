//! The state of the world, and what any of its parts may record or plan.

mod guards;
mod queue;
mod runs;
mod task;
mod turns;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::driver::LinkId;

use crate::event::{Event, GuardJob, GuardTurn, Heal};
use crate::plan::Plan;
use crate::queue::Queue;
use crate::request::{Line, Request, Says};
use crate::rng::Rng;
use crate::server::{Health, Server, Value};
use crate::truth::{Cause, Generation, What};
pub(super) use guards::{Client, Keeper, Parts, Process, Script, instance};
pub(crate) use guards::{Deed, Did, How};
pub(crate) use queue::Execution;
pub(super) use queue::{Leave, Queues};
pub(crate) use runs::TrueRun;
pub(crate) use task::{Claiming, LostSwitches, Task};
pub(super) use task::{Release, Wanting};
pub(super) use turns::Turns;
pub(super) use worker::{Hold, Worker};

/// The whole simulation except the agents.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) now: u64,
    pub(crate) queue: Queue,
    pub(crate) servers: Vec<Server>,
    /// Number of processes of each server so far. Connections to an earlier process are broken.
    pub(crate) lives: Vec<u64>,
    /// The connections over which a batch is being served, with the batches that wait behind it.
    pub(crate) lines: BTreeMap<Line, VecDeque<Box<Request>>>,
    /// Requests that reached a frozen server.
    #[allow(clippy::vec_box, reason = "they go on as they came")]
    pub(crate) waiting: Vec<Vec<Box<Request>>>,
    /// The server that workers and users use as the master; for a cluster, see `homes`.
    pub(crate) master: usize,
    /// The server with the lock of each task.
    pub(crate) homes: Vec<usize>,
    /// The server with the parts of each task.
    pub(crate) part_homes: Vec<usize>,
    /// When the keys moved there.
    pub(crate) moved_at: Vec<u64>,
    /// In a cluster: the present master of each shard; a shard is numbered by its first master.
    pub(crate) shards: Vec<usize>,
    /// The layout known to each server of a cluster.
    pub(crate) layouts: Vec<Layout>,
    pub(crate) tasks: Vec<Task>,
    /// The process of each agent to which each server reports changes, and its connection.
    pub(crate) listeners: Vec<Vec<Option<(u32, LinkId)>>>,
    /// The connections over which agents listen to Sentinels.
    pub(crate) ears: Vec<(usize, u32, LinkId, usize)>,
    /// The network between each agent and each server.
    pub(crate) links: Vec<Vec<Link>>,
    pub(crate) sentinels: Vec<Sentinel>,
    /// The end of the pause of each agent.
    pub(crate) paused_until: Vec<u64>,
    /// Pause of an agent that begins right after its next request, so that the answer is read too
    /// late.
    pub(crate) pauses: Vec<Option<u64>>,
    /// Error of each agent's wall clock.
    pub(crate) wall_offset: Vec<i64>,
    /// Agents to be restarted.
    pub(crate) restarts: Vec<usize>,
    /// Agents that shall reload their configuration, and whether it has changed.
    pub(crate) reloads: Vec<(usize, bool)>,
    /// When each agent last had a problem with each server.
    pub(crate) dirty_at: Vec<Vec<u64>>,
    pub(crate) generations: VecDeque<Generation>,
    /// The deciding server and since when, and when that was last in doubt.
    pub(crate) rulers: Vec<(u64, usize)>,
    /// The last fault whose consequences are not recorded elsewhere.
    pub(crate) settled_at: u64,
    pub(crate) cause: Cause,
    pub(crate) lock_keys: BTreeMap<Arc<[u8]>, usize>,
    pub(crate) part_keys: BTreeMap<Arc<[u8]>, usize>,
    /// The locks of members, with the task and the member.
    pub(crate) member_keys: BTreeMap<Arc<[u8]>, (usize, Vec<u8>)>,
    pub(crate) fault: u64,
    pub(crate) ids: u64,
    /// What guards did since the oracle last looked.
    pub(crate) deeds: Vec<Deed>,
    /// What they did lately, for the analysis of a failure.
    pub(crate) deeds_before: VecDeque<(u64, Deed)>,
    pub(crate) rng: Rng,
}

/// The network between an agent and a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) cut: Option<Cut>,
    pub(crate) each_way_ms: u64,
    /// Every second batch of replies is lost.
    pub(crate) drops: bool,
    pub(crate) dropped: bool,
    /// Batches of replies are truncated.
    pub(crate) tears: bool,
    /// The faults that caused each of these.
    pub(crate) faults: [u64; 4],
    /// Earliest arrival in each direction, because messages arrive in the order in which they were
    /// sent.
    pub(crate) there_at: u64,
    pub(crate) back_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Packets vanish.
    Silently,
    /// Connections are refused and reset.
    Loudly,
}

impl Link {
    pub(crate) fn clean(&self) -> bool {
        self.cut.is_none() && self.each_way_ms == 0 && !self.drops && !self.tears
    }
}

/// A Sentinel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentinel {
    /// The master that it names.
    pub(crate) names: usize,
    pub(crate) reachable: bool,
    pub(crate) fault: u64,
}

/// The layout of a cluster as one of its servers knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The present master of each shard; a shard is numbered by its first master.
    pub(crate) shards: Vec<usize>,
    /// The server with the lock of each task.
    pub(crate) homes: Vec<usize>,
    /// The server with the parts.
    pub(crate) part_homes: Vec<usize>,
}

/// A claim that pauses for this many milliseconds starts again.
const CLAIM_RESTS_MS: u64 = 30_000;

/// Maximum pause in milliseconds between two claims of a healthy worker.
const CLAIM_STEADY_MS: u64 = 3_000;

/// An instant after the end of each run.
const NEVER: u64 = u64::MAX / 2;

impl World {
    /// A number that was never returned before.
    pub(crate) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Records that a worker changed its claim.
    pub(crate) fn note_claim(&mut self, task: usize, instance: &[u8]) {
        let now = self.now;
        let mut others =
            self.tasks[task].workers.iter().filter(|worker| worker.instance() != instance);
        let parts = others.any(|worker| worker.alive && worker.working)
            || self.tasks[task].stations.iter().any(|station| station.runs_another(instance));
        let claims = &mut self.tasks[task].claims;
        claims.retain(|_, claim| claim.newest + 300_000 > now);
        let claim = claims.entry(instance.to_vec()).or_insert(Claiming {
            first: now,
            newest: now,
            steady: now,
            parts: None,
        });
        if claim.newest + CLAIM_RESTS_MS < now {
            claim.first = now;
        }
        if claim.newest + CLAIM_STEADY_MS < now || claim.steady == NEVER {
            claim.steady = now;
        }
        claim.newest = now;
        if parts {
            claim.parts = Some(now);
        }
    }

    /// Records that a worker removed its claim.
    pub(crate) fn note_unclaimed(&mut self, task: usize, instance: &[u8]) {
        if let Some(claim) = self.tasks[task].claims.get_mut(instance) {
            claim.steady = NEVER;
        }
    }

    /// Records that a worker released its lock.
    pub(crate) fn note_release(&mut self, task: usize, worker: usize, server: usize) {
        let who = self.tasks[task].workers[worker].instance();
        self.note_given(task, who, server);
    }

    /// Records that the holder `who` released its lock.
    pub(super) fn note_given(&mut self, task: usize, who: Vec<u8>, server: usize) {
        let at = self.now;
        let releases = &mut self.tasks[task].releases;
        if releases.len() > 500 {
            releases.pop_front();
        }
        releases.push_back(Release { at, server, who });
    }

    /// A generation of a server ends.
    pub(crate) fn note_generation(&mut self, server: usize, what: What) {
        if self.generations.len() > 200 {
            self.generations.pop_front();
        }
        self.generations.push_back(Generation { at: self.now, server, what });
    }

    /// Another server decides from now on.
    pub(crate) fn note_ruler(&mut self, server: usize) {
        self.rulers.push((self.now, server));
    }

    /// Records what has expired by a server's clock, before that clock is changed or the past is
    /// read.
    pub(crate) fn settle(&mut self, server: usize) {
        for task in &mut self.tasks {
            task.past[server].settle(&self.servers[server].clock, self.now);
        }
    }

    /// Lets the lock of `task` be taken after `ms`.
    pub(crate) fn contend(&mut self, task: usize, ms: u64) {
        self.contend_at(task, self.now + ms);
    }

    pub(super) fn contend_at(&mut self, task: usize, at: u64) {
        let planned = self.tasks[task].contends_at.filter(|planned| *planned >= self.now);
        if planned.is_none_or(|planned| at < planned) {
            self.tasks[task].contends_at = Some(at);
            self.queue.push(at, Event::Contend { task });
        }
    }

    pub(super) fn after(&mut self, ms: u64, heal: Heal) {
        self.queue.push(self.now + ms, Event::Heal(heal));
    }

    pub(super) fn guard_later(
        &mut self,
        task: usize,
        host: usize,
        life: u32,
        ms: u64,
        what: GuardJob,
    ) {
        self.guard_at(task, host, life, self.now + ms, what);
    }

    pub(super) fn guard_at(
        &mut self,
        task: usize,
        host: usize,
        life: u32,
        at: u64,
        what: GuardJob,
    ) {
        self.queue.push(at, Event::Guard(GuardTurn { task, host, life, what }));
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.plan.kind() == RedisKind::Cluster
    }

    /// The shard of `server`, regardless of its master.
    pub(crate) fn shard_of(&self, server: usize) -> usize {
        server % self.plan.masters
    }

    /// The present master of the shard of `server`.
    pub(crate) fn master_of(&self, server: usize) -> usize {
        if self.is_cluster() { self.shards[self.shard_of(server)] } else { self.master }
    }

    /// The combined state of the switches.
    pub(crate) fn says(&self, server: usize, task: usize) -> Says {
        self.tasks[task].wanting[server].says
    }

    /// Whether nothing prevents an agent from getting good answers of a server.
    pub(crate) fn clean(&self, agent: usize, server: usize) -> bool {
        let state = &self.servers[server];
        self.links[agent][server].clean()
            && state.health == Health::Up
            && state.slow_ms == 0
            && state.refuses.is_none()
            && state.forbids.is_none()
            && !state.alone
            && !self.tasks.iter().any(|task| self.is_huge(task, server))
            && self.paused_until[agent] <= self.now
    }

    /// Since when that holds.
    pub(crate) fn clean_since(&self, agent: usize, server: usize) -> Option<u64> {
        self.clean(agent, server)
            .then(|| self.dirty_at[agent][server].max(self.paused_until[agent]))
    }

    /// Whether another server is a master, too.
    pub(crate) fn has_rival(&self, server: usize) -> bool {
        let is_master = |other: usize| self.servers[other].follows.is_none();
        (0..self.servers.len()).any(|other| other != server && is_master(other))
    }

    /// Whether the key of a task is larger than an agent reads.
    fn is_huge(&self, task: &Task, server: usize) -> bool {
        let entry = || self.servers[server].get(&task.keys.lock, self.now);
        task.odd.is_some() && entry().is_some_and(|entry| entry.value == Value::Huge)
    }
}
