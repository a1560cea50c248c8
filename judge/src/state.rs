//! The state of the model. It is changed only here: one input in, events out, and a view on demand.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::continuity::generation::Continued;
use crate::event::{Event, EventKind, Subject};
use crate::evidence::Origin;
use crate::input::{Attestation, Input, NodeNews, Outcome, Sample, Standing, Topology};
use crate::reading::{
    Beside, ClaimsReading, LockReading, PauseReading, ProgressReading, SwitchesReading,
    TaskReading, Unknown,
};
use crate::snapshot::{Changed, NodeView, RedisView, Snapshot, TaskViews, WitnessView};
use crate::spec::{RedisIndex, RedisSpec, TaskIndex, TaskSpec, WatchSpec};
use crate::store::{Redis, RedisEvent};
use crate::task::{Accepted, Log, Task};
use crate::time::{Mono, ServerTime};

/// Everything that is known of the watched Redis stores and tasks.
#[derive(Debug, Default)]
pub struct State {
    epoch: u32,
    redises: Vec<Redis>,
    tasks: Vec<Entry>,
    /// Positions in `tasks`, sorted by the tasks' names.
    by_name: Vec<usize>,
    /// As of the newest snapshot.
    views: TaskViews,
    /// The views of the Redis stores as of the newest snapshot.
    shown: Vec<Arc<RedisView>>,
    /// How the tasks have changed since their views were built, in the order of the views.
    changed: Vec<Changed>,
    sequence: u64,
}

/// A task, and the position of its view.
#[derive(Debug)]
struct Entry {
    task: Task,
    rank: usize,
}

/// Identifies a task across configurations: the name of its redis, its database and its lock's key.
type Identity = (Arc<str>, u32, Vec<u8>);

type TaskEvents = Vec<(Mono, Option<ServerTime>, EventKind)>;

impl State {
    /// An empty state.
    pub fn new() -> State {
        State::default()
    }

    /// Takes in `input`, which became known at `at`. Instants must not decrease from call to call.
    pub fn step(&mut self, at: Mono, input: Input) -> Vec<Event> {
        match input {
            Input::Config(spec) => self.configure(at, &spec),
            Input::Sample(sample) if sample.epoch == self.epoch => self.sample(at, &sample),
            Input::Node(news) if news.epoch == self.epoch => self.node_news(at, &news),
            Input::Topology(topology) if topology.epoch == self.epoch => {
                self.topology(at, &topology)
            }
            // Requested under a configuration that is no longer in force.
            Input::Sample(_) | Input::Node(_) | Input::Topology(_) => Vec::new(),
            Input::Tick => self.tick(at),
        }
    }

    /// The view as of `at`.
    pub fn snapshot(&mut self, at: Mono) -> Snapshot {
        let mut redises = self.renew(at, Changed::Figures);
        if self.redises.iter().any(|redis| !redis.spec.authority.alone) {
            for view in self.views.iter().filter(|view| !view.lock().witnesses.is_empty()) {
                if let Some(redis) = redises.get_mut(usize::from(view.spec.redis.0)) {
                    add_lag(&mut redis.nodes, &view.lock().witnesses);
                }
            }
        }
        self.show(at, redises)
    }

    /// The same at a cost that depends on the events since the previous snapshot. A task without
    /// events is shown as in the previous one, however often it was read since.
    pub fn snapshot_of_events(&mut self, at: Mono) -> Snapshot {
        let mut redises = self.renew(at, Changed::Event);
        for (redis, before) in redises.iter_mut().zip(&self.shown) {
            for node in &mut redis.nodes {
                if let Some(before) =
                    before.nodes.iter().find(|before| before.address == node.address)
                {
                    (node.locks_behind, node.deadline_lag_ms) =
                        (before.locks_behind, before.deadline_lag_ms);
                }
            }
        }
        self.show(at, redises)
    }

    /// Makes the next snapshot rebuild the view of the task called `name`, whichever kind of
    /// snapshot it is. Returns whether it would have shown old figures.
    pub fn look_at(&mut self, name: &str) -> bool {
        let changed = self.views.position(name).and_then(|rank| self.changed.get_mut(rank));
        let Some(changed) = changed.filter(|changed| **changed != Changed::No) else {
            return false;
        };
        *changed = Changed::Event;
        true
    }

    /// Rebuilds the views of tasks that have changed by at least `least`. Returns the views of the
    /// Redis stores.
    fn renew(&mut self, at: Mono, least: Changed) -> Vec<RedisView> {
        let (tasks, by_name) = (&mut self.tasks, &self.by_name);
        let view = |rank: usize| Some(tasks.get_mut(*by_name.get(rank)?)?.task.view(at));
        self.views.renew(&mut self.changed, least, view);
        self.redises.iter().map(|redis| redis.view(at)).collect()
    }

    fn show(&mut self, at: Mono, redises: Vec<RedisView>) -> Snapshot {
        self.sequence += 1;
        self.shown = redises.into_iter().map(Arc::new).collect();
        let (tasks, redises) = (self.views.clone(), self.shown.clone());
        Snapshot { at, sequence: self.sequence, tasks, redises }
    }

    fn configure(&mut self, at: Mono, spec: &WatchSpec) -> Vec<Event> {
        let mut known: BTreeMap<Identity, (TaskIndex, Task)> = BTreeMap::new();
        for (entry, index) in self.tasks.drain(..).zip(0..) {
            if let Some(redis) = self.redises.get(usize::from(entry.task.spec.redis.0)) {
                known.insert(
                    identity(&redis.spec, &entry.task.spec),
                    (TaskIndex(index), entry.task),
                );
            }
        }
        // A task takes more than a kilobyte, so no capacity is reserved beyond the number of tasks.
        self.tasks = Vec::with_capacity(spec.tasks.len());
        let mut old = core::mem::take(&mut self.redises);
        self.redises = spec.redises.iter().map(|redis| renewed_redis(&mut old, redis)).collect();
        let mut events = Vec::new();
        let mut renumbered = BTreeMap::new();
        for task_spec in &spec.tasks {
            let Some(redis) = spec.redises.get(usize::from(task_spec.redis.0)) else { continue };
            let known = known.remove(&identity(redis, task_spec));
            let kept = known.filter(|(_, task)| task.spec.lock.library == task_spec.lock.library);
            let task = match kept {
                Some((before, mut task)) => {
                    renumbered.extend(
                        u32::try_from(self.tasks.len()).ok().map(|now| (before, TaskIndex(now))),
                    );
                    let mut log = Vec::new();
                    task.configure(
                        task_spec.clone(),
                        redis.name.clone(),
                        &mut Log { at, server: None, events: &mut log },
                    );
                    events.extend(task_events(task_spec, None, log));
                    task
                }
                None => Task::new(task_spec.clone(), redis.name.clone(), at),
            };
            self.tasks.push(Entry { task, rank: 0 });
        }
        self.redises.iter_mut().for_each(|redis| redis.failover_reports.renumber(&renumbered));
        self.by_name = (0..self.tasks.len()).collect();
        let tasks = &self.tasks;
        self.by_name.sort_by(|a, b| name(tasks, *a).cmp(&name(tasks, *b)));
        for (rank, position) in self.by_name.iter().enumerate() {
            if let Some(entry) = self.tasks.get_mut(*position) {
                entry.rank = rank;
            }
        }
        self.views = TaskViews::default();
        self.shown.clear();
        self.changed = vec![Changed::Event; self.tasks.len()];
        self.epoch = spec.epoch;
        events
    }

    fn sample(&mut self, at: Mono, sample: &Sample) -> Vec<Event> {
        match &sample.outcome {
            Outcome::Read { attestation, readings } => {
                self.accepted(at, sample, attestation, readings)
            }
            Outcome::Beside { attestation, readings } => {
                self.beside(at, sample, attestation.as_ref(), readings)
            }
            Outcome::Failed { tasks, why } => {
                let mut events = self.redis_failed(at, sample, *why);
                if sample.standing == Standing::Decides {
                    self.tasks_failed(at, sample, tasks.iter().copied(), *why, &mut events);
                }
                events
            }
        }
    }

    fn accepted(
        &mut self,
        at: Mono,
        sample: &Sample,
        attestation: &Attestation,
        readings: &[(TaskIndex, TaskReading)],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let Some((origin, usable)) = self.origin(sample, attestation, &mut events) else {
            return events;
        };
        let decides = sample.standing == Standing::Decides;
        if !usable {
            if decides {
                let tasks = readings.iter().map(|(task, _)| *task);
                self.tasks_failed(at, sample, tasks, Unknown::ClockStep, &mut events);
            }
            return events;
        }
        let continued =
            if decides { self.continued(sample.redis, &origin, readings) } else { None };
        let Some(redis) = self.redises.get_mut(usize::from(sample.redis.0)) else { return events };
        for (index, reading) in readings {
            let Some(entry) = entry(&mut self.tasks, *index, sample.redis) else { continue };
            if decides && entry.task.answered_elsewhere(sample) {
                continue;
            }
            if let (true, LockReading::Unknown(why)) = (decides, &reading.lock) {
                redis.count(*why);
                if matches!(why, Unknown::ClusterDown | Unknown::Moved | Unknown::Loading) {
                    redis.failover_reports.unread(&origin.node, *index, sample.sent);
                }
            }
            let batch = Accepted {
                continued: continued.as_ref(),
                ..batch(sample, attestation, &origin, &redis.spec)
            };
            let mut log = Vec::new();
            let mut writer =
                Log { at: sample.sent, server: Some(attestation.last), events: &mut log };
            if decides {
                let fate = entry.task.observe(reading, batch, &mut writer);
                if let Some(fate) = fate {
                    redis.failover_reports.fate(&origin.node, *index, fate);
                }
            } else {
                entry.task.witness(&reading.lock, batch, &mut writer);
            }
            for overlap in entry.task.overlaps() {
                redis.failover_reports.overlaps(*index, overlap);
            }
            mark(&mut self.changed, entry, &log);
            events.extend(task_events(&entry.task.spec, Some(&origin.node), log));
        }
        events
    }

    /// What these readings prove about the data with which their server began.
    fn continued(
        &self,
        redis: RedisIndex,
        from: &Origin,
        readings: &[(TaskIndex, TaskReading)],
    ) -> Option<Continued> {
        let proofs = readings.iter().filter_map(|(index, reading)| {
            let task = &self.tasks.get(usize::try_from(index.0).ok()?)?.task;
            (task.spec.redis == redis).then(|| task.proves_continued(&reading.lock, from))?
        });
        proofs.max_by_key(|proof| proof.until)
    }

    /// Takes in the keys beside a lock that is on another server.
    fn beside(
        &mut self,
        at: Mono,
        sample: &Sample,
        attestation: Option<&Attestation>,
        readings: &[(TaskIndex, Beside)],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let from = match attestation {
            Some(attestation) => self
                .origin(sample, attestation, &mut events)
                .map(|(origin, usable)| (attestation, origin, usable)),
            None => None,
        };
        let Some(redis) = self.redises.get(usize::from(sample.redis.0)) else { return events };
        for (index, beside) in readings {
            let Some(entry) = entry(&mut self.tasks, *index, sample.redis) else { continue };
            let mut log = Vec::new();
            let node = match &from {
                Some((attestation, origin, true)) => {
                    let mut writer =
                        Log { at: sample.sent, server: Some(attestation.last), events: &mut log };
                    entry.task.observe_beside(
                        beside,
                        batch(sample, attestation, origin, &redis.spec),
                        &mut writer,
                    );
                    Some(&origin.node)
                }
                // Even the generation must not be used from a round in which the clock stepped.
                Some((_, _, false)) => {
                    let refused = unreadable(beside, Unknown::ClockStep);
                    entry.task.failed_beside(
                        &refused,
                        at,
                        &mut Log { at, server: None, events: &mut log },
                    );
                    None
                }
                None => {
                    entry.task.failed_beside(
                        beside,
                        at,
                        &mut Log { at, server: None, events: &mut log },
                    );
                    None
                }
            };
            mark(&mut self.changed, entry, &log);
            events.extend(task_events(&entry.task.spec, node, log));
        }
        events
    }

    /// Takes in what a server reports about itself. Returns the origin of its answers, and whether
    /// they may be used.
    fn origin(
        &mut self,
        sample: &Sample,
        attestation: &Attestation,
        events: &mut Vec<Event>,
    ) -> Option<(Origin, bool)> {
        let redis = self.redises.get_mut(usize::from(sample.redis.0))?;
        let mut kinds = Vec::new();
        let instants = (sample.sent, sample.took_ms);
        let told = redis.accepted(
            sample.node.as_ref()?,
            sample.standing,
            attestation,
            instants,
            &mut kinds,
        );
        events.extend(redis_events(
            sample.redis,
            redis,
            sample.sent,
            Some(attestation.last),
            kinds,
        ));
        Some(told)
    }

    fn redis_failed(&mut self, at: Mono, sample: &Sample, why: Unknown) -> Vec<Event> {
        let Some(redis) = self.redises.get_mut(usize::from(sample.redis.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        redis.failed(sample.node.as_ref(), sample.standing, why, (sample.sent, at), &mut kinds);
        redis_events(sample.redis, redis, at, None, kinds)
    }

    fn tasks_failed(
        &mut self,
        at: Mono,
        sample: &Sample,
        tasks: impl Iterator<Item = TaskIndex>,
        why: Unknown,
        events: &mut Vec<Event>,
    ) {
        for index in tasks {
            let Some(entry) = entry(&mut self.tasks, index, sample.redis) else { continue };
            if entry.task.answered_elsewhere(sample) {
                continue;
            }
            let mut log = Vec::new();
            entry.task.failed(why, at, &mut Log { at, server: None, events: &mut log });
            mark(&mut self.changed, entry, &log);
            events.extend(task_events(&entry.task.spec, None, log));
        }
    }

    fn node_news(&mut self, at: Mono, news: &NodeNews) -> Vec<Event> {
        let Some(redis) = self.redises.get_mut(usize::from(news.redis.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        redis.news(&news.node, &news.kind, &mut kinds);
        redis_events(news.redis, redis, at, None, kinds)
    }

    fn topology(&mut self, at: Mono, topology: &Topology) -> Vec<Event> {
        let Some(redis) = self.redises.get_mut(usize::from(topology.redis.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        redis.topology(topology, &mut kinds);
        let own = self.tasks.iter_mut().filter(|entry| entry.task.spec.redis == topology.redis);
        own.for_each(|entry| {
            entry.task.retain_witnesses(&topology.nodes);
            mark(&mut self.changed, entry, &Vec::new());
        });
        redis_events(topology.redis, redis, at, None, kinds)
    }

    fn tick(&mut self, at: Mono) -> Vec<Event> {
        let mut events = Vec::new();
        for entry in &mut self.tasks {
            let Some(redis) = self.redises.get(usize::from(entry.task.spec.redis.0)) else {
                continue;
            };
            let mut log = Vec::new();
            let changed = entry.task.tick(
                at,
                stale_after_ms(&redis.spec),
                &mut Log { at, server: None, events: &mut log },
            );
            if changed || !log.is_empty() {
                mark(&mut self.changed, entry, &log);
            }
            events.extend(task_events(&entry.task.spec, None, log));
        }
        for (redis, index) in self.redises.iter_mut().zip(0..) {
            let mut kinds = Vec::new();
            redis.tick(at, &mut kinds);
            events.extend(redis_events(RedisIndex(index), redis, at, None, kinds));
        }
        events
    }
}

/// Adds the replication lag of one lock to the totals of the servers.
fn add_lag(nodes: &mut [NodeView], witnesses: &[WitnessView]) {
    for (witness, behind_ms) in
        witnesses.iter().filter_map(|witness| Some((witness, witness.behind_ms?)))
    {
        let Ok(position) = nodes.binary_search_by(|node| node.address.cmp(&witness.node)) else {
            continue;
        };
        if let Some(node) = nodes.get_mut(position) {
            node.locks_behind = Some(node.locks_behind.unwrap_or(0) + u64::from(behind_ms > 0));
            node.deadline_lag_ms = node.deadline_lag_ms.max(Some(behind_ms));
        }
    }
}

fn batch<'a>(
    sample: &Sample,
    attestation: &'a Attestation,
    origin: &'a Origin,
    redis: &RedisSpec,
) -> Accepted<'a> {
    Accepted {
        sent: sample.sent,
        attestation,
        origin,
        continued: None,
        standing: sample.standing,
        interval_ms: redis.interval_ms,
        took_ms: sample.took_ms,
    }
}

/// Replaces an answer that may not be used.
fn unreadable(beside: &Beside, why: Unknown) -> Beside {
    Beside {
        switches: beside.switches.as_ref().map(|_| SwitchesReading::Unknown(why)),
        progress: beside.progress.as_ref().map(|_| ProgressReading::Unknown(why)),
        claims: beside.claims.as_ref().map(|_| ClaimsReading::Unknown(why)),
        hosts: None,
        pause: beside.pause.map(|_| PauseReading::Unknown(why)),
    }
}

/// Without any attempt for a task for this long, the sampler must have fallen behind.
fn stale_after_ms(redis: &RedisSpec) -> u64 {
    redis.interval_ms.saturating_add(redis.timeout_ms).saturating_mul(2)
}

fn identity(redis: &RedisSpec, task: &TaskSpec) -> Identity {
    (redis.name.clone(), redis.db, task.lock.key.clone())
}

fn name(tasks: &[Entry], position: usize) -> Option<&str> {
    tasks.get(position).map(|entry| &*entry.task.spec.name)
}

/// A redis with unchanged servers keeps its state. Any other starts again, except for the counters
/// under its name.
fn renewed_redis(old: &mut Vec<Redis>, spec: &RedisSpec) -> Redis {
    let Some(position) = old.iter().position(|redis| redis.spec.name == spec.name) else {
        return Redis::new(spec.clone());
    };
    let known = old.swap_remove(position);
    let place = |spec: &RedisSpec| (spec.authority, spec.addresses.clone(), spec.db);
    if place(&known.spec) == place(spec) {
        known.configured(spec.clone())
    } else {
        known.replaced(spec.clone())
    }
}

/// The task of a sample, if it belongs to that redis.
fn entry(tasks: &mut [Entry], index: TaskIndex, redis: RedisIndex) -> Option<&mut Entry> {
    let entry = tasks.get_mut(usize::try_from(index.0).ok()?)?;
    (entry.task.spec.redis == redis).then_some(entry)
}

/// Marks that the task has changed, so that its view is rebuilt.
fn mark(changed: &mut [Changed], entry: &Entry, log: &TaskEvents) {
    if let Some(changed) = changed.get_mut(entry.rank) {
        *changed = (*changed).max(if log.is_empty() { Changed::Figures } else { Changed::Event });
    }
}

fn task_events(
    spec: &Arc<TaskSpec>,
    node: Option<&Arc<str>>,
    log: TaskEvents,
) -> impl Iterator<Item = Event> {
    let (subject, node) = (Subject::Task(spec.clone()), node.cloned());
    log.into_iter().map(move |(at, server_time, kind)| Event {
        at,
        server_time,
        subject: subject.clone(),
        node: node.clone(),
        kind,
    })
}

fn redis_events(
    index: RedisIndex,
    redis: &Redis,
    at: Mono,
    server_time: Option<ServerTime>,
    kinds: Vec<RedisEvent>,
) -> Vec<Event> {
    let subject = Subject::Redis(index, redis.spec.name.clone());
    let event = |(node, kind)| Event { at, server_time, subject: subject.clone(), node, kind };
    kinds.into_iter().map(event).collect()
}
