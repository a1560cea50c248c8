//! The simulated world between the agents and the truth: servers, workers, users and faults. It
//! does not know the agent's rules; of its types it uses only specs, commands and replies.

mod acts;
mod cluster;
mod describe;
mod failover;
mod guards;
mod harm;
mod past;
mod queues;
mod runs;
mod state;
mod turns;
mod users;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_watch::redis::driver::Push;

use crate::event::{Event, TurnJob};
use crate::plan::{Plan, address};
use crate::queue::Queue;
use crate::rng::Rng;
use crate::server::{Clock, Server};
use crate::truth::Cause;

pub(crate) use state::{
    Claiming, Cut, Deed, Did, Execution, How, LostSwitches, Sentinel, TrueRun, World,
};
use state::{Link, Task};

impl World {
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
            part_homes: vec![0; plan.tasks.len()],
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
            part_keys: BTreeMap::new(),
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
                world.part_keys.insert(key, task);
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
            if world.tasks[task].runs.is_some() {
                world.queue.push(at, Event::Run { task });
                continue;
            }
            world.queue.push(at, Event::Poll { task });
        }
        world.start_guards();
        world.note_changes();
        world
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
            Event::Run { task } => self.start_run(task),
            Event::Contend { task } if self.tasks[task].queues.is_some() => {
                self.tasks[task].contends_at = None;
            }
            Event::Contend { task } if self.tasks[task].turns.is_some() => {
                self.tasks[task].contends_at = None;
                self.look_at_turns(task);
            }
            Event::Contend { task } => {
                self.tasks[task].contends_at = None;
                self.announce_expiry(task);
                if self.tasks[task].runs.is_none() {
                    self.take_lock(task);
                }
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
                let event = Event::Announced { agent, life, link, push: Push::Other };
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
}
