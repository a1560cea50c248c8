//! A simulated agent: the model's real schedule, acceptance, decoding and state, driven as
//! `src/sampler.rs`, `src/sampler/node.rs` and `src/engine.rs` drive them, over virtual networks.
//! For each batch it also keeps what the oracle may know about it.

mod authority;
mod link;
mod node;
mod question;
mod serve;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::event::Event as ModelEvent;
use lockwatch_judge::input::{Input, NodeNews, NodeNewsKind, Outcome, Sample, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::{ProgressSpec, StoreIndex, TaskIndex, TaskSpec, WatchSpec};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::read::Scope;
use lockwatch_watch::redis::reply::Reply;

use crate::plan::{Plan, address};
use crate::queue::{Event, SentinelAnswer};
use crate::rng::Rng;
use crate::server::EPOCH_MS;
use crate::world::World;
use authority::{Authority, Plan as Duties};
pub(crate) use link::LONGEST_MS;
use node::{Heard, Node};
pub(crate) use serve::{BatchTruth, PartTruth, Request, send, serve};

/// The agent's monotonic clock when the world begins.
pub(crate) const MONO_MS: u64 = 7_000_000;

/// The agent's monotonic clock at a true instant.
pub(crate) fn mono(now: u64) -> Mono {
    Mono(MONO_MS + now)
}

/// The tasks, with the numbers of the plan and with the configuration in force.
type Specs = Arc<Vec<(TaskIndex, Arc<TaskSpec>)>>;

/// The actions of an agent, in order, for the oracle.
#[derive(Debug)]
pub(crate) enum Deed {
    /// It read, or failed to read, these tasks.
    Attempt(Attempt),
    /// Its state received an input.
    Input(Mono, Input),
}

/// An attempt to read tasks, with the true result.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The server that was read; `None`: none.
    pub(crate) server: Option<usize>,
    pub(crate) standing: Standing,
    /// Only the keys beside the locks were requested.
    pub(crate) beside: bool,
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
    /// Batches that servers have answered completely.
    truths: Vec<BatchTruth>,
    /// When the instants at which tasks are read last changed.
    pub(crate) rhythm_at: Mono,
    /// Batches of several slots since the last query.
    pub(crate) joined: u64,
}

impl Out {
    fn send(&mut self, mut input: Input) {
        if let Input::Sample(sample) = &mut input {
            self.number_anew(&mut sample.outcome);
        }
        self.deeds.push(Deed::Input(self.now, input));
    }

    /// Converts task numbers. The schedules here use the numbers of the plan, the state uses those
    /// of the configuration in force. Tasks missing from that are left out.
    fn number_anew(&self, outcome: &mut Outcome) {
        let number = |task: TaskIndex| {
            let place = self.configured.iter().position(|it| *it == task.0 as usize)?;
            u32::try_from(place).ok().map(TaskIndex)
        };
        fn keep<T>(
            readings: &mut Vec<(TaskIndex, T)>,
            number: impl Fn(TaskIndex) -> Option<TaskIndex>,
        ) {
            let all = std::mem::take(readings).into_iter();
            *readings = all.filter_map(|(task, reading)| Some((number(task)?, reading))).collect();
            readings.sort_by_key(|(task, _)| *task);
        }
        match outcome {
            Outcome::Read { readings, .. } => keep(readings, number),
            Outcome::Beside { readings, .. } => keep(readings, number),
            Outcome::Failed { tasks, .. } => {
                *tasks = tasks.iter().copied().filter_map(number).collect();
                tasks.sort_unstable();
            }
        }
    }

    fn sample(
        &mut self,
        node: Option<(usize, &Arc<str>)>,
        standing: Standing,
        (sent, took_ms): (Mono, u64),
        outcome: Outcome,
    ) {
        let node = node.map(|(_, address)| Arc::clone(address));
        self.send(Input::Sample(Sample {
            epoch: self.epoch,
            store: StoreIndex(0),
            node,
            standing,
            sent,
            took_ms,
            outcome,
        }));
    }

    /// The attempt gave no information. It still counts as an attempt, unless the oracle learned of
    /// it with the replies.
    fn failed(
        &mut self,
        node: Option<(usize, &Arc<str>)>,
        standing: Standing,
        instants: (Mono, u64),
        tasks: Vec<TaskIndex>,
        why: Unknown,
    ) {
        let told = matches!(self.deeds.last(), Some(Deed::Attempt(_)));
        if !told {
            self.attempt_at(
                node.map(|(server, _)| server),
                (standing, false),
                instants,
                &tasks,
                None,
                Vec::new(),
            );
        }
        self.sample(node, standing, instants, Outcome::Failed { tasks, why });
    }

    /// The keys beside some locks could not be read.
    fn failed_beside(
        &mut self,
        node: Option<(usize, &Arc<str>)>,
        now: Mono,
        tasks: &[TaskIndex],
        specs: &[(TaskIndex, Arc<TaskSpec>)],
        why: Unknown,
    ) {
        let instants = (now, 0);
        self.attempt_at(
            node.map(|(server, _)| server),
            (Standing::Decides, true),
            instants,
            tasks,
            None,
            Vec::new(),
        );
        let spec = |task: &TaskIndex| specs.get(task.0 as usize).map(|(_, spec)| (*task, spec));
        let unreadable =
            |(task, spec): (TaskIndex, &Arc<TaskSpec>)| (task, Scope::BESIDE.unreadable(spec, why));
        let readings = tasks.iter().filter_map(spec).map(unreadable).collect();
        self.sample(
            node,
            Standing::Decides,
            instants,
            Outcome::Beside { attestation: None, readings },
        );
    }

    fn news(&mut self, node: &Arc<str>, kind: NodeNewsKind) {
        self.send(Input::Node(NodeNews {
            epoch: self.epoch,
            store: StoreIndex(0),
            node: Arc::clone(node),
            kind,
        }));
    }

    fn attempt(
        &mut self,
        server: usize,
        asked: (Standing, bool),
        instants: (Mono, u64),
        tasks: &[TaskIndex],
        truth: Option<BatchTruth>,
        before: Vec<PartTruth>,
    ) {
        self.attempt_at(Some(server), asked, instants, tasks, truth, before);
    }

    fn attempt_at(
        &mut self,
        server: Option<usize>,
        (standing, beside): (Standing, bool),
        (sent, took_ms): (Mono, u64),
        tasks: &[TaskIndex],
        truth: Option<BatchTruth>,
        before: Vec<PartTruth>,
    ) {
        let tasks = tasks.iter().map(|task| task.0 as usize).collect();
        self.deeds.push(Deed::Attempt(Attempt {
            server,
            standing,
            beside,
            sent,
            took_ms,
            tasks,
            truth,
            before,
        }));
    }

    /// What a server did with a batch; `None` if the replies are not all its own.
    fn take_truth(&mut self, number: u64, own: bool) -> Option<BatchTruth> {
        let position = self.truths.iter().position(|truth| truth.number == number)?;
        let truth = self.truths.swap_remove(position);
        own.then_some(truth)
    }
}

/// An agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) state: State,
    pub(crate) out: Out,
    nodes: Vec<Node>,
    authority: Authority,
    duties: Duties,
    told: Option<lockwatch_judge::input::Topology>,
    orphans_at: Mono,
    specs: Specs,
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
        let specs: Vec<_> = plan
            .spec
            .tasks
            .iter()
            .zip(0..)
            .map(|(spec, index)| (TaskIndex(index), Arc::clone(spec)))
            .collect();
        let now = mono(world.now);
        let mut new = Agent {
            state: State::new(),
            out: Out {
                agent,
                life,
                epoch: plan.spec.epoch,
                configured: (0..plan.tasks.len()).collect(),
                now,
                wall: wall(world, agent),
                deeds: Vec::new(),
                truths: Vec::new(),
                rhythm_at: now,
                joined: 0,
            },
            nodes: Vec::new(),
            authority: Authority::new(plan, agent, life, world),
            duties: Duties::default(),
            told: None,
            orphans_at: now,
            specs: Arc::new(specs),
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
            Event::Arrive { server, connection, replies, .. } => {
                if let Some(position) = self.position(server) {
                    let heard =
                        self.nodes[position].arrived(connection, replies, world, &mut self.out);
                    heard.iter().for_each(|heard| self.heard(position, heard));
                }
            }
            Event::Break { server, connection, .. } => {
                if let Some(position) = self.position(server) {
                    let heard = self.nodes[position].broke(connection, world, &mut self.out);
                    self.heard(position, &heard);
                }
            }
            Event::Dialled { server, dial, outcome, opened, .. } => {
                if let Some(position) = self.position(server) {
                    let heard =
                        self.nodes[position].greeted(dial, outcome, opened, world, &mut self.out);
                    self.heard(position, &heard);
                }
            }
            Event::Told { server, task, .. } => {
                if let Some(position) = self.position(server)
                    && self.nodes[position].decides()
                {
                    self.nodes.iter_mut().for_each(|node| node.hint(task, self.out.now));
                }
            }
            Event::Sentinel { sentinel, answer, .. } => {
                self.authority.asked(sentinel, answer, self.out.agent, self.out.life, world)
            }
            _ => {}
        }
        self.launch(world);
    }

    /// Loads its configuration again: the tasks are in another order with other thresholds, and
    /// sometimes one is missing. Mirrors `configure` of `src/agent.rs` and `reassign` of
    /// `src/sampler.rs`; as there, tasks that are not configured are not read.
    pub(crate) fn reload(&mut self, world: &mut World) {
        self.out.now = mono(world.now);
        self.out.wall = wall(world, self.out.agent);
        self.out.epoch += 1;
        let mut rng =
            Rng::new(self.plan.seed, 60 + self.out.agent as u64 + 100 * u64::from(self.out.epoch));
        self.out.configured = draw_configured(self.plan.tasks.len(), &mut rng);
        let specs: Vec<_> = self
            .plan
            .spec
            .tasks
            .iter()
            .map(|spec| Arc::new(with_thresholds(spec, &mut rng)))
            .collect();
        let tasks = self.out.configured.iter().map(|task| Arc::clone(&specs[*task])).collect();
        let spec = WatchSpec { epoch: self.out.epoch, tasks, ..WatchSpec::clone(&self.plan.spec) };
        self.out.send(Input::Config(Arc::new(spec)));
        self.specs = Arc::new((0..).map(TaskIndex).zip(specs).collect());
        self.told = None;
        self.duties = Duties::default();
        self.authority.forget_plan();
        let now = self.out.now;
        self.nodes.iter_mut().for_each(|node| node.configure(&self.specs, now));
        self.out.rhythm_at = now;
        self.launch(world);
    }

    /// Keeps what a server did with a batch, until its replies arrive.
    pub(crate) fn keep_truth(&mut self, truth: BatchTruth) {
        let oldest = truth.number.saturating_sub(100_000);
        self.out.truths.retain(|other| other.number > oldest);
        self.out.truths.push(truth);
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
        self.out.configured.contains(&task).then(|| &*self.specs[task].1)
    }

    fn position(&self, server: usize) -> Option<usize> {
        self.nodes.iter().position(|node| node.server == server)
    }

    fn heard(&mut self, position: usize, heard: &Heard) {
        let now = self.out.now;
        let node = &mut self.nodes[position];
        node.note_role(heard, now);
        let server = node.server;
        self.read_beside(server, &heard.read);
        for (of, sent, task, switches) in &heard.switches {
            if let Some(node) = self.nodes.iter_mut().find(|node| node.server == *of) {
                node.observe_switches(*task, *sent, switches);
            }
        }
        self.authority.heard(server, heard, now);
    }

    /// The locks of some tasks were read at `server`, so the keys beside them on other servers are
    /// requested now.
    fn read_beside(&mut self, server: usize, read: &[TaskIndex]) {
        let mut by_server: BTreeMap<Result<usize, Unknown>, Vec<TaskIndex>> = BTreeMap::new();
        for task in read {
            if let Some(at) = self.duties.besides.get(task) {
                by_server.entry(*at).or_default().push(*task);
            }
        }
        for (at, tasks) in by_server {
            let node = match at {
                Ok(at) => {
                    self.nodes.iter_mut().find(|node| node.server == at).ok_or(Unknown::NotReadYet)
                }
                Err(why) => Err(why),
            };
            match node {
                Ok(node) => node.read_beside(tasks, server, &mut self.out),
                Err(why) => self.out.failed_beside(None, self.out.now, &tasks, &self.specs, why),
            }
        }
    }

    fn launch(&mut self, world: &mut World) {
        self.follow_authority();
        for node in &mut self.nodes {
            node.launch(world, &mut self.out);
        }
        let now = self.out.now;
        if !self.duties.orphans.is_empty() && self.orphans_at <= now {
            self.orphans_at = now.plus_ms(self.interval_ms());
            for (tasks, why) in &self.duties.orphans {
                self.out.failed(None, Standing::Decides, (now, 0), tasks.clone(), *why);
            }
        }
        self.authority.ask_hurriedly(self.out.agent, self.out.life, world);
        let orphans = (!self.duties.orphans.is_empty()).then_some(self.orphans_at);
        let next = self
            .nodes
            .iter()
            .filter_map(Node::next_wake)
            .chain(self.authority.next_wake())
            .chain(orphans)
            .min();
        if let Some(next) = next {
            let at = next.0.saturating_sub(MONO_MS).max(world.now + u64::from(next <= now));
            if self.wake_at.is_none_or(|planned| at < planned || planned < world.now) {
                self.wake_at = Some(at);
                world.queue.push(at, Event::Wake { agent: self.out.agent, life: self.out.life });
            }
        }
    }

    fn interval_ms(&self) -> u64 {
        self.plan.spec.stores.first().map_or(1_000, |redis| redis.interval_ms)
    }

    /// Applies the plan that follows from what is known of the servers.
    fn follow_authority(&mut self) {
        let now = self.out.now;
        let Some(duties) = self.authority.plan(now) else { return };
        if duties.knows_nothing() {
            return;
        }
        self.duties = duties;
        self.orphans_at = now;
        let mut old: Vec<Node> = self.nodes.drain(..).collect();
        let Some(redis) = self.plan.spec.stores.first() else { return };
        for (server, duty) in &self.duties.nodes {
            let known = old.iter().position(|node| node.server == *server);
            let mut node = match known {
                Some(position) => old.swap_remove(position),
                None => {
                    Node::new(*server, &address(*server), redis, self.plan.sizes, &self.specs, now)
                }
            };
            if node.assign(duty, now) {
                self.out.rhythm_at = now;
            }
            self.nodes.push(node);
        }
        let topology = self.duties.topology(self.out.epoch);
        if self.duties.is_told && self.told.as_ref() != Some(&topology) {
            self.told = Some(topology.clone());
            self.out.send(Input::Topology(topology));
        }
    }

    /// Its connections, for faults that break them.
    #[allow(dead_code, reason = "for looking at a run by hand")]
    pub(crate) fn connections(&self) -> Vec<(usize, Option<u64>)> {
        self.nodes.iter().map(|node| (node.server, node.connection())).collect()
    }
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
        progress: spec
            .progress
            .clone()
            .map(|it| ProgressSpec { stale_after_ms: draw(it.stale_after_ms), ..it }),
        ..spec.clone()
    }
}

fn wall(world: &World, agent: usize) -> AgentWall {
    AgentWall(EPOCH_MS + i64::try_from(world.now).unwrap_or(0) + world.wall_offset[agent])
}

/// Replies with the batch that they answer.
pub(crate) type Tagged = Vec<(u64, Reply)>;

/// A request to a Sentinel, and when it was sent.
pub(crate) type Asked = SentinelAnswer;
