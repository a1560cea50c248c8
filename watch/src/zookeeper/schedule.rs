//! When each task is read: with some others at an instant of the interval, and at once if something
//! of it changed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use lockwatch_judge::time::Mono;

/// After a hint, a task is read again no sooner than this after its last reading, in milliseconds.
const HINT_PAUSE_MS: u64 = 20;
/// A task that could not be read may be soon, after this time in milliseconds.
const SOON_MS: u64 = 100;
/// So many instants of an interval have tasks of their own.
const INSTANTS: usize = 16;
/// So much of a task is read on average, in bytes per millisecond: a folder with many children is
/// read less often.
const BYTES_PER_MS: usize = 1_000;

/// The tasks, by their positions in the assignment.
#[derive(Debug)]
pub(super) struct Schedule {
    interval_ms: u64,
    origin: Mono,
    tasks: Vec<Task>,
    /// Those that are not being read.
    due: BTreeSet<(Mono, usize)>,
    /// The tasks whose newest reading asked about a path.
    by_path: BTreeMap<String, Vec<usize>>,
}

/// When a task is read.
#[derive(Debug)]
struct Task {
    due: Mono,
    /// When a hint may have it read.
    ready: Mono,
    is_hinted: bool,
    is_busy: bool,
    /// The paths that its newest reading asked about.
    paths: BTreeSet<String>,
}

impl Task {
    fn at(&self) -> Mono {
        if self.is_hinted { self.due.min(self.ready) } else { self.due }
    }
}

impl Schedule {
    /// So many tasks, each first read within the first interval.
    pub(super) fn new(count: usize, interval_ms: u64, now: Mono) -> Schedule {
        let mut schedule = Schedule {
            interval_ms,
            origin: now,
            tasks: Vec::with_capacity(count),
            due: BTreeSet::new(),
            by_path: BTreeMap::new(),
        };
        for position in 0..count {
            let due = now.plus_ms(offset_ms(position, count, interval_ms));
            schedule.due.insert((due, position));
            let paths = BTreeSet::new();
            schedule.tasks.push(Task { due, ready: now, is_hinted: false, is_busy: false, paths });
        }
        schedule
    }

    /// When the next task is due.
    pub(super) fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A task that is due, to be read now.
    pub(super) fn take(&mut self, now: Mono) -> Option<usize> {
        let (_, position) = *self.due.first().filter(|(at, _)| *at <= now)?;
        let due = self.regular(position, now);
        self.change(position, |task| {
            (task.due, task.is_hinted, task.is_busy) = (due, false, true);
        });
        Some(position)
    }

    /// Its own instant of the interval, at least half an interval from now.
    fn regular(&self, position: usize, now: Mono) -> Mono {
        let first = self.origin.plus_ms(offset_ms(position, self.tasks.len(), self.interval_ms));
        let least_ms = now.plus_ms(self.interval_ms / 2).since_ms(first);
        first.plus_ms(least_ms.next_multiple_of(self.interval_ms.max(1)))
    }

    /// A task was read: about these paths, whose replies had so many bytes.
    pub(super) fn read(
        &mut self,
        position: usize,
        paths: BTreeSet<String>,
        bytes: usize,
        now: Mono,
    ) {
        let pause_ms = u64::try_from(bytes / BYTES_PER_MS).unwrap_or(u64::MAX).max(HINT_PAUSE_MS);
        let Some(task) = self.tasks.get_mut(position) else { return };
        let before = core::mem::replace(&mut task.paths, paths);
        for path in before.difference(&task.paths) {
            let Some(tasks) = self.by_path.get_mut(path) else { continue };
            tasks.retain(|other| *other != position);
            if tasks.is_empty() {
                self.by_path.remove(path);
            }
        }
        for path in task.paths.difference(&before) {
            self.by_path.entry(path.clone()).or_default().push(position);
        }
        self.change(position, |task| {
            task.ready = now.plus_ms(pause_ms);
            task.due = task.due.max(task.ready);
            task.is_busy = false;
        });
    }

    /// A task could not be read.
    pub(super) fn soon(&mut self, position: usize, now: Mono) {
        self.change(position, |task| {
            task.ready = now.plus_ms(SOON_MS);
            (task.is_hinted, task.is_busy) = (true, false);
        });
    }

    /// What is at this path changed: the tasks with it are to be read. Returns their positions.
    pub(super) fn changed(&mut self, path: &str) -> Vec<usize> {
        let tasks = self.by_path.get(path).cloned().unwrap_or_default();
        for position in &tasks {
            self.change(*position, |task| task.is_hinted = true);
        }
        tasks
    }

    /// All tasks are to be read at once, and none is being read.
    pub(super) fn all_at_once(&mut self, now: Mono) {
        for position in 0..self.tasks.len() {
            self.change(position, |task| (task.due, task.is_busy) = (now, false));
        }
    }

    fn change(&mut self, position: usize, change: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(position) else { return };
        self.due.remove(&(task.at(), position));
        change(task);
        if !task.is_busy {
            self.due.insert((task.at(), position));
        }
    }
}

/// The load is spread, but what is read at one instant is asked in one write.
fn offset_ms(position: usize, count: usize, interval_ms: u64) -> u64 {
    let instants = count.clamp(1, INSTANTS);
    let [position, count, instants] =
        [position, count.max(1), instants].map(|it| u64::try_from(it).unwrap_or(1));
    position * instants / count * interval_ms / instants
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;

    fn taken(schedule: &mut Schedule, at: u64) -> Vec<usize> {
        core::iter::from_fn(|| schedule.take(Mono::at(at))).collect()
    }

    fn read(schedule: &mut Schedule, position: usize, path: &str, bytes: usize, at: u64) {
        schedule.read(position, BTreeSet::from([path.to_string()]), bytes, Mono::at(at));
    }

    #[test]
    fn each_task_has_its_own_instant_also_after_all_were_read_at_once() {
        let mut schedule = Schedule::new(4, 1_000, Mono::at(0));
        let mut instants = Vec::new();
        for at in (0..=3_000).step_by(50) {
            for position in taken(&mut schedule, at) {
                instants.push((at, position));
                read(&mut schedule, position, "/a", 100, at);
            }
            if at == 1_100 {
                schedule.all_at_once(Mono::at(at));
            }
        }
        let whole = |at: u64| [(at, 0), (at + 250, 1), (at + 500, 2), (at + 750, 3)];
        let all = [(1_150, 0), (1_150, 1), (1_150, 2), (1_150, 3)];
        let begins = [&whole(0)[..], &[(1_000, 0)], &all, &[(1_750, 3)], &whole(2_000)].concat();
        assert_eq!(instants[..begins.len()], begins);
    }

    #[test]
    fn many_hints_are_one_reading_also_while_one_is_made() {
        let mut schedule = Schedule::new(2, 10_000, Mono::at(0));
        assert_eq!(taken(&mut schedule, 0), [0]);
        (0..15_000).for_each(|_| drop(schedule.changed("/a")));
        read(&mut schedule, 0, "/a", 100, 5);
        assert_eq!(taken(&mut schedule, 30), [0; 0], "nobody knew of the path then");
        (0..15_000).for_each(|_| drop(schedule.changed("/a")));
        schedule.changed("/b");
        assert_eq!(schedule.next(), Some(Mono::at(25)));
        assert_eq!(taken(&mut schedule, 30), [0]);
        (0..15_000).for_each(|_| drop(schedule.changed("/a")));
        assert_eq!(taken(&mut schedule, 40), [0; 0], "it is being read");
        read(&mut schedule, 0, "/b", 100, 41);
        assert_eq!(taken(&mut schedule, 60), [0; 0]);
        assert_eq!(taken(&mut schedule, 61), [0], "it changed while it was read");
        assert_eq!(schedule.by_path.keys().collect::<Vec<_>>(), ["/b"]);
    }

    #[test]
    fn a_folder_of_megabytes_is_read_less_often() {
        let mut schedule = Schedule::new(1, 1_000, Mono::at(0));
        assert_eq!(taken(&mut schedule, 0), [0]);
        read(&mut schedule, 0, "/a", 6_000_000, 100);
        schedule.changed("/a");
        assert_eq!(schedule.next(), Some(Mono::at(6_100)));
        assert_eq!(taken(&mut schedule, 6_099), vec![0; 0]);
    }
}
