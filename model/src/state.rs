//! The only writer of what is known: one input in, events out, views on demand.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{Event, EventKind, Subject};
use crate::input::{Input, NodeNews, Outcome, Sample, Vouch};
use crate::node::Node;
use crate::reading::{LockReading, TaskReading, Unknown};
use crate::snapshot::{Snapshot, TaskView};
use crate::spec::{RedisIndex, RedisSpec, TaskIndex, TaskSpec, WatchSpec};
use crate::task::{Log, Task};
use crate::time::{Mono, ServerTime};

/// Everything that is known.
#[derive(Debug, Default)]
pub struct State {
    epoch: u32,
    nodes: Vec<Node>,
    tasks: Vec<Entry>,
    /// Positions in `tasks`, sorted by the tasks' names.
    by_name: Vec<usize>,
    sequence: u64,
}

/// A task and its view, which is made anew only after the task changed.
#[derive(Debug)]
struct Entry {
    task: Task,
    view: Option<Arc<TaskView>>,
}

/// What a task is recognised by across configurations: its redis' name, its database and its lock's key.
type Identity = (Arc<str>, u32, Vec<u8>);

type TaskEvents = Vec<(Mono, Option<ServerTime>, EventKind)>;

impl State {
    /// Knows nothing yet.
    pub fn new() -> State {
        State::default()
    }

    /// Takes in `input`, which became known at `at`. Instants must not go back from call to call.
    pub fn step(&mut self, at: Mono, input: Input) -> Vec<Event> {
        match input {
            Input::Config(spec) => self.configure(at, &spec),
            Input::Sample(sample) if sample.epoch == self.epoch => self.sample(at, &sample),
            Input::Node(news) if news.epoch == self.epoch => self.node_news(at, &news),
            // Asked for under a configuration that is no longer in force.
            Input::Sample(_) | Input::Node(_) => Vec::new(),
            Input::Tick => self.tick(at),
        }
    }

    /// The view as of `at`.
    pub fn snapshot(&mut self, at: Mono) -> Snapshot {
        self.sequence += 1;
        for entry in &mut self.tasks {
            if entry.view.is_none() {
                entry.view = Some(Arc::new(entry.task.view(at)));
            }
        }
        let tasks = self.by_name.iter().filter_map(|position| self.tasks.get(*position)?.view.clone()).collect();
        let redises = self.nodes.iter().map(|node| Arc::new(node.view())).collect();
        Snapshot { at, sequence: self.sequence, tasks, redises }
    }

    fn configure(&mut self, at: Mono, spec: &WatchSpec) -> Vec<Event> {
        let mut known: BTreeMap<Identity, Task> = BTreeMap::new();
        for entry in self.tasks.drain(..) {
            if let Some(node) = self.nodes.get(usize::from(entry.task.spec.redis.0)) {
                known.insert(identity(&node.spec, &entry.task.spec), entry.task);
            }
        }
        let mut old_nodes = core::mem::take(&mut self.nodes);
        self.nodes = spec.redises.iter().map(|redis| renewed_node(&mut old_nodes, redis)).collect();
        let mut events = Vec::new();
        for task_spec in &spec.tasks {
            let Some(redis) = spec.redises.get(usize::from(task_spec.redis.0)) else { continue };
            let kept =
                known.remove(&identity(redis, task_spec)).filter(|task| task.spec.lock.scheme == task_spec.lock.scheme);
            let task = match kept {
                Some(mut task) => {
                    let mut log = Vec::new();
                    task.configure(
                        task_spec.clone(),
                        redis.name.clone(),
                        &mut Log { at, server: None, events: &mut log },
                    );
                    events.extend(task_events(task_spec, log));
                    task
                }
                None => Task::new(task_spec.clone(), redis.name.clone(), at),
            };
            self.tasks.push(Entry { task, view: None });
        }
        self.by_name = (0..self.tasks.len()).collect();
        let tasks = &self.tasks;
        self.by_name.sort_by(|a, b| name(tasks, *a).cmp(&name(tasks, *b)));
        self.epoch = spec.epoch;
        events
    }

    fn sample(&mut self, at: Mono, sample: &Sample) -> Vec<Event> {
        match &sample.outcome {
            Outcome::Read { vouch, readings } => self.accepted(sample, vouch, readings),
            Outcome::Failed { tasks, why } => self.failed(at, sample.redis, tasks, *why),
        }
    }

    fn accepted(&mut self, sample: &Sample, vouch: &Vouch, readings: &[(TaskIndex, TaskReading)]) -> Vec<Event> {
        let Some(node) = self.nodes.get_mut(usize::from(sample.redis.0)) else { return Vec::new() };
        let mut kinds = Vec::new();
        node.accepted(vouch, sample.took_ms, &mut kinds);
        for (_, reading) in readings {
            if let LockReading::Unknown(why) = reading.lock {
                node.count(why);
            }
        }
        let mut events = node_events(sample.redis, node, sample.sent, Some(vouch.last), kinds);
        // A server that refuses to tell its generation proves nothing by it.
        let generation = node.generation().filter(|_| vouch.generation.is_some()).cloned();
        for (index, reading) in readings {
            let Some(entry) = entry(&mut self.tasks, *index, sample.redis) else { continue };
            let mut log = Vec::new();
            let mut writer = Log { at: sample.sent, server: Some(vouch.last), events: &mut log };
            entry.task.observe(reading, sample.sent, vouch, generation.as_ref(), &mut writer);
            entry.view = None;
            events.extend(task_events(&entry.task.spec, log));
        }
        events
    }

    fn failed(&mut self, at: Mono, redis: RedisIndex, tasks: &[TaskIndex], why: Unknown) -> Vec<Event> {
        let Some(node) = self.nodes.get_mut(usize::from(redis.0)) else { return Vec::new() };
        let mut kinds = Vec::new();
        node.failed(why, &mut kinds);
        let mut events = node_events(redis, node, at, None, kinds);
        for index in tasks {
            let Some(entry) = entry(&mut self.tasks, *index, redis) else { continue };
            let mut log = Vec::new();
            entry.task.failed(why, at, &mut Log { at, server: None, events: &mut log });
            entry.view = None;
            events.extend(task_events(&entry.task.spec, log));
        }
        events
    }

    fn node_news(&mut self, at: Mono, news: &NodeNews) -> Vec<Event> {
        let Some(node) = self.nodes.get_mut(usize::from(news.redis.0)) else { return Vec::new() };
        let mut kinds = Vec::new();
        node.news(&news.kind, &mut kinds);
        node_events(news.redis, node, at, None, kinds)
    }

    fn tick(&mut self, at: Mono) -> Vec<Event> {
        let mut events = Vec::new();
        for entry in &mut self.tasks {
            let Some(node) = self.nodes.get(usize::from(entry.task.spec.redis.0)) else { continue };
            let mut log = Vec::new();
            let changed =
                entry.task.tick(at, stale_after_ms(&node.spec), &mut Log { at, server: None, events: &mut log });
            if changed || !log.is_empty() {
                entry.view = None;
            }
            events.extend(task_events(&entry.task.spec, log));
        }
        events
    }
}

/// Without any news of a task for so long, the sampler must have fallen behind.
fn stale_after_ms(redis: &RedisSpec) -> u64 {
    redis.interval_ms.saturating_add(redis.timeout_ms).saturating_mul(2)
}

fn identity(redis: &RedisSpec, task: &TaskSpec) -> Identity {
    (redis.name.clone(), redis.db, task.lock.key.clone())
}

fn name(tasks: &[Entry], position: usize) -> Option<&str> {
    tasks.get(position).map(|entry| &*entry.task.spec.name)
}

/// The node of an unchanged server goes on; any other begins anew.
fn renewed_node(old: &mut Vec<Node>, redis: &RedisSpec) -> Node {
    let same =
        |node: &Node| (&node.spec.name, &node.spec.address, node.spec.db) == (&redis.name, &redis.address, redis.db);
    match old.iter().position(same) {
        Some(position) => old.swap_remove(position).configured(redis.clone()),
        None => Node::new(redis.clone()),
    }
}

/// The task of a sample, if it does live in that redis.
fn entry(tasks: &mut [Entry], index: TaskIndex, redis: RedisIndex) -> Option<&mut Entry> {
    let entry = tasks.get_mut(usize::try_from(index.0).ok()?)?;
    (entry.task.spec.redis == redis).then_some(entry)
}

fn task_events(spec: &Arc<TaskSpec>, log: TaskEvents) -> impl Iterator<Item = Event> {
    let subject = Subject::Task(spec.clone());
    log.into_iter().map(move |(at, server_time, kind)| Event { at, server_time, subject: subject.clone(), kind })
}

fn node_events(
    index: RedisIndex,
    node: &Node,
    at: Mono,
    server_time: Option<ServerTime>,
    kinds: Vec<EventKind>,
) -> Vec<Event> {
    let subject = Subject::Redis(index, node.spec.name.clone());
    kinds.into_iter().map(|kind| Event { at, server_time, subject: subject.clone(), kind }).collect()
}
