//! A simulated agent: the real watcher and the real state, driven over virtual networks. It carries
//! out the watcher's actions and reports what happened, as `src/io` does with real sockets. For
//! each batch it also keeps what the oracle may know about it.

mod net;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::event::Event as ModelEvent;
use lockwatch_judge::input::{Input, Outcome, Sample, Standing};
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec, WatchSpec};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::driver::{self, Action, LinkId, Now, Push};
use lockwatch_watch::redis::store::{Cluster, HostPort, Peers, Sentinels, Servers, Store};
use lockwatch_watch::redis::tasks::Assignment;
use lockwatch_watch::redis::watcher::Watcher;

use self::net::{Net, Wire};
use crate::event::Event;
use crate::plan::{Plan, server_at};
use crate::request::{BatchTruth, PartTruth};
use crate::rng::Rng;
use crate::server::EPOCH_MS;
use crate::world::World;

/// The agent's monotonic clock when the world begins.
pub(crate) const MONO_MS: u64 = 7_000_000;

/// How long after another layout was reported its effects may come, in milliseconds.
const LAID_OUT_MS: u64 = 10_000;

/// The agent's monotonic clock at a true instant.
pub(crate) fn mono(now: u64) -> Mono {
    Mono::at(MONO_MS + now)
}

/// The actions of an agent, in order, for the oracle.
#[derive(Debug)]
pub(crate) enum Deed {
    /// It read, or failed to read, these tasks.
    Attempt(Attempt),
    /// A server announced that a key has changed.
    Announced(usize, Vec<u8>),
    /// Its state received an input.
    Input(Mono, Input),
}

/// An attempt to read tasks, with the true result.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The server that was read; `None`: none.
    pub(crate) server: Option<usize>,
    pub(crate) standing: Standing,
    /// Only parts were requested.
    pub(crate) parts: bool,
    pub(crate) sent: Mono,
    pub(crate) took_ms: u64,
    pub(crate) tasks: Vec<usize>,
    /// What the server did with the batch; `None` if no complete answer arrived.
    pub(crate) truth: Option<BatchTruth>,
    /// What was read of these tasks in earlier rounds.
    pub(crate) before: Vec<PartTruth>,
}

/// Collects the results of an agent.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) agent: usize,
    pub(crate) life: u32,
    /// Number of configurations loaded so far.
    epoch: u32,
    /// The tasks of the configuration in force, in its order, as numbers of the plan.
    configured: Vec<usize>,
    pub(crate) now: Mono,
    pub(crate) wall: AgentWall,
    deeds: Vec<Deed>,
    /// Batches that servers have answered completely, by their numbers.
    truths: BTreeMap<u64, BatchTruth>,
    /// What the batch whose replies have just come really showed.
    current: Option<BatchTruth>,
    /// What was read of each task, by server, that its reading does not include yet.
    open: BTreeMap<(usize, usize), Vec<PartTruth>>,
    /// When the instants at which tasks are read last changed.
    pub(crate) rhythm_at: Mono,
    /// When a server last reported another layout of the cluster.
    laid_out_at: Mono,
}

impl Out {
    fn send(&mut self, input: Input) {
        self.deeds.push(Deed::Input(self.now, input));
    }

    /// The watcher has made evidence.
    fn evidence(&mut self, input: Input) {
        match &input {
            Input::Sample(sample) => self.attempt(sample),
            Input::Topology(_) => self.rhythm_at = self.now,
            _ => {}
        }
        self.send(input);
    }

    /// What a server did with a batch, once.
    fn take_truth(&mut self, number: Option<u64>) -> Option<BatchTruth> {
        self.truths.remove(&number?)
    }

    /// Records for the oracle what a sample is about, and what was really read for it.
    fn attempt(&mut self, sample: &Sample) {
        let tasks: Vec<TaskIndex> = match &sample.outcome {
            Outcome::Read { readings, .. } => readings.iter().map(|(task, _)| *task).collect(),
            Outcome::Parts { readings, .. } => readings.iter().map(|(task, _)| *task).collect(),
            Outcome::Failed { tasks, .. } => tasks.clone(),
        };
        let number = |task: &TaskIndex| self.configured.get(task.0 as usize).copied();
        let tasks: Vec<usize> = tasks.iter().filter_map(number).collect();
        let server = sample.node.as_deref().and_then(server_at);
        let truth = match &sample.outcome {
            Outcome::Parts { attestation: None, .. } => None,
            _ => self.current.take_if(|truth| Some(truth.server) == server),
        };
        let mut before = Vec::new();
        if let Some(server) = server {
            for task in &tasks {
                before.extend(self.open.remove(&(server, *task)).unwrap_or_default());
            }
            // Results of this round that the next one needs.
            for part in truth.iter().flat_map(|truth| &truth.parts) {
                if !tasks.contains(&part.task) {
                    let open = self.open.entry((server, part.task)).or_default();
                    open.push(part.at(sample.sent));
                    let old = open.len().saturating_sub(4);
                    open.drain(..old);
                }
            }
        }
        self.deeds.push(Deed::Attempt(Attempt {
            server,
            standing: sample.standing,
            parts: matches!(sample.outcome, Outcome::Parts { .. }),
            sent: sample.sent,
            took_ms: sample.took_ms,
            tasks,
            truth,
            before,
        }));
    }
}

/// An agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) state: State,
    pub(crate) out: Out,
    watcher: Watcher,
    pub(crate) net: Net,
    /// The specs in force, with the numbers of the plan.
    specs: Vec<Arc<TaskSpec>>,
    plan: Arc<Plan>,
    wake_at: Option<u64>,
    /// Inputs, as they would be recorded.
    pub(crate) recorded: Option<Vec<(Mono, AgentWall, Input)>>,
}

impl Agent {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        agent: usize,
        life: u32,
        records: bool,
        world: &mut World,
    ) -> Agent {
        let now = mono(world.now);
        let wall = wall(world, agent);
        let specs = plan.spec.tasks.clone();
        let configured: Vec<usize> = (0..specs.len()).collect();
        let assignment = assignment(plan, plan.spec.epoch, &specs, &configured);
        let seed = Rng::new(plan.seed, 70 + agent as u64 + 100 * u64::from(life)).next();
        let mut new = Agent {
            state: State::new(),
            out: Out {
                agent,
                life,
                epoch: plan.spec.epoch,
                configured,
                now,
                wall,
                deeds: Vec::new(),
                truths: BTreeMap::new(),
                current: None,
                open: BTreeMap::new(),
                rhythm_at: now,
                laid_out_at: Mono::at(0),
            },
            watcher: Watcher::new(assignment, Now { mono: now, wall }, seed),
            net: Net::new(agent, life),
            specs,
            plan: Arc::clone(plan),
            wake_at: None,
            recorded: records.then(Vec::new),
        };
        new.out.send(Input::Config(Arc::clone(&plan.spec)));
        world.queue.push(world.now, Event::Wake { agent, life });
        world.queue.push(world.now, Event::Tick { agent, life });
        new
    }

    /// Handles an event for this agent.
    pub(crate) fn take(&mut self, event: Event, world: &mut World) {
        self.out.now = mono(world.now);
        self.out.wall = wall(world, self.out.agent);
        match event {
            // It was planned before an earlier one, which has planned the next one itself.
            Event::Wake { .. } if self.wake_at.is_some_and(|at| at > world.now) => return,
            Event::Wake { .. } => self.wake_at = None,
            Event::Tick { agent, life } => {
                self.out.send(Input::Tick);
                // Ticks missed during a pause are not made up for.
                world.queue.push(world.now + 1_000, Event::Tick { agent, life });
                return;
            }
            Event::Link { link, event, number, .. } => self.arrived(link, *event, number, world),
            Event::Announced { link, push, .. } => self.announced(link, push),
            Event::Break { server, .. } => self.broke(server),
            _ => {}
        }
        self.act(world);
    }

    /// Something has come over a connection.
    fn arrived(
        &mut self,
        link: LinkId,
        mut event: driver::Event,
        mut number: Option<u64>,
        world: &mut World,
    ) {
        let Some(wire) = self.net.wires.get_mut(&link) else { return };
        match &mut event {
            driver::Event::Dialled(dialled) if wire.is_dialling() => {
                dialled.received = self.out.now;
                wire.dialled(dialled.ended.is_none());
                // Of incomplete answers none counts.
                number = number.filter(|_| dialled.ended.is_none());
            }
            driver::Event::Dialled(_) => return,
            driver::Event::Replied { replies, .. } => {
                // Servers learn of another layout one after the other, and most of them decide.
                if wire.is_of_another_layout(replies) {
                    self.out.laid_out_at = self.out.now;
                }
                if self.out.now.since_ms(self.out.laid_out_at) < LAID_OUT_MS {
                    self.out.rhythm_at = self.out.now;
                }
                let replies = std::mem::take(replies);
                for (number, replies) in wire.landed(number.unwrap_or(0), replies) {
                    self.out.current = self.out.take_truth(number);
                    let received = self.out.now;
                    self.handle(link, driver::Event::Replied { received, replies });
                    self.carry_out(world);
                }
                return;
            }
            driver::Event::Failed(_) | driver::Event::Pushed { .. } => {}
        }
        self.out.current = self.out.take_truth(number);
        self.handle(link, event);
    }

    fn handle(&mut self, link: LinkId, event: driver::Event) {
        let now = Now { mono: self.out.now, wall: self.out.wall };
        self.watcher.handle(now, driver::Input::Link(link, event));
    }

    /// A server or a Sentinel announces something.
    fn announced(&mut self, link: LinkId, push: Push) {
        let Some(wire) = self.net.wires.get_mut(&link) else { return };
        if let (Some(server), Push::Changed(key)) = (wire.listens_to(), &push) {
            self.out.deeds.push(Deed::Announced(server, key.clone()));
        }
        wire.inbox.push(push);
        if let Some(event) = wire.take_pushed() {
            self.handle(link, event);
        }
    }

    /// All connections to a server are reset. Without a batch in flight, that goes unnoticed until
    /// the next one is sent.
    fn broke(&mut self, server: usize) {
        let wires = self.net.wires.iter_mut();
        let broken: Vec<LinkId> =
            wires.filter_map(|(link, wire)| wire.breaks(server).then_some(*link)).collect();
        for link in broken {
            self.handle(link, net::closed());
        }
    }

    /// Loads its configuration again. If it has `changed`, the tasks are in another order with
    /// other thresholds, and sometimes one is missing.
    pub(crate) fn reload(&mut self, changed: bool, world: &mut World) {
        self.out.now = mono(world.now);
        self.out.wall = wall(world, self.out.agent);
        self.out.epoch += 1;
        let mut rng =
            Rng::new(self.plan.seed, 60 + self.out.agent as u64 + 100 * u64::from(self.out.epoch));
        self.out.open.clear();
        if changed {
            self.out.configured = draw_configured(self.plan.tasks.len(), &mut rng);
            let specs = self.plan.spec.tasks.iter();
            self.specs = specs.map(|spec| Arc::new(with_thresholds(spec, &mut rng))).collect();
        }
        let specs = self.out.configured.iter().map(|task| Arc::clone(&self.specs[*task]));
        let tasks = specs.collect();
        let spec = WatchSpec { epoch: self.out.epoch, tasks, ..WatchSpec::clone(&self.plan.spec) };
        self.out.send(Input::Config(Arc::new(spec)));
        let assignment = assignment(&self.plan, self.out.epoch, &self.specs, &self.out.configured);
        let now = Now { mono: self.out.now, wall: self.out.wall };
        self.watcher.handle(now, driver::Input::Assigned { assignment, same_logins: true });
        self.out.rhythm_at = now.mono;
        self.act(world);
    }

    /// Carries out what the watcher wants, and plans when to ask it again.
    fn act(&mut self, world: &mut World) {
        self.carry_out(world);
        if let Some(next) = self.watcher.next_wake() {
            let at =
                next.ms().saturating_sub(MONO_MS).max(world.now + u64::from(next <= self.out.now));
            if self.wake_at.is_none_or(|planned| at < planned || planned < world.now) {
                self.wake_at = Some(at);
                world.queue.push(at, Event::Wake { agent: self.out.agent, life: self.out.life });
            }
        }
    }

    fn carry_out(&mut self, world: &mut World) {
        let now = Now { mono: self.out.now, wall: self.out.wall };
        while let Some(action) = self.watcher.poll(now) {
            match action {
                Action::Dial(dial) => self.net.dial(dial, now, world),
                Action::Send { link, commands } => self.net.send(link, commands, now, world),
                Action::Hear(link) => {
                    let pushed = self.net.wires.get_mut(&link).and_then(Wire::hear);
                    if let Some(event) = pushed {
                        self.handle(link, event);
                    }
                }
                Action::Close(link) => self.net.close(link, world),
                Action::Evidence(input) => self.out.evidence(input),
                Action::Exchange(_) | Action::Note(_) => {}
            }
        }
        self.out.current = None;
    }

    /// Keeps what a server did with a batch, until its replies arrive.
    pub(crate) fn keep_truth(&mut self, truth: BatchTruth) {
        let oldest = truth.number.saturating_sub(100_000);
        while self.out.truths.first_key_value().is_some_and(|(number, _)| *number <= oldest) {
            self.out.truths.pop_first();
        }
        self.out.truths.insert(truth.number, truth);
    }

    /// The actions since the last call.
    pub(crate) fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.out.deeds)
    }

    /// Passes an input to its state.
    pub(crate) fn step(&mut self, at: Mono, input: Input) -> Vec<ModelEvent> {
        if let Some(recorded) = &mut self.recorded {
            recorded.push((at, self.out.wall, input.clone()));
        }
        self.state.step(at, input)
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.state.snapshot(self.out.now)
    }

    /// The spec of a task in the configuration in force, if it is configured.
    pub(crate) fn configured(&self, task: usize) -> Option<&TaskSpec> {
        self.out.configured.contains(&task).then(|| &*self.specs[task])
    }
}

/// What the watcher is to watch.
fn assignment(
    plan: &Plan,
    epoch: u32,
    specs: &[Arc<TaskSpec>],
    configured: &[usize],
) -> Arc<Assignment> {
    let redis = &plan.spec.stores[0];
    let nodes: Vec<HostPort> = redis.addresses.iter().map(|address| host_port(address)).collect();
    let servers = match plan.kind() {
        RedisKind::Standalone => Servers::One(nodes[0].clone()),
        RedisKind::Replicated => Servers::Nodes(nodes),
        RedisKind::Sentinel => Servers::Sentinel(Sentinels {
            master: String::from("main"),
            nodes,
            peers: Peers::default(),
        }),
        RedisKind::Cluster => Servers::Cluster(Cluster { nodes, peers: Peers::default() }),
    };
    let store = Store {
        name: Arc::clone(&redis.name),
        servers,
        db: redis.db,
        interval_ms: redis.interval_ms,
        timeout_ms: redis.timeout_ms,
        assume_master: false,
        wake_ups: plan.wakes,
    };
    let tasks = (0..).map(TaskIndex).zip(configured.iter().map(|task| Arc::clone(&specs[*task])));
    let (index, tasks) = (StoreIndex(0), Arc::new(tasks.collect()));
    Arc::new(Assignment { epoch, index, store, tasks, sizes: plan.sizes })
}

fn host_port(address: &str) -> HostPort {
    let (host, port) = address.split_once(':').unwrap_or((address, "6379"));
    HostPort { host: host.to_owned(), port: port.parse().unwrap_or(6_379) }
}

/// Draws an order of the tasks; in a quarter of the cases some are missing.
fn draw_configured(tasks: usize, rng: &mut Rng) -> Vec<usize> {
    let absent = if rng.percent(25) { 15 } else { 0 };
    let mut left = Vec::with_capacity(tasks);
    for task in 0..tasks {
        if !rng.percent(absent) {
            left.push(task);
        }
    }
    let mut configured = Vec::with_capacity(left.len());
    while !left.is_empty() {
        configured.push(left.swap_remove(rng.index(left.len())));
    }
    configured
}

/// Draws each threshold as planned, half of it or twice.
fn with_thresholds(spec: &TaskSpec, rng: &mut Rng) -> TaskSpec {
    let mut draw = |ms: u64| ms * rng.weighted(&[(60, 2), (20, 1), (20, 4)]).unwrap_or(2) / 2;
    TaskSpec {
        grace_ms: draw(spec.grace_ms),
        settle_ms: draw(spec.settle_ms),
        wind_down_ms: draw(spec.wind_down_ms),
        blind_after_ms: draw(spec.blind_after_ms),
        progress: spec.progress.clone().map(|mut it| {
            it.stale_after_ms = draw(it.stale_after_ms);
            it
        }),
        ..spec.clone()
    }
}

fn wall(world: &World, agent: usize) -> AgentWall {
    AgentWall(EPOCH_MS + i64::try_from(world.now).unwrap_or(0) + world.wall_offset[agent])
}
