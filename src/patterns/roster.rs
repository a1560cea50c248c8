//! Which of the keys that match a pattern are watched. Scans report keys; the roster decides which
//! of them are tasks, and for how long. Scans only find keys: whether a lock is held is never
//! decided by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwatch_judge::spec::{Key, TaskSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::keys_beside;

use crate::config::{KEY_BYTES_MAX, PATTERN_NAME_BYTES_MAX, Pattern};
use crate::text::identity::key_name;

/// How long a key is watched after it was seen last, in milliseconds: a lock that is taken now and
/// then is polled in between, so that its holds are counted.
pub(super) const KEPT_MS: u64 = 15 * 60_000;
/// Maximum length of a task's name in bytes. It leaves a key at least 99.
const TASK_NAME_BYTES_MAX: usize = 2 * PATTERN_NAME_BYTES_MAX;

/// The keys of one pattern.
#[derive(Debug)]
pub(super) struct Roster {
    pub(super) pattern: Arc<Pattern>,
    /// Keys of its store that are watched otherwise.
    reserved: BTreeSet<Key>,
    known: BTreeMap<Key, Known>,
    pass: Option<Pass>,
    pub(super) complete: Option<Complete>,
    /// Why the newest pass was cut short.
    pub(super) trouble: Option<Arc<str>>,
}

/// A key that is watched.
#[derive(Debug)]
struct Known {
    task: Arc<TaskSpec>,
    /// When it was seen last.
    seen: Mono,
}

/// One pass over all keys of the store.
#[derive(Clone, Copy, Debug)]
struct Pass {
    began: Mono,
    left_out: u64,
}

/// The newest complete pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Complete {
    /// When it ended.
    pub(super) at: AgentWall,
    /// Keys that match and are not watched. A scan may return a key twice, which is counted twice.
    pub(super) left_out: u64,
}

/// What becomes of a key that a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is watched from now on.
    New,
    /// It was watched before.
    Known,
    /// It is not watched, as it is no lock of this pattern.
    NotMeant,
    /// It is not watched, and counted.
    LeftOut,
}

impl Roster {
    pub(super) fn new(pattern: Arc<Pattern>, reserved: BTreeSet<Key>) -> Roster {
        let (known, pass, complete, trouble) = (BTreeMap::new(), None, None, None);
        Roster { pattern, reserved, known, pass, complete, trouble }
    }

    /// The same keys under a new configuration, as far as it watches them. A pass that is under way
    /// belongs to the old one.
    pub(super) fn configured(mut self, pattern: Arc<Pattern>, reserved: BTreeSet<Key>) -> Roster {
        let known = std::mem::take(&mut self.known);
        let mut roster = Roster::new(pattern, reserved);
        let kept = known.into_iter().filter(|(key, _)| roster.means(key));
        let kept = kept.take(roster.pattern.max_keys);
        let renewed = kept.map(|(key, Known { task, seen })| {
            let now = roster.task(&key);
            (key, Known { task: if *task == now { task } else { Arc::new(now) }, seen })
        });
        let known = renewed.collect();
        roster.known = known;
        roster
    }

    /// The tasks, sorted by key.
    pub(super) fn tasks(&self) -> impl ExactSizeIterator<Item = &Arc<TaskSpec>> {
        self.known.values().map(|known| &known.task)
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self, now: Mono) {
        self.pass = Some(Pass { began: now, left_out: 0 });
    }

    /// Takes in a key that a scan found. Keys that are watched keep their place, however many there
    /// are.
    pub(super) fn see(&mut self, key: &[u8], now: Mono) -> Found {
        if let Some(known) = self.known.get_mut(key) {
            known.seen = now;
            return Found::Known;
        }
        if !self.means(key) {
            return Found::NotMeant;
        }
        let is_usable = (1..=KEY_BYTES_MAX).contains(&key.len());
        if !is_usable || self.known.len() >= self.pattern.max_keys {
            self.pass.iter_mut().for_each(|pass| pass.left_out += 1);
            return Found::LeftOut;
        }
        let task = Arc::new(self.task(key));
        self.known.insert(key.to_vec(), Known { task, seen: now });
        Found::New
    }

    /// Ends a pass that saw all keys. Forgets those that were not seen in it, nor for [`KEPT_MS`],
    /// and that are not `used` either; returns whether there were any.
    pub(super) fn end(
        &mut self,
        now: Mono,
        wall: AgentWall,
        used: impl Fn(&TaskSpec) -> bool,
    ) -> bool {
        let Some(Pass { began, left_out }) = self.pass.take() else { return false };
        self.complete = Some(Complete { at: wall, left_out });
        self.trouble = None;
        let before = self.known.len();
        self.known.retain(|_, known| {
            let is_gone = known.seen < began && now.since_ms(known.seen) > KEPT_MS;
            if is_gone && used(&known.task) {
                known.seen = now;
                return true;
            }
            !is_gone
        });
        self.known.len() < before
    }

    /// The pass was cut short: it says nothing of the keys that it did not see.
    pub(super) fn fail(&mut self, why: Arc<str>) {
        self.pass = None;
        self.trouble = Some(why);
    }

    /// Keys that match and are not watched, in the newest complete pass; before that, those known by
    /// now, if there are any.
    pub(super) fn left_out(&self) -> Option<u64> {
        let by_now = || self.pass.map(|pass| pass.left_out).filter(|left_out| *left_out > 0);
        self.complete.map(|complete| complete.left_out).or_else(by_now)
    }

    /// Whether it watches this key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.known.contains_key(key)
    }

    /// Stops watching a key, as another pattern does; returns whether it did.
    pub(super) fn forget(&mut self, key: &[u8]) -> bool {
        self.known.remove(key).is_some()
    }

    /// Whether a key can be one of its locks: nothing else watches it, and the library does not keep
    /// it for a lock.
    fn means(&self, key: &[u8]) -> bool {
        let is_companion = |library| libraries::of(library).is_companion(key);
        !self.reserved.contains(key) && !self.pattern.library().is_some_and(is_companion)
    }

    fn task(&self, key: &[u8]) -> TaskSpec {
        let pattern = self.pattern.name();
        let room = TASK_NAME_BYTES_MAX.saturating_sub(pattern.len() + 1);
        self.pattern.task(format!("{pattern}/{}", key_name(key, room)).into(), key)
    }
}

/// The keys that the tasks of a configuration name: what guards them, and what is read with that.
pub(super) fn reserved<'a>(tasks: impl Iterator<Item = &'a Arc<TaskSpec>>) -> BTreeSet<Key> {
    let keys = |task: &Arc<TaskSpec>| {
        let parts = keys_beside(task).into_iter().map(|(key, _)| key);
        std::iter::once(task.kind.key().clone()).chain(parts)
    };
    tasks.flat_map(keys).collect()
}

#[cfg(test)]
mod tests;
