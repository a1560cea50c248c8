//! The state of all stores and tasks. It is changed only here: one input in, events out, and a view
//! on demand.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::event::{Event, EventKind, Subject};
use crate::evidence::Origin;
use crate::input::{
    Attestation, Input, NodeNews, NodeNewsKind, Outcome, SaidOf, Sample, Standing, Topology,
};
use crate::kinds::lock::view::LockView;
use crate::reading::{Parts, TaskReading, Unknown};
use crate::snapshot::{Changed, NodeView, Snapshot, StoreView, TaskViews, WitnessView};
use crate::spec::{StoreIndex, StoreSpec, TaskIndex, TaskSpec, WatchSpec};
use crate::step::{Accepted, Log};
use crate::store::{Store, StoreEvent};
use crate::task::Task;
use crate::time::{Mono, ServerTime};

/// Everything that is known of the watched stores and tasks.
#[derive(Debug, Default)]
pub struct State {
    epoch: u32,
    stores: Vec<Store>,
    tasks: Vec<Entry>,
    /// Positions in `tasks`, sorted by the tasks' names.
    by_name: Vec<usize>,
    /// As of the newest snapshot.
    views: TaskViews,
    /// The views of the stores as of the newest snapshot.
    shown: Vec<Arc<StoreView>>,
    /// How the tasks have changed since their views were built, in the order of the views.
    changed: Vec<Changed>,
    /// The words for why tasks cannot be read although their server answers: the newest, by task
    /// and reason.
    said_of: BTreeMap<(TaskIndex, Unknown), Arc<str>>,
    sequence: u64,
}

/// A task, and the position of its view.
#[derive(Debug)]
struct Entry {
    task: Task,
    rank: usize,
}

/// Identifies a task across configurations: its label `store`, its database and its lock's key.
type Identity = (Arc<str>, u32, &'static str, Vec<u8>, Option<Vec<u8>>);

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
        let mut stores = self.renew(at, Changed::Figures);
        if self.stores.iter().any(|store| !store.spec.authority.alone) {
            let mut held = vec![0; stores.len()];
            let locks = self.views.iter().filter_map(|view| Some((view, view.lock()?)));
            for (view, lock) in locks.filter(|(_, lock)| !lock.rare.witnesses.is_empty()) {
                let index = usize::from(view.spec.store.0);
                if let (Some(store), Some(held)) = (stores.get_mut(index), held.get_mut(index)) {
                    add_lag(&mut store.nodes, &lock.rare.witnesses);
                    *held += u64::from(view.held == Some(true));
                }
            }
            for ((store, view), held) in self.stores.iter_mut().zip(&mut stores).zip(held) {
                store.follow_replicas(&view.nodes, held, at);
                view.grounds = store.grounds;
            }
        }
        self.show(at, stores)
    }

    /// The same at a cost that depends on the events since the previous snapshot. A task without
    /// events is shown as in the previous one, however often it was read since.
    pub fn snapshot_of_events(&mut self, at: Mono) -> Snapshot {
        let mut stores = self.renew(at, Changed::Event);
        for (store, before) in stores.iter_mut().zip(&self.shown) {
            for node in &mut store.nodes {
                if let Some(before) =
                    before.nodes.iter().find(|before| before.address == node.address)
                {
                    (node.locks_behind, node.deadline_lag_ms) =
                        (before.locks_behind, before.deadline_lag_ms);
                }
            }
        }
        self.show(at, stores)
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
    /// stores.
    fn renew(&mut self, at: Mono, least: Changed) -> Vec<StoreView> {
        let (tasks, by_name) = (&mut self.tasks, &self.by_name);
        let (stores, said_of) = (&self.stores, &self.said_of);
        let view = |rank: usize| {
            let position = *by_name.get(rank)?;
            let task = &mut tasks.get_mut(position)?.task;
            let mut view = task.view(at);
            // Whose words explain what is unknown.
            let asked = match view.unknown {
                Some(_) => view.spec.store,
                None => view.spec.switches_on(),
            };
            let [store, asked] =
                [view.spec.store, asked].map(|store| stores.get(usize::from(store.0)));
            let own = |why| said_of.get(&(TaskIndex(u32::try_from(position).ok()?), why)).cloned();
            let unknown = view.unknown.or(view.switches_unknown);
            view.said = unknown.and_then(|why| match why {
                Unknown::FewStores => Some(unread_stores(stores, view.lock()?)),
                _ => own(why).or_else(|| asked?.words(why)),
            });
            view.refuses_writes = view.node.as_ref().and_then(|node| store?.refuses_writes(node));
            Some(view)
        };
        self.views.renew(&mut self.changed, least, view);
        self.stores.iter().map(|store| store.view(at)).collect()
    }

    fn show(&mut self, at: Mono, stores: Vec<StoreView>) -> Snapshot {
        self.sequence += 1;
        self.shown = stores.into_iter().map(Arc::new).collect();
        let (tasks, stores) = (self.views.clone(), self.shown.clone());
        Snapshot { at, sequence: self.sequence, tasks, stores }
    }

    fn configure(&mut self, at: Mono, spec: &WatchSpec) -> Vec<Event> {
        let mut known: BTreeMap<Identity, (TaskIndex, Task)> = BTreeMap::new();
        for (entry, index) in self.tasks.drain(..).zip(0..) {
            if let Some(store) = self.stores.get(usize::from(entry.task.spec().store.0)) {
                let label = store_label(&self.stores, entry.task.spec());
                known.insert(
                    identity(label, &store.spec, entry.task.spec()),
                    (TaskIndex(index), entry.task),
                );
            }
        }
        // A task takes most of a kilobyte, so no capacity is reserved beyond the number of tasks.
        self.tasks = Vec::with_capacity(spec.tasks.len());
        let mut old = core::mem::take(&mut self.stores);
        self.stores = spec.stores.iter().map(|store| renewed_store(&mut old, store)).collect();
        let mut events = Vec::new();
        let mut renumbered = BTreeMap::new();
        for task_spec in &spec.tasks {
            let Some(store) = spec.stores.get(usize::from(task_spec.store.0)) else { continue };
            let label = spec.store_label(task_spec);
            let known = known.remove(&identity(label.clone(), store, task_spec));
            let kept =
                known.filter(|(_, task)| task.spec().kind.library() == task_spec.kind.library());
            let task = match kept {
                Some((before, mut task)) => {
                    renumbered.extend(
                        u32::try_from(self.tasks.len()).ok().map(|now| (before, TaskIndex(now))),
                    );
                    let mut log = Log::new(at, None);
                    task.configure(task_spec.clone(), label, &mut log);
                    events.extend(log.events(task_spec, None));
                    task
                }
                None => Task::new(task_spec.clone(), label, at),
            };
            self.tasks.push(Entry { task, rank: 0 });
        }
        for (store, index) in self.stores.iter_mut().zip(0..) {
            store.failover_reports.renumber(&renumbered);
            let own = || spec.tasks.iter().filter(|task| task.is_on(StoreIndex(index)));
            let blind_after_ms = own().map(|task| task.blind_after_ms).min();
            store.grounds.is_one_of_several =
                own().next().is_some() && own().all(|task| task.is_on_several());
            store.grounds.blind_after_ms = blind_after_ms.unwrap_or(TaskSpec::BLIND_AFTER_MS);
        }
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
        // Tasks may have other numbers from here on, and are asked about again.
        self.said_of.clear();
        self.changed = vec![Changed::Event; self.tasks.len()];
        self.epoch = spec.epoch;
        events
    }

    fn sample(&mut self, at: Mono, sample: &Sample) -> Vec<Event> {
        match &sample.outcome {
            Outcome::Read { attestation, readings } => {
                self.accepted(at, sample, attestation, readings)
            }
            Outcome::Parts { attestation, readings } => {
                self.parts(at, sample, attestation.as_ref(), readings)
            }
            Outcome::Failed { tasks, why } => {
                let mut events = self.store_failed(at, sample, *why);
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
        if let Err(why) = usable {
            if decides {
                let tasks = readings.iter().map(|(task, _)| *task);
                self.tasks_failed(at, sample, tasks, why, &mut events);
            }
            return events;
        }
        let readings_of = || self.of_store(sample.store, readings);
        let continued = readings_of()
            .filter(|_| decides)
            .filter_map(|(task, reading)| task.proves_continued(reading, &origin))
            .max_by_key(|proof| proof.until);
        let unflushed_since = readings_of()
            .filter(|_| decides)
            .filter_map(|(task, reading)| task.proves_unflushed(reading, &origin))
            .min();
        let Some(store) = self.stores.get_mut(usize::from(sample.store.0)) else { return events };
        for (index, reading) in readings {
            let Some(entry) = entry(&mut self.tasks, *index, sample.store) else { continue };
            // What stands elsewhere are only its switches.
            if entry.task.spec().switches_store == Some(sample.store) {
                if !decides || reading.parts.switches.is_none() {
                    continue;
                }
                let batch = batch(sample, attestation, &origin, &store.spec);
                let mut log = Log::new(sample.sent, Some(attestation.last));
                entry.task.observe_parts(&reading.parts, batch, &mut log);
                mark(&mut self.changed, entry, log.is_empty());
                events.extend(log.events(entry.task.spec(), Some(&origin.node)));
                continue;
            }
            if decides && entry.task.answered_elsewhere(sample) {
                continue;
            }
            if let (true, Some(why)) = (decides, reading.guard.why_unknown()) {
                store.count(why);
                if matches!(why, Unknown::ClusterDown | Unknown::Moved | Unknown::Loading) {
                    store.failover_reports.unread(&origin.node, *index, sample.sent);
                }
            }
            let batch = Accepted {
                continued: continued.as_ref(),
                unflushed_since,
                ..batch(sample, attestation, &origin, &store.spec)
            };
            let mut log = Log::new(sample.sent, Some(attestation.last));
            if decides {
                let fate = entry.task.observe(reading, batch, &mut log);
                if let Some(fate) = fate {
                    store.failover_reports.fate(&origin.node, *index, fate);
                }
            } else if let Some(lock) = reading.lock() {
                entry.task.witness(lock, batch, &mut log);
            }
            for overlap in entry.task.overlaps() {
                store.failover_reports.overlaps(*index, overlap);
            }
            mark(&mut self.changed, entry, log.is_empty());
            events.extend(log.events(entry.task.spec(), Some(&origin.node)));
        }
        events
    }

    /// The tasks of `store` among these readings.
    fn of_store<'a>(
        &'a self,
        store: StoreIndex,
        readings: &'a [(TaskIndex, TaskReading)],
    ) -> impl Iterator<Item = (&'a Task, &'a TaskReading)> {
        readings.iter().filter_map(move |(index, reading)| {
            let task = &self.tasks.get(usize::try_from(index.0).ok()?)?.task;
            (task.spec().store == store).then_some((task, reading))
        })
    }

    /// Takes in the keys beside a lock that is on another server.
    fn parts(
        &mut self,
        at: Mono,
        sample: &Sample,
        attestation: Option<&Attestation>,
        readings: &[(TaskIndex, Parts)],
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let from = match attestation {
            Some(attestation) => self
                .origin(sample, attestation, &mut events)
                .map(|(origin, usable)| (attestation, origin, usable)),
            None => None,
        };
        let Some(store) = self.stores.get(usize::from(sample.store.0)) else { return events };
        for (index, parts) in readings {
            let Some(entry) = entry(&mut self.tasks, *index, sample.store) else { continue };
            let (task, mut log) = (&mut entry.task, Log::new(at, None));
            let mut node = None;
            match &from {
                Some((attestation, origin, Ok(()))) => {
                    log = Log::new(sample.sent, Some(attestation.last));
                    let batch = batch(sample, attestation, origin, &store.spec);
                    task.observe_parts(parts, batch, &mut log);
                    node = Some(&origin.node);
                }
                // Even the generation must not be used from a round in which the clock stepped.
                Some((_, _, Err(why))) => {
                    task.parts_failed(&parts.unreadable(*why), true, at, &mut log);
                }
                None => task.parts_failed(parts, false, at, &mut log),
            }
            mark(&mut self.changed, entry, log.is_empty());
            events.extend(log.events(entry.task.spec(), node));
        }
        events
    }

    /// Takes in what a server reports about itself. Returns the origin of its answers, and why they
    /// may not be used, if so.
    fn origin(
        &mut self,
        sample: &Sample,
        attestation: &Attestation,
        events: &mut Vec<Event>,
    ) -> Option<(Arc<Origin>, Result<(), Unknown>)> {
        let store = self.stores.get_mut(usize::from(sample.store.0))?;
        let mut kinds = Vec::new();
        let instants = (sample.sent, sample.took_ms);
        let (origin, usable) = store.accepted(
            sample.node.as_ref()?,
            sample.standing,
            attestation,
            instants,
            &mut kinds,
        );
        // What was read of them before says nothing.
        if kinds.iter().any(|(_, kind)| *kind == EventKind::UnrelatedServers) {
            let own = |entry: &&mut Entry| {
                let spec = entry.task.spec();
                spec.store == sample.store && !spec.is_on_several()
            };
            for entry in self.tasks.iter_mut().filter(own) {
                entry.task =
                    Task::new(entry.task.spec().clone(), store.spec.name.clone(), sample.sent);
                if let Some(changed) = self.changed.get_mut(entry.rank) {
                    *changed = Changed::Event;
                }
            }
        }
        events.extend(store_events(
            sample.store,
            store,
            sample.sent,
            Some(attestation.last),
            kinds,
        ));
        Some((Arc::new(origin), usable))
    }

    fn store_failed(&mut self, at: Mono, sample: &Sample, why: Unknown) -> Vec<Event> {
        let Some(store) = self.stores.get_mut(usize::from(sample.store.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        store.failed(sample.node.as_ref(), sample.standing, why, (sample.sent, at), &mut kinds);
        store_events(sample.store, store, at, None, kinds)
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
            let Some(entry) = entry(&mut self.tasks, index, sample.store) else { continue };
            if entry.task.answered_elsewhere(sample) {
                continue;
            }
            let mut log = Log::new(at, None);
            entry.task.failed(sample.store, why, at, &mut log);
            mark(&mut self.changed, entry, log.is_empty());
            events.extend(log.events(entry.task.spec(), None));
        }
    }

    fn node_news(&mut self, at: Mono, news: &NodeNews) -> Vec<Event> {
        let Some(store) = self.stores.get_mut(usize::from(news.store.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        store.news(&news.node, &news.kind, &mut kinds);
        match &news.kind {
            NodeNewsKind::Said { why, .. } => {
                let own = self.tasks.iter().filter(|entry| entry.task.spec().is_on(news.store));
                own.for_each(|entry| mark(&mut self.changed, entry, true));
                // The newest words count, and these are about the server.
                let tasks = &mut self.tasks;
                self.said_of
                    .retain(|(task, of), _| of != why || entry(tasks, *task, news.store).is_none());
            }
            NodeNewsKind::SaidOf(said) => {
                for SaidOf { task, why, words } in said {
                    let Some(entry) = entry(&mut self.tasks, *task, news.store) else { continue };
                    self.said_of.insert((*task, *why), Arc::clone(words));
                    mark(&mut self.changed, entry, true);
                }
            }
            _ => {}
        }
        store_events(news.store, store, at, None, kinds)
    }

    fn topology(&mut self, at: Mono, topology: &Topology) -> Vec<Event> {
        let Some(store) = self.stores.get_mut(usize::from(topology.store.0)) else {
            return Vec::new();
        };
        let mut kinds = Vec::new();
        store.topology(topology, &mut kinds);
        let own = self.tasks.iter_mut().filter(|entry| entry.task.spec().store == topology.store);
        own.for_each(|entry| {
            entry.task.retain_witnesses(&topology.nodes);
            mark(&mut self.changed, entry, true);
        });
        store_events(topology.store, store, at, None, kinds)
    }

    fn tick(&mut self, at: Mono) -> Vec<Event> {
        let mut events = Vec::new();
        for entry in &mut self.tasks {
            let Some(store) = self.stores.get(usize::from(entry.task.spec().store.0)) else {
                continue;
            };
            let mut log = Log::new(at, None);
            let changed = entry.task.tick(at, stale_after_ms(&store.spec), &mut log);
            if changed || !log.is_empty() {
                mark(&mut self.changed, entry, log.is_empty());
            }
            events.extend(log.events(entry.task.spec(), None));
        }
        for (store, index) in self.stores.iter_mut().zip(0..) {
            let mut kinds = Vec::new();
            store.tick(at, &mut kinds);
            events.extend(store_events(StoreIndex(index), store, at, None, kinds));
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
    origin: &'a Arc<Origin>,
    store: &StoreSpec,
) -> Accepted<'a> {
    Accepted {
        sent: sample.sent,
        attestation,
        origin,
        continued: None,
        unflushed_since: None,
        standing: sample.standing,
        store: sample.store,
        interval_ms: store.interval_ms,
        timeout_ms: store.timeout_ms,
        took_ms: sample.took_ms,
    }
}

/// Without any attempt for a task for this long, the watcher must have fallen behind.
fn stale_after_ms(store: &StoreSpec) -> u64 {
    store.interval_ms.saturating_add(store.timeout_ms).saturating_mul(2)
}

fn identity(label: Arc<str>, store: &StoreSpec, task: &TaskSpec) -> Identity {
    let field = task.lock().and_then(|lock| lock.field.clone());
    (label, store.db, task.kind.name(), task.kind.key().clone(), field)
}

fn store_label(stores: &[Store], task: &TaskSpec) -> Arc<str> {
    task.store_label(|store| Some(&stores.get(usize::from(store.0))?.spec.name))
}

/// The stores of a lock that say nothing about it, each with the reason.
fn unread_stores(stores: &[Store], lock: &LockView) -> Arc<str> {
    let unread = lock.rare.stores.iter().flat_map(|all| all.iter());
    let unread = unread.filter(|shows| shows.holders.is_none()).filter_map(|shows| {
        let name = &stores.get(usize::from(shows.store.0))?.spec.name;
        let why = shows.unknown.unwrap_or(Unknown::Stale);
        Some(alloc::format!("{name}: {}", why.name()))
    });
    unread.collect::<Vec<_>>().join(", ").into()
}

fn name(tasks: &[Entry], position: usize) -> Option<&str> {
    tasks.get(position).map(|entry| &*entry.task.spec().name)
}

/// A store with unchanged servers keeps its state. Any other starts again, except for the counters
/// under its name.
fn renewed_store(old: &mut Vec<Store>, spec: &StoreSpec) -> Store {
    let Some(position) = old.iter().position(|store| store.spec.name == spec.name) else {
        return Store::new(spec.clone());
    };
    let known = old.swap_remove(position);
    let place = |spec: &StoreSpec| (spec.authority, spec.addresses.clone(), spec.db);
    if place(&known.spec) == place(spec) {
        known.configured(spec.clone())
    } else {
        known.replaced(spec.clone())
    }
}

/// The task of a sample, if it belongs to that store.
fn entry(tasks: &mut [Entry], index: TaskIndex, store: StoreIndex) -> Option<&mut Entry> {
    let entry = tasks.get_mut(usize::try_from(index.0).ok()?)?;
    entry.task.spec().is_on(store).then_some(entry)
}

/// Marks that the task has changed, so that its view is rebuilt. `quiet`: without an event.
fn mark(changed: &mut [Changed], entry: &Entry, quiet: bool) {
    if let Some(changed) = changed.get_mut(entry.rank) {
        *changed = (*changed).max(if quiet { Changed::Figures } else { Changed::Event });
    }
}

fn store_events(
    index: StoreIndex,
    store: &Store,
    at: Mono,
    server_time: Option<ServerTime>,
    kinds: Vec<StoreEvent>,
) -> Vec<Event> {
    let subject = Subject::Store(index, store.spec.name.clone());
    let event = |(node, kind)| Event { at, server_time, subject: subject.clone(), node, kind };
    kinds.into_iter().map(event).collect()
}
