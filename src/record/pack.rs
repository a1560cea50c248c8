//! Converts the inputs of the state to lines of a file and back. Values that equal those of the same
//! server's previous batch are left out.
//!
//! Packer and unpacker keep the same state from the first line of a file, so each file can be read
//! alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use lockwatch_judge::input::{Attestation, Input, Outcome, Sample, Topology};
use lockwatch_judge::reading::{Beside, Extras, GuardReading, LockReading, TaskReading, Unknown};
use lockwatch_judge::spec::{Claimants, StoreIndex, TaskIndex, WatchSpec};
use lockwatch_judge::time::ServerTime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::redact::Redactor;
use super::wire::{Batch, Runs, What};

/// The key under which batches are compared: the server, and whether the batch is of locks or of
/// what lives beside them.
type Source = (StoreIndex, Option<Arc<str>>, bool);

/// The previous values of one server.
struct Memory {
    tasks: Vec<TaskIndex>,
    attestation: Attestation,
    readings: HashMap<TaskIndex, TaskReading>,
}

impl Default for Memory {
    fn default() -> Memory {
        let attestation = Attestation::master(ServerTime(0), ServerTime(0));
        Memory { tasks: Vec::new(), attestation, readings: HashMap::new() }
    }
}

/// The assumed previous reading of a task that was not read before.
fn nothing() -> TaskReading {
    beside_alone(Beside::default())
}

fn beside_alone(beside: Beside) -> TaskReading {
    let lock = LockReading::Unknown(Unknown::NotReadYet);
    TaskReading::of_lock(lock, Extras::default(), beside)
}

/// From inputs to lines.
pub(crate) struct Packer {
    redactor: Redactor,
    config: Arc<WatchSpec>,
    topologies: BTreeMap<StoreIndex, Topology>,
    memories: HashMap<Source, Memory>,
}

impl Packer {
    pub(crate) fn new(redactor: Redactor) -> Packer {
        Packer {
            redactor,
            config: Arc::default(),
            topologies: BTreeMap::new(),
            memories: HashMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Starts a new file and returns the inputs in force that it must repeat.
    pub(crate) fn begin(&mut self) -> Vec<What> {
        self.memories.clear();
        let topologies = self.topologies.values().cloned().map(Input::Topology);
        std::iter::once(Input::Config(Arc::clone(&self.config)))
            .chain(topologies)
            .map(What::Input)
            .collect()
    }

    /// Takes note of what is in force from now on, whether it is written or not.
    pub(crate) fn note(&mut self, input: &Input) {
        match input {
            Input::Config(config) => {
                self.config = Arc::clone(config);
                self.topologies.clear();
                self.memories.clear();
            }
            Input::Topology(topology) if topology.epoch == self.config.epoch => {
                self.topologies.insert(topology.store, topology.clone());
            }
            Input::Topology(_) | Input::Sample(_) | Input::Node(_) | Input::Tick => {}
        }
    }

    /// The line for an input that was noted. `None` if the state ignores the input because its
    /// configuration is no longer in force.
    pub(crate) fn pack(&mut self, input: Input) -> serde_json::Result<Option<What>> {
        match input {
            Input::Sample(sample) if sample.epoch == self.config.epoch => {
                self.sample(sample).map(Some)
            }
            Input::Node(news) if news.epoch == self.config.epoch => {
                Ok(Some(What::Input(Input::Node(news))))
            }
            Input::Topology(topology) if topology.epoch == self.config.epoch => {
                Ok(Some(What::Input(Input::Topology(topology))))
            }
            Input::Sample(_) | Input::Node(_) | Input::Topology(_) => Ok(None),
            Input::Config(_) | Input::Tick => Ok(Some(What::Input(input))),
        }
    }

    fn sample(&mut self, sample: Sample) -> serde_json::Result<What> {
        let Sample { epoch, store: redis, node, standing, sent, took_ms, outcome } = sample;
        let (beside, attestation, readings) = match outcome {
            Outcome::Failed { .. } => {
                let sample = Sample { epoch, store: redis, node, standing, sent, took_ms, outcome };
                return Ok(What::Input(Input::Sample(sample)));
            }
            Outcome::Read { attestation, readings } => (false, Some(attestation), readings),
            Outcome::Beside { attestation, readings } => {
                let alone = |(task, beside)| (task, beside_alone(beside));
                (true, attestation, readings.into_iter().map(alone).collect())
            }
        };
        let memory = self.memories.entry((redis, node.clone(), beside)).or_default();
        let attestation = match attestation {
            None => None,
            Some(attestation) => {
                let attestation = self.redactor.attestation(&attestation);
                let change = change(&memory.attestation, &attestation)?;
                memory.attestation = attestation;
                Some(change.unwrap_or_else(|| Map::new().into()))
            }
        };
        let order: Vec<TaskIndex> = readings.iter().map(|(task, _)| *task).collect();
        let tasks = (order != memory.tasks).then(|| runs(&order));
        memory.tasks = order;
        let (mut extras, mut changed) = (Vec::new(), Vec::new());
        for (task, mut reading) in readings {
            let before = memory.readings.entry(task).or_insert_with(nothing);
            if has_extras(&reading) {
                extras.push(task);
            } else {
                // Extras are read only in some batches. The previous ones are kept, so that they
                // are written only when they change.
                if let (GuardReading::Lock { extras, .. }, GuardReading::Lock { extras: old, .. }) =
                    (&mut reading.guard, &before.guard)
                {
                    *extras = *old;
                }
                reading.beside.hosts.clone_from(&before.beside.hosts);
            }
            if reading == *before {
                continue;
            }
            let claimants = self
                .config
                .tasks
                .get(task.0 as usize)
                .map_or(Claimants::Secret, |task| task.kind.claimants());
            let redacted = |reading| self.redactor.reading(reading, claimants);
            if let Some(change) = change(&redacted(before), &redacted(&reading))? {
                changed.push((task, change));
            }
            *before = reading;
        }
        Ok(What::Batch(Batch {
            epoch,
            redis,
            node,
            standing,
            sent,
            took_ms,
            beside,
            attestation,
            tasks,
            extras: runs(&extras),
            changed,
        }))
    }
}

/// Waiters, fencing token and hosts are read only in some batches.
fn has_extras(reading: &TaskReading) -> bool {
    reading.extras() != Extras::default() || reading.beside.hosts.is_some()
}

/// From lines to inputs.
#[derive(Default)]
pub(crate) struct Unpacker {
    memories: HashMap<Source, Memory>,
}

impl Unpacker {
    /// The input of a line; `None` if the line holds none.
    pub(crate) fn unpack(&mut self, what: What) -> anyhow::Result<Option<Input>> {
        match what {
            What::Input(input) => {
                if matches!(input, Input::Config(_)) {
                    self.memories.clear();
                }
                Ok(Some(input))
            }
            What::Batch(batch) => self.batch(batch).map(|sample| Some(Input::Sample(sample))),
            What::Missing(_) | What::Wall(_) => Ok(None),
        }
    }

    fn batch(&mut self, batch: Batch) -> anyhow::Result<Sample> {
        let Batch { epoch, redis, node, standing, sent, took_ms, .. } = batch;
        let Batch { beside, extras, attestation, tasks, changed, .. } = batch;
        let memory = self.memories.entry((redis, node.clone(), beside)).or_default();
        if let Some(runs) = tasks {
            memory.tasks = listed(&runs)?;
        }
        if let Some(change) = &attestation {
            memory.attestation = changed_by(&memory.attestation, change.clone())?;
        }
        let attestation = attestation.map(|_| memory.attestation.clone());
        let extras: HashSet<TaskIndex> = listed(&extras)?.into_iter().collect();
        let mut changes = changed.into_iter().peekable();
        let mut readings = Vec::with_capacity(memory.tasks.len());
        for task in &memory.tasks {
            let known = memory.readings.entry(*task).or_insert_with(nothing);
            if let Some((_, change)) = changes.next_if(|(changed, _)| changed == task) {
                *known = changed_by(known, change)?;
            }
            let mut reading = known.clone();
            if !extras.contains(task) {
                if let GuardReading::Lock { extras, .. } = &mut reading.guard {
                    *extras = Extras::default();
                }
                reading.beside.hosts = None;
            }
            readings.push((*task, reading));
        }
        if changes.next().is_some() {
            bail!("a task that changed is not among those of its batch");
        }
        let outcome = match beside {
            false => Outcome::Read {
                attestation: attestation.context("a batch that was read lacks its attestation")?,
                readings,
            },
            true => {
                let alone = |(task, reading): (TaskIndex, TaskReading)| (task, reading.beside);
                Outcome::Beside { attestation, readings: readings.into_iter().map(alone).collect() }
            }
        };
        Ok(Sample { epoch, store: redis, node, standing, sent, took_ms, outcome })
    }
}

/// Maximum number of tasks in one batch. A corrupt file could otherwise fill the memory with a list
/// longer than any configuration.
const TASKS_MAX: usize = 1 << 20;

fn runs(tasks: &[TaskIndex]) -> Runs {
    tasks
        .chunk_by(|task, next| task.0.checked_add(1) == Some(next.0))
        .filter_map(|run| Some((run.first()?.0, u32::try_from(run.len()).ok()?)))
        .collect()
}

fn listed(runs: &[(u32, u32)]) -> anyhow::Result<Vec<TaskIndex>> {
    let mut tasks = Vec::new();
    for (first, count) in runs {
        let end = first.checked_add(*count).context("a task's number is too large")?;
        if tasks.len().saturating_add(*count as usize) > TASKS_MAX {
            bail!("a list of tasks is too long");
        }
        tasks.extend((*first..end).map(TaskIndex));
    }
    Ok(tasks)
}

/// The difference from `old` to `new`, in JSON; `None` if they are equal.
fn change<T: Serialize>(old: &T, new: &T) -> serde_json::Result<Option<Value>> {
    Ok(difference(&serde_json::to_value(old)?, serde_json::to_value(new)?))
}

/// Applies a difference that [`change`] returned to `old`.
fn changed_by<T: Serialize + DeserializeOwned>(old: &T, change: Value) -> serde_json::Result<T> {
    let mut value = serde_json::to_value(old)?;
    apply(&mut value, change);
    serde_json::from_value(value)
}

/// The fields that differ, for objects with the same fields; otherwise all of `new`. The inputs
/// have no objects that merely lack a field: a struct always has all its fields, and another enum
/// variant has another one.
fn difference(old: &Value, new: Value) -> Option<Value> {
    if *old == new {
        return None;
    }
    let (old, new) = match (old, new) {
        (Value::Object(old), Value::Object(new)) if has_all(old, &new) => (old, new),
        (_, new) => return Some(new),
    };
    let field = |(name, value)| {
        let changed = difference(old.get(&name)?, value)?;
        Some((name, changed))
    };
    Some(new.into_iter().filter_map(field).collect::<Map<_, _>>().into())
}

fn apply(value: &mut Value, change: Value) {
    match (value, change) {
        (Value::Object(old), Value::Object(new)) if has_all(old, &new) => {
            for (name, change) in new {
                apply(old.entry(name).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change,
    }
}

/// Whether `old` has all fields of `new`.
fn has_all(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    new.keys().all(|name| old.contains_key(name))
}
