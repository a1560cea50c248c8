//! Maps changed keys to tasks: the exact names, because a server announces all keys under a prefix.

use std::fmt;

use lockwatch_judge::spec::{Key, TaskIndex};
use lockwatch_watch::redis::wake_ups::{prefixes, watched_keys};

use crate::sampler::Tasks;

/// The keys of one Redis that matter, each with its tasks.
pub(in crate::sampler) struct Filter {
    /// The interval at which each task is read, in milliseconds.
    pub(super) interval_ms: u64,
    pub(super) prefixes: Vec<Vec<u8>>,
    /// Number of tasks.
    pub(super) tasks: usize,
    /// Sorted; a key of several tasks is listed several times.
    keys: Vec<(Key, TaskIndex)>,
}

impl Filter {
    /// The keys of `tasks`, which are read every `interval_ms`.
    pub(in crate::sampler) fn new(tasks: &Tasks, interval_ms: u64) -> Filter {
        let keys = tasks
            .iter()
            .flat_map(|(task, spec)| watched_keys(spec).map(|key| (key.clone(), *task)));
        let mut keys: Vec<(Key, TaskIndex)> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let prefixes = prefixes(keys.iter().map(|(key, _)| key.as_slice()));
        let prefixes = prefixes.into_iter().map(<[u8]>::to_vec).collect();
        Filter { interval_ms, prefixes, tasks: tasks.len(), keys }
    }

    /// The position of a key, if it belongs to a task.
    pub(super) fn position(&self, key: &[u8]) -> Option<usize> {
        let position = self.keys.partition_point(|(other, _)| other.as_slice() < key);
        self.keys.get(position).is_some_and(|(other, _)| other == key).then_some(position)
    }

    /// The tasks of the key at `position`.
    pub(super) fn tasks_at(&self, position: usize) -> impl Iterator<Item = TaskIndex> {
        let rest = self.keys.get(position..).unwrap_or_default();
        let same =
            rest.iter().take_while(|(key, _)| rest.first().is_some_and(|(own, _)| own == key));
        same.map(|(_, task)| *task)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use lockwatch_judge::spec::{
        Codec, LockSpec, SchemeKind, StoreIndex, TaskSpec, WantedSource, WantedSpec,
    };

    fn tasks(keys: &[(&[u8], Option<&[u8]>)]) -> Tasks {
        let task = |(index, (lock, users)): (u32, &(&[u8], Option<&[u8]>))| {
            let lock = LockSpec::new(lock, SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{index}"), StoreIndex(0), lock);
            let wanted = |key: &[u8]| WantedSpec {
                source: WantedSource::Hash(key.to_vec()),
                codec: Codec::Raw,
            };
            spec.wanted = users.map(wanted);
            (TaskIndex(index * 10), Arc::new(spec))
        };
        Arc::new((0..).zip(keys).map(task).collect())
    }

    #[test]
    fn a_key_concerns_exactly_the_tasks_that_have_it() {
        let tasks = tasks(&[
            (b"a", Some(b"users")),
            (b"ab", Some(b"users")),
            (b"\xff\x00", None),
            (b"users:x", None),
        ]);
        let filter = Filter::new(&tasks, 1_000);
        let concerned = |key: &[u8]| {
            let tasks = filter.position(key).into_iter().flat_map(|at| filter.tasks_at(at));
            tasks.map(|task| task.0).collect::<Vec<_>>()
        };
        assert_eq!(concerned(b"a"), [0]);
        assert_eq!(concerned(b"ab"), [10]);
        assert_eq!(concerned(b"users"), [0, 10]);
        assert_eq!(concerned(b"\xff\x00"), [20]);
        for foreign in [b"".as_slice(), b"abc", b"user", b"users:", b"\xff"] {
            assert_eq!(concerned(foreign), [0; 0], "{}", foreign.escape_ascii());
        }
        assert_eq!(filter.prefixes, [b"a".as_slice(), b"users", b"\xff\x00"]);
    }
}
