//! Samples, and what a server says of itself.

use lockwatch_model::input::{self, Role, Standing};
use lockwatch_model::reading::Unknown;
use lockwatch_model::spec::TaskIndex;
use lockwatch_model::time::ServerTime;
use serde::{Deserialize, Serialize};

use super::reading::Change;
use super::scalar::{Blob, Word, arcs, blob, change, decides, is_decides, is_default, texts};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) redis: u16,
    pub(crate) node: Option<String>,
    /// Absent where it decides.
    #[serde(default = "decides", skip_serializing_if = "is_decides")]
    pub(crate) standing: Word<Standing>,
    /// How long before the line's instant it was sent.
    pub(crate) ago: u64,
    pub(crate) took: u64,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Outcome {
    Read(Readings),
    Beside(Readings),
    Failed { tasks: Tasks, why: Word<Unknown> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Readings {
    pub(crate) vouch: Option<Vouch>,
    /// Waiters, fencing tokens and hosts were asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) extras: bool,
    pub(crate) tasks: Tasks,
    /// Those that are not as before, in the order of `tasks`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) changed: Vec<Change>,
}

/// Tasks in an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tasks {
    /// Runs: the first, and how many follow each other.
    New(Vec<(u32, u32)>),
    /// The list that was new when the file had so many others.
    Known(u32),
}

/// [`Tasks::New`] of these.
pub(crate) fn runs(tasks: impl Iterator<Item = TaskIndex>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for TaskIndex(task) in tasks {
        match runs.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(task) => *count += 1,
            _ => runs.push((task, 1)),
        }
    }
    runs
}

/// What a server says of itself; a part that is absent is as in the batch before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vouch {
    first: i64,
    last: i64,
    clock: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    role: Option<Word<Role>>,
    #[serde(default, skip_serializing_if = "is_default")]
    verified: Option<bool>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    offset: Option<Option<u64>>,
    #[serde(default, skip_serializing_if = "is_default")]
    refuses_writes: Option<bool>,
    #[serde(default, skip_serializing_if = "is_default")]
    replicas: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "change")]
    generation: Option<Option<Generation>>,
    /// Of the generation, when nothing else of it changed: a busy cache evicts all day.
    #[serde(default, skip_serializing_if = "is_default")]
    evictions: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generation {
    run: Blob,
    replication: Blob,
    forked_from: Option<(Blob, u64)>,
    flushes: u64,
    evictions: u64,
    started_empty: Option<bool>,
}

/// What a server has said before its first batch.
pub(crate) fn no_vouch() -> input::Vouch {
    input::Vouch::master(ServerTime(0), ServerTime(0))
}

fn unless_same<T: PartialEq, W>(old: &T, new: &T, wire: impl FnOnce(&T) -> W) -> Option<W> {
    (old != new).then(|| wire(new))
}

impl Vouch {
    /// How `new` differs from `old`.
    pub(crate) fn between(old: &input::Vouch, new: &input::Vouch) -> Vouch {
        let input::Vouch {
            first,
            last,
            role,
            role_verified,
            offset,
            refuses_writes,
            replicas,
            generation,
            clock_offset_ms,
        } = new;
        let evictions = match (&old.generation, generation) {
            (Some(before), Some(now)) => {
                let evicted = input::Generation { evictions: now.evictions, ..before.clone() };
                (before != now && evicted == *now).then_some(now.evictions)
            }
            _ => None,
        };
        let generation =
            unless_same(&old.generation, generation, |new| new.as_ref().map(Generation::from));
        Vouch {
            first: first.0,
            last: last.0,
            clock: *clock_offset_ms,
            role: unless_same(&old.role, role, |role| Word(*role)),
            verified: unless_same(&old.role_verified, role_verified, |verified| *verified),
            offset: unless_same(&old.offset, offset, |offset| *offset),
            refuses_writes: unless_same(&old.refuses_writes, refuses_writes, |refuses| *refuses),
            replicas: unless_same(&old.replicas, replicas, |replicas| texts(replicas)),
            generation: generation.filter(|_| evictions.is_none()),
            evictions,
        }
    }

    /// What differs from `old` like this.
    pub(crate) fn after(self, old: &input::Vouch) -> input::Vouch {
        let Vouch {
            first,
            last,
            clock,
            role,
            verified,
            offset,
            refuses_writes,
            replicas,
            generation,
            evictions,
        } = self;
        let mut generation = match generation {
            Some(generation) => generation.map(input::Generation::from),
            None => old.generation.clone(),
        };
        if let (Some(generation), Some(evictions)) = (&mut generation, evictions) {
            generation.evictions = evictions;
        }
        input::Vouch {
            first: ServerTime(first),
            last: ServerTime(last),
            role: role.map_or(old.role, |role| role.0),
            role_verified: verified.unwrap_or(old.role_verified),
            offset: offset.unwrap_or(old.offset),
            refuses_writes: refuses_writes.unwrap_or(old.refuses_writes),
            replicas: replicas.map_or_else(|| old.replicas.clone(), arcs),
            generation,
            clock_offset_ms: clock,
        }
    }
}

impl From<&input::Generation> for Generation {
    fn from(generation: &input::Generation) -> Generation {
        let input::Generation {
            run_id,
            replication_id,
            forked_from,
            flushes,
            evictions,
            started_empty,
        } = generation;
        let fork =
            |input::Fork { replication_id, offset }: &input::Fork| (blob(replication_id), *offset);
        Generation {
            run: blob(run_id),
            replication: blob(replication_id),
            forked_from: forked_from.as_ref().map(fork),
            flushes: *flushes,
            evictions: *evictions,
            started_empty: *started_empty,
        }
    }
}

impl From<Generation> for input::Generation {
    fn from(generation: Generation) -> input::Generation {
        let Generation { run, replication, forked_from, flushes, evictions, started_empty } =
            generation;
        let fork = |(replication_id, offset): (Blob, u64)| input::Fork {
            replication_id: replication_id.0,
            offset,
        };
        input::Generation {
            run_id: run.0,
            replication_id: replication.0,
            forked_from: forked_from.map(fork),
            flushes,
            evictions,
            started_empty,
        }
    }
}
