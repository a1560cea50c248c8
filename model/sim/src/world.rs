//! The little world between the agents and the truth: servers, workers, users and faults. Nothing
//! here knows the model's rules; of its types it uses specs, commands and replies.

mod acts;
mod cluster;
mod failover;
mod harm;
mod keys;
mod tell;
mod users;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::agent::Request;
use crate::plan::{Plan, address};
use crate::queue::{Event, Queue};
use crate::rng::Rng;
use crate::server::{Clock, Health, Server};
use crate::truth::{Cause, Generation, LockState, Past, What};
pub(crate) use acts::Heal;
pub(crate) use cluster::Layout;
pub(crate) use keys::Keys;
pub(crate) use users::{LostSwitches, Says, Switches, Wanting};
pub(crate) use workers::{Worker, WorkerTurn};

/// Everything that is not an agent.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) now: u64,
    pub(crate) queue: Queue,
    pub(crate) servers: Vec<Server>,
    /// Counts the processes of each server: connections to one that is gone are broken.
    pub(crate) lives: Vec<u64>,
    /// Batches of each agent at each server whose turn comes after the one that it is at.
    pub(crate) behind: Vec<Vec<VecDeque<Box<Request>>>>,
    /// What reached a frozen server.
    #[allow(clippy::vec_box, reason = "they go on as they came")]
    pub(crate) waiting: Vec<Vec<Box<Request>>>,
    /// The server that workers and users take for the master; in a cluster, see `homes`.
    pub(crate) master: usize,
    /// The server that has the lock of each task.
    pub(crate) homes: Vec<usize>,
    /// The server that has what is beside the lock of each task.
    pub(crate) besides: Vec<usize>,
    /// When they moved there.
    pub(crate) moved_at: Vec<u64>,
    /// Of a cluster, who is master now where each of the first servers was at first.
    pub(crate) shards: Vec<usize>,
    /// What each server of a cluster knows of that.
    pub(crate) layouts: Vec<Layout>,
    pub(crate) tasks: Vec<Task>,
    /// Which life of each agent each server tells of changes.
    pub(crate) listeners: Vec<Vec<Option<u32>>>,
    /// Between each agent and each server.
    pub(crate) links: Vec<Vec<Link>>,
    pub(crate) sentinels: Vec<Sentinel>,
    /// When each agent is paused until.
    pub(crate) paused_until: Vec<u64>,
    /// Agents that stand still for so long as soon as they have asked something: what comes then is
    /// read too late.
    pub(crate) pauses: Vec<Option<u64>>,
    /// How far each agent's wall clock is off.
    pub(crate) wall_offset: Vec<i64>,
    /// Agents that are to begin anew.
    pub(crate) restarts: Vec<usize>,
    /// Agents that are told to load their configuration again.
    pub(crate) reloads: Vec<usize>,
    /// When each agent last had any trouble with each server.
    pub(crate) dirty_at: Vec<Vec<u64>>,
    pub(crate) generations: VecDeque<Generation>,
    /// Which server decides since when, and when that was in doubt last.
    pub(crate) rulers: Vec<(u64, usize)>,
    /// The last fault whose consequences nothing else tells.
    pub(crate) settled_at: u64,
    pub(crate) cause: Cause,
    lock_keys: BTreeMap<Arc<[u8]>, usize>,
    beside_keys: BTreeMap<Arc<[u8]>, usize>,
    pub(crate) fault: u64,
    pub(crate) ids: u64,
    pub(crate) rng: Rng,
}

/// A network between an agent and a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) cut: Option<Cut>,
    pub(crate) each_way_ms: u64,
    /// Every second batch of replies is lost.
    pub(crate) drops: bool,
    pub(crate) dropped: bool,
    /// Batches of replies are cut in the middle.
    pub(crate) tears: bool,
    /// The faults that made it so.
    pub(crate) faults: [u64; 4],
    /// What goes one way arrives in the order in which it was sent: no earlier than this, there and
    /// back.
    pub(crate) there_at: u64,
    pub(crate) back_at: u64,
    /// The batch that the server is at: its connection, and its number.
    pub(crate) serving: Option<(u64, u64)>,
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
    pub(crate) workers: Vec<Worker>,
    /// What each user wants, whatever the switches say.
    pub(crate) wishes: Vec<bool>,
    /// What each server's data say since when.
    pub(crate) wanting: Vec<Wanting>,
    pub(crate) lost_switches: Vec<LostSwitches>,
    /// The lock on each server.
    pub(crate) past: Vec<Past>,
    pub(crate) progress: u64,
    /// When the progress last moved.
    pub(crate) progress_at: u64,
    /// The key holds something odd until this fault is over.
    pub(crate) odd: Option<u64>,
    /// When it last did.
    pub(crate) odd_at: u64,
    pub(crate) contends_at: Option<u64>,
    /// Each instance's claims.
    pub(crate) claims: BTreeMap<Vec<u8>, Claiming>,
    /// Who gave the lock back, on which server, and when.
    pub(crate) releases: VecDeque<Release>,
    pub(crate) rng: Rng,
}

/// A holder gave its lock back.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) at: u64,
    #[allow(dead_code, reason = "for looking at a run by hand")]
    pub(crate) server: usize,
    pub(crate) who: Vec<u8>,
}

/// When an instance wrote its claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claiming {
    /// The first one; after a long rest it begins anew.
    pub(crate) first: u64,
    pub(crate) newest: u64,
    /// Since when there was hardly a pause between two.
    pub(crate) steady: u64,
    /// The newest one while another instance worked, too.
    pub(crate) beside: Option<u64>,
}

/// A claim that rests for so long begins anew.
const CLAIM_RESTS_MS: u64 = 30_000;
/// Claims of a worker that is well come closer together than this.
const CLAIM_STEADY_MS: u64 = 3_000;

impl World {
    /// A worker changes its claim.
    pub(crate) fn note_claim(&mut self, task: usize, instance: &[u8]) {
        let now = self.now;
        let mut others =
            self.tasks[task].workers.iter().filter(|worker| worker.instance() != instance);
        let beside = others.any(|worker| worker.alive && worker.working);
        let claims = &mut self.tasks[task].claims;
        claims.retain(|_, claim| claim.newest + 300_000 > now);
        let claim = claims.entry(instance.to_vec()).or_insert(Claiming {
            first: now,
            newest: now,
            steady: now,
            beside: None,
        });
        if claim.newest + CLAIM_RESTS_MS < now {
            claim.first = now;
        }
        if claim.newest + CLAIM_STEADY_MS < now {
            claim.steady = now;
        }
        claim.newest = now;
        if beside {
            claim.beside = Some(now);
        }
    }

    /// A worker gives its lock back.
    pub(crate) fn note_release(&mut self, task: usize, worker: usize, server: usize) {
        let (at, who) = (self.now, self.tasks[task].workers[worker].instance());
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
            behind: (0..agents)
                .map(|_| (0..plan.servers).map(|_| VecDeque::new()).collect())
                .collect(),
            waiting: (0..plan.servers).map(|_| Vec::new()).collect(),
            master: 0,
            homes: vec![0; plan.tasks.len()],
            besides: vec![0; plan.tasks.len()],
            moved_at: vec![0; plan.tasks.len()],
            shards: (0..plan.masters).collect(),
            layouts: Vec::new(),
            tasks: (0..plan.tasks.len()).map(|task| Task::new(&plan, task)).collect(),
            listeners: vec![vec![None; plan.servers]; agents],
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
            fault: 0,
            ids: 0,
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
            world.queue.push(at, Event::Poll { task });
        }
        world.note_changes();
        world
    }

    /// A number that was never given out before.
    pub(crate) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Brings a server's data up to date where it follows another.
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

    /// Writes down what changed in the servers' data.
    pub(crate) fn note_changes(&mut self) {
        for server in 0..self.servers.len() {
            if self.servers[server].changed.is_empty() {
                continue;
            }
            let changed = std::mem::take(&mut self.servers[server].changed);
            for (at, key) in changed {
                let task = if let Some(task) = self.lock_keys.get(&key).copied() {
                    self.note_lock(server, task, &key, at);
                    task
                } else if let Some(task) = self.beside_keys.get(&key).copied() {
                    self.note_wanting(server, task);
                    task
                } else {
                    continue;
                };
                self.tell_listeners(server, task, 0);
            }
        }
        self.cause = Cause::Worker;
    }

    /// The agents that listen to a server hear that a key of `task` has changed, `ms` later at
    /// least.
    fn tell_listeners(&mut self, server: usize, task: usize, ms: u64) {
        if matches!(self.servers[server].health, Health::Down | Health::Frozen) {
            return;
        }
        for (agent, listeners) in self.listeners.iter().enumerate() {
            let link = &self.links[agent][server];
            if let (Some(life), None) = (listeners[server], link.cut) {
                let event = Event::Told { agent, life, server, task };
                self.queue.push(self.now + ms + link.each_way_ms + 1, event);
            }
        }
    }

    /// A server removes what has expired some time later, and tells of that.
    fn tell_expiry(&mut self, task: usize) {
        let (server, now) = (self.homes[task], self.now);
        let was_held = self.tasks[task].past[server]
            .newest()
            .is_some_and(|since| since.state != LockState::Free);
        if was_held && self.servers[server].get(&self.tasks[task].keys.lock, now).is_none() {
            self.tell_listeners(server, task, now % 100);
        }
    }

    fn note_lock(&mut self, server: usize, task: usize, key: &Arc<[u8]>, at: u64) {
        let state = LockState::of(self.servers[server].get(key, at), self.tasks[task].redisson);
        if self.tasks[task].past[server].newest().is_some_and(|old| old.state == LockState::Other) {
            self.tasks[task].odd_at = at;
        }
        let free = state == LockState::Free;
        let ends_at = self.servers[server].ends_at(key);
        self.tasks[task].past[server].note(state, self.cause, &self.servers[server].clock, at);
        if server == self.homes[task] {
            if free {
                self.contend(task, 2);
            } else if let Some(ends_at) = ends_at {
                self.contend_at(task, ends_at + 2);
            }
        }
    }

    /// Notes what a server's clock has ended, before that clock is changed or the past is looked
    /// at.
    pub(crate) fn settle(&mut self, server: usize) {
        for task in &mut self.tasks {
            task.past[server].settle(&self.servers[server].clock, self.now);
        }
    }

    /// Somebody may take the lock of `task` after `ms`.
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

    /// Something happens in the world.
    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Step(position) => self.with_marks(|world| {
                if let Some(step) = world.plan.steps.get(position).copied() {
                    world.act(step.act);
                }
            }),
            Event::Heal(heal) => self.with_marks(|world| world.heal(heal)),
            Event::Worker(turn) => self.work(turn),
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

    /// Remembers which ways between agents and servers are, or were, in trouble.
    fn with_marks(&mut self, change: impl FnOnce(&mut World)) {
        let before: Vec<Vec<bool>> = self.troubles();
        change(self);
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

    /// Whether nothing is between an agent and good answers of a server.
    pub(crate) fn clean(&self, agent: usize, server: usize) -> bool {
        let told = &self.servers[server];
        self.links[agent][server].clean()
            && told.health == Health::Up
            && told.slow_ms == 0
            && told.refuses.is_none()
            && told.forbids.is_none()
            && !told.alone
            && self.paused_until[agent] <= self.now
    }

    /// Since when that is so.
    pub(crate) fn clean_since(&self, agent: usize, server: usize) -> Option<u64> {
        self.clean(agent, server)
            .then(|| self.dirty_at[agent][server].max(self.paused_until[agent]))
    }

    /// The masters tell who follows them.
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
