//! From the model's inputs to the lines of a file and back. What is as in the same server's batch
//! before is left out.
//!
//! Both sides remember the same things in the same order, from the first line of a file on: a file
//! needs no other one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lockwatch_model::input::{Input, Outcome, Sample, Topology, Vouch};
use lockwatch_model::reading::{
    Beside, Deadline, Extras, Held, LockReading, PauseReading, TaskReading, Unknown,
};
use lockwatch_model::spec::{RedisIndex, SchemeKind, TaskIndex, WatchSpec};
use lockwatch_model::time::{Mono, ServerTime};

use super::redact::Redactor;
use super::wire::{self, Change, Readings, Tasks, What, Word};

/// Most lists of tasks that a file has by number.
const LISTS_MAX: usize = 4096;

/// Which server's batches are compared with each other.
type Source = (RedisIndex, Option<Arc<str>>, bool);

/// What one server said last.
struct Memory {
    vouch: Vouch,
    /// By task.
    readings: HashMap<TaskIndex, TaskReading>,
}

impl Memory {
    fn new() -> Memory {
        Memory { vouch: wire::no_vouch(), readings: HashMap::new() }
    }
}

/// What is expected of a task of which nothing was read.
fn nothing() -> TaskReading {
    TaskReading {
        lock: LockReading::Unknown(Unknown::NotReadYet),
        extras: Extras::default(),
        beside: Beside::default(),
    }
}

/// From inputs to lines.
pub(crate) struct Packer {
    redactor: Redactor,
    config: Arc<WatchSpec>,
    topologies: BTreeMap<RedisIndex, Topology>,
    memories: HashMap<Source, Memory>,
    lists: HashMap<Vec<(u32, u32)>, u32>,
}

impl Packer {
    pub(crate) fn new(redactor: Redactor) -> Packer {
        Packer {
            redactor,
            config: Arc::default(),
            topologies: BTreeMap::new(),
            memories: HashMap::new(),
            lists: HashMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// A new file begins: everything that it needs of before.
    pub(crate) fn begin(&mut self) -> Vec<What> {
        self.memories.clear();
        self.lists.clear();
        let topologies = self.topologies.values().map(|topology| What::Topology(topology.into()));
        std::iter::once(What::Config((&*self.config).into())).chain(topologies).collect()
    }

    /// What is in force from now on, whether it is written or not.
    pub(crate) fn note(&mut self, input: &Input) {
        match input {
            Input::Config(config) => {
                self.config = Arc::clone(config);
                self.topologies.clear();
                self.memories.clear();
            }
            Input::Topology(topology) if topology.epoch == self.config.epoch => {
                self.topologies.insert(topology.redis, topology.clone());
            }
            Input::Topology(_) | Input::Sample(_) | Input::Node(_) | Input::Tick => {}
        }
    }

    /// What is to be written of an input that was noted, which the state takes in at `at`; `None`:
    /// the state does not, for it belongs to a configuration that is no longer in force.
    pub(crate) fn pack(&mut self, at: Mono, input: Input) -> Option<What> {
        let epoch = self.config.epoch;
        match input {
            Input::Config(config) => Some(What::Config((&*config).into())),
            Input::Sample(sample) if sample.epoch == epoch => {
                Some(What::Sample(Box::new(self.sample(at, sample))))
            }
            Input::Node(news) if news.epoch == epoch => Some(What::Node((&news).into())),
            Input::Topology(topology) if topology.epoch == epoch => {
                Some(What::Topology((&topology).into()))
            }
            Input::Sample(_) | Input::Node(_) | Input::Topology(_) => None,
            Input::Tick => Some(What::Tick),
        }
    }

    fn sample(&mut self, at: Mono, sample: Sample) -> wire::Sample {
        let Sample { epoch: _, redis, node, standing, sent, took_ms, outcome } = sample;
        let source = |beside| (redis, node.clone(), beside);
        let outcome = match outcome {
            Outcome::Read { vouch, readings } => {
                wire::Outcome::Read(self.readings(source(false), Some(vouch), readings))
            }
            Outcome::Beside { vouch, readings } => {
                let alone = |(task, beside)| (task, TaskReading { beside, ..nothing() });
                wire::Outcome::Beside(self.readings(
                    source(true),
                    vouch,
                    readings.into_iter().map(alone).collect(),
                ))
            }
            Outcome::Failed { tasks, why } => {
                wire::Outcome::Failed { tasks: self.tasks(tasks.into_iter()), why: Word(why) }
            }
        };
        wire::Sample {
            redis: redis.0,
            node: node.as_ref().map(|node| node.to_string()),
            standing: Word(standing),
            ago: at.since_ms(sent),
            took: took_ms,
            outcome,
        }
    }

    fn readings(
        &mut self,
        source: Source,
        vouch: Option<Vouch>,
        readings: Vec<(TaskIndex, TaskReading)>,
    ) -> Readings {
        let tasks = self.tasks(readings.iter().map(|(task, _)| *task));
        let extras = readings.iter().any(|(_, reading)| asked_for_extras(reading));
        let memory = self.memories.entry(source).or_insert_with(Memory::new);
        let vouch = vouch.map(|vouch| {
            let vouch = self.redactor.vouch(&vouch);
            let changed = wire::Vouch::between(&memory.vouch, &vouch);
            memory.vouch = vouch;
            changed
        });
        let mut changed = Vec::new();
        for (task, reading) in readings {
            let scheme = self
                .config
                .tasks
                .get(task.0 as usize)
                .map_or(SchemeKind::String, |task| task.lock.scheme);
            let before = memory.readings.entry(task).or_insert_with(nothing);
            changed.extend(difference(&self.redactor, scheme, task, (before, extras), &reading));
            remember(before, reading, extras);
        }
        Readings { vouch, extras, tasks, changed }
    }

    fn tasks(&mut self, tasks: impl Iterator<Item = TaskIndex>) -> Tasks {
        let runs = wire::runs(tasks);
        if let Some(number) = self.lists.get(&runs) {
            return Tasks::Known(*number);
        }
        if let (Ok(number), true) = (u32::try_from(self.lists.len()), self.lists.len() < LISTS_MAX)
        {
            self.lists.insert(runs.clone(), number);
        }
        Tasks::New(runs)
    }
}

/// Waiters, fencing token and hosts are asked for only in some batches.
fn asked_for_extras(reading: &TaskReading) -> bool {
    reading.extras != Extras::default() || reading.beside.hosts.is_some()
}

/// What was read when they were asked for last is remembered, so that they are written only when
/// they change.
fn remember(before: &mut TaskReading, reading: TaskReading, extras: bool) {
    let old = std::mem::replace(before, reading);
    if !extras {
        before.extras = old.extras;
        before.beside.hosts = old.beside.hosts;
    }
}

/// How a reading differs from the one before it.
fn difference(
    redactor: &Redactor,
    scheme: SchemeKind,
    task: TaskIndex,
    (before, extras): (&TaskReading, bool),
    reading: &TaskReading,
) -> Option<Change> {
    let TaskReading { lock, extras: Extras { waiters, fencing_token }, beside } = reading;
    let Beside { switches, progress, claims, hosts, pause } = beside;
    let mut change = Change { task: task.0, ..Change::default() };
    if *lock != before.lock {
        match moved_ms(&before.lock, lock) {
            Some(moved_ms) => change.deadline_moved = Some(moved_ms),
            None => change.lock = Some((&redactor.lock(lock)).into()),
        }
    }
    if *switches != before.beside.switches {
        change.switches =
            Some(switches.as_ref().map(|switches| (&redactor.switches(switches)).into()));
    }
    if *progress != before.beside.progress {
        change.progress =
            Some(progress.as_ref().map(|progress| (&redactor.progress(progress)).into()));
    }
    if *claims != before.beside.claims {
        change.claims =
            Some(claims.as_ref().map(|claims| (&redactor.claims(claims, scheme)).into()));
    }
    if *pause != before.beside.pause {
        change.pause = Some(pause.map(wire::Pause::from));
    }
    if extras {
        change.waiters = (*waiters != before.extras.waiters).then_some(*waiters);
        change.fencing_token =
            (*fencing_token != before.extras.fencing_token).then_some(*fencing_token);
        if *hosts != before.beside.hosts {
            change.hosts =
                Some(hosts.as_ref().map(|hosts| (&redactor.hosts(hosts, scheme)).into()));
        }
    }
    (change != Change { task: task.0, ..Change::default() }).then_some(change)
}

/// By how much the deadline moved, if that is all that changed.
fn moved_ms(before: &LockReading, now: &LockReading) -> Option<i64> {
    let (LockReading::Held(before), LockReading::Held(now)) = (before, now) else { return None };
    let (Deadline::At(old), Deadline::At(new)) = (before.deadline, now.deadline) else {
        return None;
    };
    let moved_ms = new.0.checked_sub(old.0)?;
    let rest = |held: &Held| (held.mode, held.ghosts);
    (rest(before) == rest(now) && before.holders == now.holders).then_some(moved_ms)
}

/// From lines to inputs.
#[derive(Default)]
pub(crate) struct Unpacker {
    epoch: u32,
    memories: HashMap<Source, Memory>,
    lists: Vec<Vec<TaskIndex>>,
}

/// What a server said of itself, and of tasks.
type Batch = (Option<Vouch>, Vec<(TaskIndex, TaskReading)>);

/// What is wrong with a line, in words for a person.
type Mistake = &'static str;

impl Unpacker {
    /// What an input was; `None` for what is none.
    pub(crate) fn unpack(&mut self, at: Mono, what: What) -> Result<Option<Input>, Mistake> {
        Ok(Some(match what {
            What::Config(config) => {
                let config = WatchSpec::from(config);
                self.epoch = config.epoch;
                self.memories.clear();
                Input::Config(Arc::new(config))
            }
            What::Sample(sample) => Input::Sample(self.sample(at, *sample)?),
            What::Node(news) => Input::Node(news.into_model(self.epoch)),
            What::Topology(topology) => Input::Topology(topology.into_model(self.epoch)),
            What::Tick => Input::Tick,
            What::Missing(_) | What::Wall(_) => return Ok(None),
        }))
    }

    fn sample(&mut self, at: Mono, sample: wire::Sample) -> Result<Sample, Mistake> {
        let wire::Sample { redis, node, standing: Word(standing), ago, took, outcome } = sample;
        let (redis, node) = (RedisIndex(redis), node.map(Arc::<str>::from));
        let source = |beside| (redis, node.clone(), beside);
        let outcome = match outcome {
            wire::Outcome::Read(read) => {
                let (vouch, readings) = self.readings(source(false), read)?;
                Outcome::Read {
                    vouch: vouch.ok_or("a batch that was read lacks its vouch")?,
                    readings,
                }
            }
            wire::Outcome::Beside(beside) => {
                let (vouch, readings) = self.readings(source(true), beside)?;
                let readings =
                    readings.into_iter().map(|(task, reading)| (task, reading.beside)).collect();
                Outcome::Beside { vouch, readings }
            }
            wire::Outcome::Failed { tasks, why } => {
                let mut all = Vec::new();
                self.tasks(tasks, |task| all.push(task))?;
                Outcome::Failed { tasks: all, why: why.0 }
            }
        };
        Ok(Sample {
            epoch: self.epoch,
            redis,
            node,
            standing,
            sent: at.minus_ms(ago),
            took_ms: took,
            outcome,
        })
    }

    fn readings(&mut self, source: Source, read: Readings) -> Result<Batch, Mistake> {
        let Readings { vouch, extras, tasks, changed } = read;
        let mut order = Vec::new();
        self.tasks(tasks, |task| order.push(task))?;
        let memory = self.memories.entry(source).or_insert_with(Memory::new);
        let vouch = vouch.map(|changed| {
            memory.vouch = changed.after(&memory.vouch);
            memory.vouch.clone()
        });
        let mut changes = changed.into_iter().peekable();
        let mut readings = Vec::with_capacity(order.len());
        for task in order {
            let known = memory.readings.entry(task).or_insert_with(nothing);
            if let Some(change) = changes.next_if(|change| change.task == task.0) {
                apply(known, change)?;
            }
            let mut reading = known.clone();
            if !extras {
                reading.extras = Extras::default();
                reading.beside.hosts = None;
            }
            readings.push((task, reading));
        }
        match changes.next() {
            Some(_) => Err("a task that changed is not among those of its batch"),
            None => Ok((vouch, readings)),
        }
    }

    fn tasks(&mut self, tasks: Tasks, mut each: impl FnMut(TaskIndex)) -> Result<(), Mistake> {
        match tasks {
            Tasks::Known(number) => {
                let list = self.lists.get(number as usize).ok_or("a list of tasks is not known")?;
                list.iter().copied().for_each(each);
            }
            Tasks::New(runs) => {
                let mut list = Vec::new();
                for (first, count) in runs {
                    // A list of more tasks than any configuration has would only fill the memory.
                    let end = first
                        .checked_add(count)
                        .filter(|_| count <= COUNT_MAX)
                        .ok_or("a list of tasks is too long")?;
                    list.extend((first..end).map(TaskIndex));
                }
                list.iter().copied().for_each(&mut each);
                if self.lists.len() < LISTS_MAX {
                    self.lists.push(list);
                }
            }
        }
        Ok(())
    }
}

/// Most tasks of one run of a list.
const COUNT_MAX: u32 = 1 << 20;

fn apply(known: &mut TaskReading, change: Change) -> Result<(), Mistake> {
    let Change {
        task: _,
        lock,
        deadline_moved,
        waiters,
        fencing_token,
        switches,
        progress,
        claims,
        hosts,
        pause,
    } = change;
    if let Some(lock) = lock {
        known.lock = lock.into();
    }
    if let Some(moved_ms) = deadline_moved {
        if let LockReading::Held(held) = &mut known.lock
            && let Deadline::At(deadline) = &mut Arc::make_mut(held).deadline
        {
            *deadline = ServerTime(deadline.0.saturating_add(moved_ms));
        } else {
            return Err("a deadline moved that was not known");
        }
    }
    if let Some(waiters) = waiters {
        known.extras.waiters = waiters;
    }
    if let Some(fencing_token) = fencing_token {
        known.extras.fencing_token = fencing_token;
    }
    let beside = &mut known.beside;
    if let Some(switches) = switches {
        beside.switches = switches.map(Into::into);
    }
    if let Some(progress) = progress {
        beside.progress = progress.map(Into::into);
    }
    if let Some(claims) = claims {
        beside.claims = claims.map(Into::into);
    }
    if let Some(hosts) = hosts {
        beside.hosts = hosts.map(Into::into);
    }
    if let Some(pause) = pause {
        beside.pause = pause.map(PauseReading::from);
    }
    Ok(())
}
