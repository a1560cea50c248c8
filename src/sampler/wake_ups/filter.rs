//! Which tasks a key concerns: the exact names behind the prefixes under which a server tells of changes.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use lockwatch_model::spec::{TaskIndex, TaskSpec, position_of};
use lockwatch_model::wake_ups::{prefixes, watched_keys};

use crate::sampler::Tasks;

/// The keys of one redis whose change matters, each with its tasks.
pub(in crate::sampler) struct Filter {
    tasks: Tasks,
    /// What each of them is read at.
    pub(super) interval_ms: u64,
    pub(super) prefixes: Vec<Vec<u8>>,
    hasher: RandomState,
    /// Hashes of keys, sorted, each with the position of a task that has such a key. The keys themselves are in the tasks: of
    /// 100,000 locks a copy would be most of what is kept.
    hashes: Vec<(u64, u32)>,
}

impl Filter {
    /// What concerns `tasks`, which are read every `interval_ms`.
    pub(in crate::sampler) fn new(tasks: &Tasks, interval_ms: u64) -> Filter {
        let hasher = RandomState::new();
        let keys = || tasks.iter().flat_map(|(_, spec)| watched_keys(spec));
        let prefixes = prefixes(keys().map(Vec::as_slice)).into_iter().map(<[u8]>::to_vec).collect();
        let hashed = |(position, (_, spec)): (u32, &(TaskIndex, Arc<TaskSpec>))| {
            let hash = |key| (hasher.hash_one::<&[u8]>(key), position);
            watched_keys(spec).into_iter().map(|key| hash(key)).collect::<Vec<_>>()
        };
        let mut hashes: Vec<(u64, u32)> = (0..).zip(tasks.iter()).flat_map(hashed).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        Filter { tasks: Arc::clone(tasks), interval_ms, prefixes, hasher, hashes }
    }

    /// How many tasks there are.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The task at a position.
    pub(super) fn task(&self, position: u32) -> Option<TaskIndex> {
        let (task, _) = self.tasks.get(usize::try_from(position).ok()?)?;
        Some(*task)
    }

    /// Where a task is.
    pub(super) fn position(&self, task: TaskIndex) -> Option<usize> {
        position_of(task, &self.tasks, |(index, _)| *index)
    }

    /// The positions of the tasks that `key` concerns.
    pub(super) fn concerned(&self, key: &[u8]) -> impl Iterator<Item = u32> {
        let hash = self.hasher.hash_one::<&[u8]>(key);
        let start = self.hashes.partition_point(|(other, _)| *other < hash);
        let candidates = self.hashes.iter().skip(start).take_while(move |(other, _)| *other == hash);
        candidates.map(|(_, position)| *position).filter(move |position| self.has(*position, key))
    }

    fn has(&self, position: u32, key: &[u8]) -> bool {
        let task = usize::try_from(position).ok().and_then(|position| self.tasks.get(position));
        task.is_some_and(|(_, spec)| watched_keys(spec).into_iter().any(|own| own == key))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_model::spec::{Codec, LockSpec, RedisIndex, SchemeKind, WantedSource, WantedSpec};

    fn tasks(keys: &[(&[u8], Option<&[u8]>)]) -> Tasks {
        let task = |(index, (lock, users)): (u32, &(&[u8], Option<&[u8]>))| {
            let lock = LockSpec::new(lock, SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{index}"), RedisIndex(0), lock);
            let wanted = |key: &[u8]| WantedSpec { source: WantedSource::Hash(key.to_vec()), codec: Codec::Raw };
            spec.wanted = users.map(wanted);
            (TaskIndex(index * 10), Arc::new(spec))
        };
        Arc::new((0..).zip(keys).map(task).collect())
    }

    #[test]
    fn a_key_concerns_exactly_the_tasks_that_have_it() {
        let tasks = tasks(&[(b"a", Some(b"users")), (b"ab", Some(b"users")), (b"\xff\x00", None), (b"users:x", None)]);
        let filter = Filter::new(&tasks, 1_000);
        let concerned = |key: &[u8]| {
            let mut found: Vec<u32> =
                filter.concerned(key).filter_map(|position| filter.task(position)).map(|task| task.0).collect();
            found.sort_unstable();
            found
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
