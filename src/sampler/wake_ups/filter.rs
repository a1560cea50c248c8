//! Which tasks a key concerns: the exact names behind the prefixes under which a server tells of
//! changes.

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
    /// Hashes of keys, sorted, each with the position of a task that has such a key. The keys
    /// themselves are in the tasks: of 100,000 locks a copy would be most of what is kept.
    hashes: Vec<(u64, u32)>,
    /// Where those hashes are that begin with the same bits: from one of these to the next.
    starts: Vec<u32>,
    /// How many bits.
    bits: u32,
}

impl Filter {
    /// What concerns `tasks`, which are read every `interval_ms`.
    pub(in crate::sampler) fn new(tasks: &Tasks, interval_ms: u64) -> Filter {
        let hasher = RandomState::new();
        let keys = || tasks.iter().flat_map(|(_, spec)| watched_keys(spec));
        let prefixes =
            prefixes(keys().map(Vec::as_slice)).into_iter().map(<[u8]>::to_vec).collect();
        let mut hashes: Vec<(u64, u32)> = Vec::with_capacity(tasks.len());
        for ((_, spec), position) in tasks.iter().zip(0..) {
            hashes.extend(watched_keys(spec).map(|key| (hasher.hash_one::<&[u8]>(key), position)));
        }
        hashes.sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        let bits = hashes.len().next_power_of_two().trailing_zeros();
        let start =
            |first: u64| hashes.partition_point(|(hash, _)| first_bits(*hash, bits) < first);
        let starts =
            (0..=1 << bits).map(|first| u32::try_from(start(first)).unwrap_or(u32::MAX)).collect();
        Filter { tasks: Arc::clone(tasks), interval_ms, prefixes, hasher, hashes, starts, bits }
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
        let candidates = self.beginning_as(hash).iter().filter(move |(other, _)| *other == hash);
        candidates.map(|(_, position)| *position).filter(move |position| self.has(*position, key))
    }

    /// The few hashes that begin with the same bits.
    fn beginning_as(&self, hash: u64) -> &[(u64, u32)] {
        let place = |at: u64| usize::try_from(*self.starts.get(usize::try_from(at).ok()?)?).ok();
        let first = first_bits(hash, self.bits);
        let range = place(first).zip(place(first + 1)).map(|(start, end)| start..end);
        range.and_then(|range| self.hashes.get(range)).unwrap_or_default()
    }

    /// Whether `key` is that of the lock of the task at a position.
    pub(super) fn is_lock(&self, position: u32, key: &[u8]) -> bool {
        self.spec(position).is_some_and(|spec| spec.lock.key == key)
    }

    fn has(&self, position: u32, key: &[u8]) -> bool {
        self.spec(position).is_some_and(|spec| watched_keys(spec).any(|own| own == key))
    }

    fn spec(&self, position: u32) -> Option<&TaskSpec> {
        let (_, spec) = self.tasks.get(usize::try_from(position).ok()?)?;
        Some(spec)
    }
}

fn first_bits(hash: u64, bits: u32) -> u64 {
    hash.checked_shr(u64::BITS - bits).unwrap_or(0)
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_model::spec::{
        Codec, LockSpec, RedisIndex, SchemeKind, WantedSource, WantedSpec,
    };

    fn tasks(keys: &[(&[u8], Option<&[u8]>)]) -> Tasks {
        let task = |(index, (lock, users)): (u32, &(&[u8], Option<&[u8]>))| {
            let lock = LockSpec::new(lock, SchemeKind::String);
            let mut spec = TaskSpec::new(&format!("t{index}"), RedisIndex(0), lock);
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
            let mut found: Vec<u32> = filter
                .concerned(key)
                .filter_map(|position| filter.task(position))
                .map(|task| task.0)
                .collect();
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

    #[test]
    fn however_many_there_are_each_key_is_found() {
        for count in [0, 1, 2, 3, 64, 1_000] {
            let names: Vec<String> = (0..count).map(|number| format!("lock:{number}")).collect();
            let keys: Vec<(&[u8], Option<&[u8]>)> =
                names.iter().map(|name| (name.as_bytes(), None)).collect();
            let filter = Filter::new(&tasks(&keys), 1_000);
            for (position, name) in (0..).zip(&names) {
                assert_eq!(filter.concerned(name.as_bytes()).collect::<Vec<_>>(), [position]);
            }
            assert_eq!(filter.concerned(b"another").next(), None);
        }
    }
}
