//! One task for each configured Redis: connects to its servers, tracks which of them decide, sends
//! reads when the schedules are due, and passes all results to the engine.
//!
//! Failures are data: a batch that fails, and each tick without a connection or without a deciding
//! server, is reported for exactly the tasks concerned.

mod authority;
mod link;
mod node;
mod pace;
pub mod question;
mod seeker;
mod sentinel;
mod urgency;
mod wake_ups;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use lockwatch_judge::input::{Input, NodeNews, NodeNewsKind, Outcome, Sample, Standing, Topology};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, TaskSpec, position_of};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::read::Scope;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::clock::Clock;
use crate::config::{RedisConfig, ms};
use crate::trace::Traces;
use authority::{Authority, Plan};
use node::{Heard, News, Node};
use wake_ups::{Filter, Hints};

/// The work of one sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch of the configuration that this belongs to.
    pub epoch: u32,
    /// Which redis this is.
    pub redis: StoreIndex,
    /// The configuration of the Redis.
    pub config: RedisConfig,
    /// The tasks with keys in it, sorted by index.
    pub tasks: Vec<(TaskIndex, Arc<TaskSpec>)>,
}

/// Some tasks of one Redis, sorted by index.
type Tasks = Arc<Vec<(TaskIndex, Arc<TaskSpec>)>>;

/// The address of a server, or why there is none.
type Server = Result<Arc<str>, Unknown>;

/// Samples one Redis until `assignments` is closed or the engine is gone. A new assignment keeps
/// the connections if servers and logins are unchanged. Exchanges about tasks that are armed on
/// `traces` are put there.
pub async fn run(
    mut assignments: watch::Receiver<Arc<Assignment>>,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
    traces: Traces,
) {
    let assignment = Arc::clone(&assignments.borrow_and_update());
    let mut sampler = Sampler::new(assignment, inputs, clock, traces);
    while sampler.launch().await.is_ok() {
        let wake = sampler.next_wake().map(|at| clock.instant(at));
        let went_on = tokio::select! {
            changed = assignments.changed() => match changed {
                Ok(()) => {
                    sampler.reassign(Arc::clone(&assignments.borrow_and_update()));
                    Ok(())
                }
                Err(_) => return,
            },
            (node, news) = next_news(&mut sampler.nodes) => sampler.heard(node, news).await,
            () = sampler.authority.changed() => Ok(()),
            () = async { sleep_until(wake.unwrap_or_else(tokio::time::Instant::now)).await }, if wake.is_some() => Ok(()),
        };
        if went_on.is_err() {
            return;
        }
    }
}

/// The engine's channel is closed.
struct Gone;

/// What all samples of a Redis share, and where they are sent.
struct Out {
    epoch: u32,
    redis: StoreIndex,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
    traces: Traces,
}

struct Sampler {
    assignment: Arc<Assignment>,
    /// The tasks of the assignment, shared by all servers because a plan is made several times a
    /// second.
    tasks: Tasks,
    /// Maps keys to tasks; `None` if the servers are not asked to announce changes.
    filter: Option<Arc<Filter>>,
    authority: Authority,
    /// The plan in force.
    plan: Plan,
    nodes: Vec<Node>,
    /// The topology that was reported to the engine last.
    told: Option<Topology>,
    /// When to report again that nobody decides about the tasks without a server.
    orphans_at: Mono,
    out: Out,
}

/// Waits for a dial to end or the oldest batch of a server to complete; returns the server's
/// position and the news.
async fn next_news(nodes: &mut [Node]) -> (usize, News) {
    poll_fn(|context| {
        for (position, node) in nodes.iter_mut().enumerate() {
            if let Poll::Ready(news) = node.poll_news(context) {
                return Poll::Ready((position, news));
            }
        }
        Poll::Pending
    })
    .await
}

impl Sampler {
    fn new(
        assignment: Arc<Assignment>,
        inputs: mpsc::Sender<Input>,
        clock: Clock,
        traces: Traces,
    ) -> Sampler {
        let out = Out { epoch: assignment.epoch, redis: assignment.redis, inputs, clock, traces };
        let tasks = Arc::new(assignment.tasks.clone());
        Sampler {
            filter: filter(&assignment.config, &tasks),
            tasks,
            authority: Authority::new(&assignment.config, clock),
            plan: Plan::default(),
            nodes: Vec::new(),
            told: None,
            orphans_at: clock.now(),
            assignment,
            out,
        }
    }

    /// Sends everything that is due now.
    async fn launch(&mut self) -> Result<(), Gone> {
        self.follow_authority().await?;
        for node in &mut self.nodes {
            node.launch(&self.out).await?;
        }
        let now = self.out.clock.now();
        if self.orphans_at <= now && !self.plan.orphans.is_empty() {
            self.orphans_at = now.plus_ms(ms(self.assignment.config.interval));
            for (tasks, why) in &self.plan.orphans {
                let tasks = tasks.iter().map(|(task, _)| *task).collect();
                self.out
                    .sample(None, Standing::Decides, (now, 0), Outcome::Failed { tasks, why: *why })
                    .await?;
            }
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Mono> {
        let orphans = (!self.plan.orphans.is_empty()).then_some(self.orphans_at);
        self.nodes
            .iter()
            .filter_map(Node::next_wake)
            .chain(self.authority.next_wake())
            .chain(orphans)
            .min()
    }

    /// Applies the plan that follows from what is known of the servers.
    async fn follow_authority(&mut self) -> Result<(), Gone> {
        let now = self.out.clock.now();
        let Some(plan) = self.authority.plan(now, &self.assignment.config, &self.tasks) else {
            return Ok(());
        };
        if plan.knows_nothing() {
            // After a reload the servers stay connected until it is known which of them decide.
            return Ok(());
        }
        self.plan = plan;
        self.orphans_at = now;
        let mut old: BTreeMap<Arc<str>, Node> =
            self.nodes.drain(..).map(|node| (Arc::clone(node.address()), node)).collect();
        for planned in &self.plan.nodes {
            let endpoint = self.assignment.config.endpoint(planned.at.clone());
            let mut node = match old.remove(&planned.address) {
                Some(node) if *node.endpoint() == endpoint => node,
                _ => {
                    Node::new(Arc::clone(&planned.address), endpoint, &self.assignment.config, now)
                }
            };
            node.assign(&planned.duty, now);
            node.listen(self.filter.as_ref(), self.out.clock);
            self.nodes.push(node);
        }
        let topology = self.plan.topology(self.out.epoch, self.out.redis);
        if self.plan.is_told && self.told.as_ref() != Some(&topology) {
            self.told = Some(topology.clone());
            self.out.send(Input::Topology(topology)).await?;
        }
        Ok(())
    }

    /// Handles news of the server at this position.
    async fn heard(&mut self, position: usize, news: News) -> Result<(), Gone> {
        let Some(node) = self.nodes.get_mut(position) else { return Ok(()) };
        let heard = node.take(news, &self.out).await?;
        let address = Arc::clone(node.address());
        self.read_beside(&address, heard.read.as_deref().unwrap_or_default()).await?;
        self.observe_switches(&heard);
        if let Some(hints) = &heard.hints {
            self.follow_hints(hints);
        }
        self.authority.heard(&address, &heard, self.out.clock.now());
        Ok(())
    }

    /// Locks were read at `address`: reads what lives beside them on other servers.
    async fn read_beside(&mut self, address: &Arc<str>, read: &[TaskIndex]) -> Result<(), Gone> {
        if self.plan.beside.is_empty() {
            return Ok(());
        }
        let mut by_server: BTreeMap<Server, Vec<(TaskIndex, Scope)>> = BTreeMap::new();
        for task in read {
            for (server, scope) in self.plan.beside.get(task).into_iter().flatten() {
                by_server.entry(server.clone()).or_default().push((*task, *scope));
            }
        }
        let now = self.out.clock.now();
        for (server, parts) in by_server {
            let node = match &server {
                Ok(server) => self
                    .nodes
                    .iter_mut()
                    .find(|node| node.address() == server)
                    .ok_or(Unknown::NotReadYet),
                Err(why) => Err(*why),
            };
            match node {
                Ok(node) => node.read_beside(parts, address, now, &self.out).await?,
                Err(why) => {
                    let spec = |task| spec(&self.assignment.tasks, task);
                    let outcome = Outcome::Beside {
                        attestation: None,
                        readings: unreadable(&parts, spec, why),
                    };
                    self.out.sample(None, Standing::Decides, (now, 0), outcome).await?;
                }
            }
        }
        Ok(())
    }

    /// Passes switches that live on another server to the schedule of the lock's server.
    fn observe_switches(&mut self, heard: &Heard) {
        for (of, sent, task, switches) in &heard.switches {
            if let Some(node) = self.nodes.iter_mut().find(|node| node.address() == of) {
                node.observe_switches(*task, *sent, switches);
            }
        }
    }

    /// A server announced changed keys: the servers that have the locks of these tasks read them at
    /// once.
    fn follow_hints(&mut self, hints: &Hints) {
        let now = self.out.clock.now();
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
    fn reassign(&mut self, assignment: Arc<Assignment>) {
        self.out.epoch = assignment.epoch;
        self.out.redis = assignment.redis;
        self.told = None;
        self.plan = Plan::default();
        if self.assignment.config == assignment.config {
            self.authority.forget_plan();
        } else {
            self.authority = Authority::new(&assignment.config, self.out.clock);
            if !authority::same_servers(&self.assignment.config, &assignment.config) {
                self.nodes.clear();
            }
        }
        let now = self.out.clock.now();
        self.nodes.iter_mut().for_each(|node| node.configure(&assignment.config, now));
        self.tasks = Arc::new(assignment.tasks.clone());
        self.filter = filter(&assignment.config, &self.tasks);
        self.assignment = assignment;
    }
}

impl Out {
    async fn send(&self, input: Input) -> Result<(), Gone> {
        self.inputs.send(input).await.map_err(|_| Gone)
    }

    async fn sample(
        &self,
        node: Option<&Arc<str>>,
        standing: Standing,
        (sent, took_ms): (Mono, u64),
        outcome: Outcome,
    ) -> Result<(), Gone> {
        let Out { epoch, redis, .. } = *self;
        let node = node.cloned();
        self.send(Input::Sample(Sample {
            epoch,
            store: redis,
            node,
            standing,
            sent,
            took_ms,
            outcome,
        }))
        .await
    }

    async fn news(&self, node: &Arc<str>, kind: NodeNewsKind) -> Result<(), Gone> {
        let Out { epoch, redis, .. } = *self;
        self.send(Input::Node(NodeNews { epoch, store: redis, node: Arc::clone(node), kind })).await
    }
}

/// The keys that the servers are asked to announce, if that is enabled.
fn filter(config: &RedisConfig, tasks: &Tasks) -> Option<Arc<Filter>> {
    let wanted = config.wake_ups && !tasks.is_empty();
    wanted.then(|| Arc::new(Filter::new(tasks, ms(config.interval))))
}

fn spec(tasks: &[(TaskIndex, Arc<TaskSpec>)], task: TaskIndex) -> Option<Arc<TaskSpec>> {
    let position = position_of(task, tasks, |(index, _)| *index)?;
    tasks.get(position).map(|(_, spec)| Arc::clone(spec))
}

/// The readings to report when the keys beside some locks cannot be read.
fn unreadable(
    parts: &[(TaskIndex, Scope)],
    spec: impl Fn(TaskIndex) -> Option<Arc<TaskSpec>>,
    why: Unknown,
) -> Vec<(TaskIndex, lockwatch_judge::reading::Beside)> {
    parts
        .iter()
        .filter_map(|(task, scope)| Some((*task, scope.unreadable(&*spec(*task)?, why))))
        .collect()
}
