//! The simulated world between the agents and the truth: servers, workers, users and faults. It
//! does not know the agent's rules; of its types it uses only specs, commands and replies.

mod acts;
mod cluster;
mod failover;
mod guards;
mod harm;
mod keys;
mod queues;
mod tell;
mod turns;
mod users;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_watch::redis::driver::{LinkId, Push};

use crate::event::Event;
use crate::event::TurnJob;
use crate::plan::{Plan, address};
use crate::queue::Queue;
use crate::request::{Line, Request};
use crate::rng::Rng;
use crate::server::{Clock, Health, Server, Value};
use crate::truth::{Cause, Generation, Layout, LockState, Past, What};

pub(crate) use cluster::Layout as Shards;
pub(crate) use guards::{Deed, Did, How, Station};
pub(crate) use keys::Keys;
pub(crate) use queues::{Execution, Queues};
pub(crate) use turns::Turns;
pub(crate) use users::{LostSwitches, Wanting, says};
pub(crate) use workers::Worker;

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
    /// The server with the keys beside the lock of each task.
    pub(crate) besides: Vec<usize>,
    /// When the keys moved there.
    pub(crate) moved_at: Vec<u64>,
    /// In a cluster: the present master of each shard; a shard is numbered by its first master.
    pub(crate) shards: Vec<usize>,
    /// The layout known to each server of a cluster.
    pub(crate) layouts: Vec<Shards>,
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
    pub(crate) beside_keys: BTreeMap<Arc<[u8]>, usize>,
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

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) keys: Keys,
    pub(crate) redisson: bool,
    pub(crate) layout: Layout,
    pub(crate) workers: Vec<Worker>,
    /// The real wish of each user, whatever the switches say.
    pub(crate) wishes: Vec<bool>,
    /// The switches in each server's data, and since when.
    pub(crate) wanting: Vec<Wanting>,
    pub(crate) lost_switches: Vec<LostSwitches>,
    /// The lock on each server.
    pub(crate) past: Vec<Past>,
    pub(crate) progress: u64,
    /// When the progress last moved.
    pub(crate) progress_at: u64,
    /// The fault during which the key contains malformed data.
    pub(crate) odd: Option<u64>,
    /// When the key last contained malformed data.
    pub(crate) odd_at: u64,
    /// The key has been larger than an agent reads.
    pub(crate) was_huge: bool,
    pub(crate) contends_at: Option<u64>,
    /// Each instance's claims.
    pub(crate) claims: BTreeMap<Vec<u8>, Claiming>,
    /// Releases of the lock: by whom, on which server, and when.
    pub(crate) releases: VecDeque<Release>,
    /// The hosts with its guards.
    pub(crate) stations: Vec<Station>,
    /// Those that take turns, instead of workers.
    pub(crate) turns: Option<Turns>,
    /// A queue of delayed tasks.
    pub(crate) queues: Option<Queues>,
    /// The guards that reported an overrun in their claim.
    pub(crate) overruns: Vec<Vec<u8>>,
    /// Number of scripts under guards that ended by themselves with an error.
    pub(crate) failures: u64,
    /// How often it ended, for whatever reason.
    pub(crate) ends: u64,
    /// Chance in what guards do.
    pub(crate) chance: Rng,
    pub(crate) rng: Rng,
}

impl Task {
    /// Whether its key is larger than an agent reads.
    fn is_huge(&self, server: usize, world: &World) -> bool {
        let entry = || world.servers[server].get(&self.keys.lock, world.now);
        self.odd.is_some() && entry().is_some_and(|entry| entry.value == Value::Huge)
    }
}

/// A release of a lock by its holder.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) at: u64,
    #[allow(dead_code, reason = "for looking at a run by hand")]
    pub(crate) server: usize,
    pub(crate) who: Vec<u8>,
}

/// Times at which an instance wrote its claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claiming {
    /// The first one; it starts again after a pause of `CLAIM_RESTS_MS`.
    pub(crate) first: u64,
    pub(crate) newest: u64,
    /// Since when the pauses between two were short; `NEVER`: it was removed.
    pub(crate) steady: u64,
    /// The newest one written while another instance worked, too.
    pub(crate) parts: Option<u64>,
}

/// A claim that pauses for this many milliseconds starts again.
const CLAIM_RESTS_MS: u64 = 30_000;
/// Maximum pause in milliseconds between two claims of a healthy worker.
const CLAIM_STEADY_MS: u64 = 3_000;
/// An instant after the end of each run.
const NEVER: u64 = u64::MAX / 2;

impl World {
    /// Records that a worker changed its claim.
    pub(crate) fn note_claim(&mut self, task: usize, instance: &[u8]) {
        let now = self.now;
        let mut others =
            self.tasks[task].workers.iter().filter(|worker| worker.instance() != instance);
        let parts = others.any(|worker| worker.alive && worker.working)
            || self.tasks[task].stations.iter().any(|station| station.runs_beside(instance));
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
    fn note_given(&mut self, task: usize, who: Vec<u8>, server: usize) {
        let at = self.now;
        let releases = &mut self.tasks[task].releases;
        if releases.len() > 500 {
            releases.pop_front();
        }
        releases.push_back(Release { at, server, who });
    }

    pub(crate) fn new(plan: Arc<Plan>) -> World {
        let mut rng = Rng::new(plan.seed, 3);
        let mut servers: Vec<Server> = Vec::new();
        for server in 0..plan.servers {
            let offset = i64::try_from(rng.below(4_000)).unwrap_or(0) - 2_000;
            let drift = i64::try_from(rng.below(400)).unwrap_or(0) - 200;
            let mut new = Server::new(&address(server), Clock::new(offset, drift), rng.next());
            new.has_pexpiretime = plan.has_pexpiretime;
            new.append_only = plan.append_only;
            new.keeps_backlog = plan.servers > 1;
            new.lag_ms = rng.within(0, 30);
            let follows = (server >= plan.masters).then_some(server % plan.masters);
            if let Some(master) = follows.and_then(|master| servers.get(master)) {
                new.follows = follows;
                new.history.replication_id = master.history.replication_id;
            }
            servers.push(new);
        }
        let agents = plan.agents;
        let mut world = World {
            now: 0,
            queue: Queue::default(),
            lives: vec![0; plan.servers],
            lines: BTreeMap::new(),
            waiting: (0..plan.servers).map(|_| Vec::new()).collect(),
            master: 0,
            homes: vec![0; plan.tasks.len()],
            besides: vec![0; plan.tasks.len()],
            moved_at: vec![0; plan.tasks.len()],
            shards: (0..plan.masters).collect(),
            layouts: Vec::new(),
            tasks: (0..plan.tasks.len()).map(|task| Task::new(&plan, task)).collect(),
            listeners: vec![vec![None; plan.servers]; agents],
            ears: Vec::new(),
            links: vec![vec![Link::default(); plan.servers]; agents],
            sentinels: vec![Sentinel { names: 0, reachable: true, fault: 0 }; plan.sentinels],
            paused_until: vec![0; agents],
            pauses: vec![None; agents],
            wall_offset: vec![0; agents],
            restarts: Vec::new(),
            reloads: Vec::new(),
            dirty_at: vec![vec![0; plan.servers]; agents],
            generations: VecDeque::new(),
            rulers: vec![(0, 0)],
            settled_at: 0,
            cause: Cause::Worker,
            lock_keys: BTreeMap::new(),
            beside_keys: BTreeMap::new(),
            member_keys: BTreeMap::new(),
            fault: 0,
            ids: 0,
            deeds: Vec::new(),
            deeds_before: VecDeque::new(),
            rng,
            servers,
            plan,
        };
        for task in 0..world.tasks.len() {
            let keys = world.tasks[task].keys.clone();
            world.lock_keys.insert(keys.lock, task);
            for key in keys.switches {
                world.beside_keys.insert(key, task);
            }
        }
        world.lay_out();
        world.list_replicas();
        for (position, step) in world.plan.steps.iter().enumerate() {
            world.queue.push(step.at, Event::Step(position));
        }
        for task in 0..world.tasks.len() {
            world.first_switches(task);
            let at = world.tasks[task].rng.below(7_000);
            if world.tasks[task].turns.is_some() {
                world.queue.push(at, Event::Turn { task, job: TurnJob::Kick });
                continue;
            }
            if world.tasks[task].queues.is_some() {
                world.start_queue(task);
                continue;
            }
            world.queue.push(at, Event::Poll { task });
        }
        world.start_guards();
        world.note_changes();
        world
    }

    /// A number that was never returned before.
    pub(crate) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Updates the data of a server that follows another one.
    pub(crate) fn catch_up(&mut self, server: usize) {
        let Some(master) = self.servers[server].follows else { return };
        if self.servers[server].link_cut
            || matches!(self.servers[server].health, Health::Down | Health::Frozen)
        {
            return;
        }
        let (now, lag_ms) = (self.now, self.servers[server].lag_ms);
        let [own, other] = self
            .servers
            .get_disjoint_mut([server, master])
            .unwrap_or_else(|_| unreachable!("nobody follows itself"));
        own.catch_up(other, now, lag_ms);
        if self.servers[server].changed.is_empty() {
            return;
        }
        self.cause = Cause::Worker;
        self.note_changes();
    }

    /// Records what changed in the servers' data.
    pub(crate) fn note_changes(&mut self) {
        for server in 0..self.servers.len() {
            if self.servers[server].changed.is_empty() {
                continue;
            }
            let changed = std::mem::take(&mut self.servers[server].changed);
            for (at, key) in changed {
                if let Some(task) = self.lock_keys.get(&key).copied() {
                    self.note_lock(server, task, &key, at);
                } else if let Some(task) = self.beside_keys.get(&key).copied() {
                    self.note_wanting(server, task);
                } else {
                    self.note_member_lock(server, &key, at);
                    continue;
                }
                self.tell_listeners(server, &key, 0);
            }
        }
        self.cause = Cause::Worker;
    }

    /// Reports to the agents that listen to a server that `key` has changed, after at least `ms`.
    fn tell_listeners(&mut self, server: usize, key: &Arc<[u8]>, ms: u64) {
        if matches!(self.servers[server].health, Health::Down | Health::Frozen) {
            return;
        }
        for (agent, listeners) in self.listeners.iter().enumerate() {
            let link = &self.links[agent][server];
            if let (Some((life, id)), None) = (listeners[server], link.cut) {
                let push = Push::Changed(key.to_vec());
                let event = Event::Told { agent, life, link: id, push };
                self.queue.push(self.now + ms + link.each_way_ms + 1, event);
            }
        }
        self.tell_guards(server, key, ms);
    }

    /// A server removes expired keys some time later, and reports that.
    fn tell_expiry(&mut self, task: usize) {
        let (server, now) = (self.homes[task], self.now);
        let was_held = self.tasks[task].past[server]
            .newest()
            .is_some_and(|since| since.state != LockState::Free);
        if was_held && self.servers[server].get(&self.tasks[task].keys.lock, now).is_none() {
            let key = Arc::clone(&self.tasks[task].keys.lock);
            self.tell_listeners(server, &key, now % 100);
        }
    }

    fn note_lock(&mut self, server: usize, task: usize, key: &Arc<[u8]>, at: u64) {
        let state = LockState::of(self.servers[server].get(key, at), self.tasks[task].layout);
        if self.tasks[task].past[server].newest().is_some_and(|old| old.state == LockState::Other) {
            self.tasks[task].odd_at = at;
        }
        let free = state == LockState::Free;
        let ends_at = self.servers[server].ends_at(key);
        if self.tasks[task].queues.is_some() {
            let clock = &self.servers[server].clock;
            self.tasks[task].past[server].note(state, self.cause, clock, at);
            return self.note_queue(server, task);
        }
        if self.tasks[task].turns.is_some() {
            let clock = &self.servers[server].clock;
            self.tasks[task].past[server].note(state.clone(), self.cause, clock, at);
            return self.note_turns(server, task, &state);
        }
        self.tasks[task].past[server].note(state, self.cause, &self.servers[server].clock, at);
        if server == self.homes[task] {
            if free {
                self.contend(task, 2);
            } else if let Some(ends_at) = ends_at {
                self.contend_at(task, ends_at + 2);
            }
        }
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

    fn contend_at(&mut self, task: usize, at: u64) {
        let planned = self.tasks[task].contends_at.filter(|planned| *planned >= self.now);
        if planned.is_none_or(|planned| at < planned) {
            self.tasks[task].contends_at = Some(at);
            self.queue.push(at, Event::Contend { task });
        }
    }

    /// Processes an event.
    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Step(position) => self.with_marks(|world| {
                if let Some(step) = world.plan.steps.get(position).copied() {
                    world.act(step.act);
                }
            }),
            Event::Heal(heal) => self.with_marks(|world| world.heal(heal)),
            Event::Worker(turn) => self.work(turn),
            Event::Guard(turn) => self.guard_turn(turn),
            Event::Turn { task, job } => self.turn_job(task, job),
            Event::Queue { task, job } => self.queue_job(task, job),
            Event::Contend { task } if self.tasks[task].queues.is_some() => {
                self.tasks[task].contends_at = None;
            }
            Event::Contend { task } if self.tasks[task].turns.is_some() => {
                self.tasks[task].contends_at = None;
                self.look_at_turns(task);
            }
            Event::Contend { task } => {
                self.tasks[task].contends_at = None;
                self.tell_expiry(task);
                self.take_lock(task);
            }
            Event::Poll { task } => {
                self.poll(task);
                let ms = self.tasks[task].rng.within(4_000, 9_000);
                self.queue.push(self.now + ms, Event::Poll { task });
            }
            _ => {}
        }
        self.note_changes();
    }

    /// Records which connections between agents and servers have, or had, problems.
    fn with_marks(&mut self, change: impl FnOnce(&mut World)) {
        let before: Vec<Vec<bool>> = self.troubles();
        let named: Vec<usize> = self.sentinels.iter().map(|sentinel| sentinel.names).collect();
        change(self);
        for (agent, life, link, sentinel) in self.ears.clone() {
            let is_news = named[sentinel] != self.sentinels[sentinel].names;
            if is_news && self.sentinels[sentinel].reachable {
                let event = Event::Told { agent, life, link, push: Push::Other };
                self.queue.push(self.now + 2, event);
            }
        }
        let after = self.troubles();
        for (agent, (before, after)) in before.iter().zip(&after).enumerate() {
            for (server, (before, after)) in before.iter().zip(after).enumerate() {
                if *before || *after {
                    self.dirty_at[agent][server] = self.now;
                }
            }
        }
    }

    fn troubles(&self) -> Vec<Vec<bool>> {
        let of = |agent: usize, server: usize| !self.clean(agent, server);
        (0..self.links.len())
            .map(|agent| (0..self.servers.len()).map(|server| of(agent, server)).collect())
            .collect()
    }

    /// Whether nothing prevents an agent from getting good answers of a server.
    pub(crate) fn clean(&self, agent: usize, server: usize) -> bool {
        let told = &self.servers[server];
        self.links[agent][server].clean()
            && told.health == Health::Up
            && told.slow_ms == 0
            && told.refuses.is_none()
            && told.forbids.is_none()
            && !told.alone
            && !self.tasks.iter().any(|task| task.is_huge(server, self))
            && self.paused_until[agent] <= self.now
    }

    /// Since when that holds.
    pub(crate) fn clean_since(&self, agent: usize, server: usize) -> Option<u64> {
        self.clean(agent, server)
            .then(|| self.dirty_at[agent][server].max(self.paused_until[agent]))
    }

    /// Updates the lists of replicas that the masters report.
    pub(crate) fn list_replicas(&mut self) {
        for server in 0..self.servers.len() {
            let follows = |other: &&Server| {
                other.follows == Some(server) && !other.link_cut && other.health != Health::Down
            };
            let replicas = self
                .servers
                .iter()
                .filter(follows)
                .map(|other| Arc::clone(&other.address))
                .collect();
            self.servers[server].replicas = replicas;
        }
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
}
