//! What a change of generation did to the watched locks: gathered while their first readings come in, told once.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{Aftermath, Fate};
use crate::evidence::Origin;
use crate::generation::Delta;
use crate::spec::TaskIndex;
use crate::time::Mono;

/// A server that has just started may refuse single keys for so long.
const UNREAD_MS_MAX: u64 = 30_000;

/// The changes whose consequences are not known yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aftermaths {
    open: Vec<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    node: Arc<str>,
    began: Mono,
    /// When something was last known to be missing.
    since: Mono,
    /// Tasks whose fate is counted.
    told: BTreeSet<TaskIndex>,
    overlapped: BTreeSet<TaskIndex>,
    aftermath: Aftermath,
}

impl Aftermaths {
    /// The generation changed from `old` to `new`, as a reading showed that was asked for at `sent`, `blind_ms` after the
    /// newest one before.
    pub(crate) fn begin(&mut self, old: &Origin, new: &Origin, delta: Delta, (sent, blind_ms): (Mono, u64)) {
        let changes = delta.reported();
        if let Some(open) = self.open.iter_mut().find(|open| open.node == new.node) {
            open.aftermath.changes.extend(changes);
            open.aftermath.changes.dedup();
            return;
        }
        let lost = delta.shared.zip(old.offset).map(|(shared, written)| written.saturating_sub(shared));
        let aftermath = Aftermath {
            changes: changes.collect(),
            from: Some(old.node.clone()),
            to: Some(new.node.clone()),
            bytes_lost: lost,
            blind_ms,
            ..Aftermath::default()
        };
        let (told, overlapped) = (BTreeSet::new(), BTreeSet::new());
        self.open.push(Open { node: new.node.clone(), began: sent, since: sent, told, overlapped, aftermath });
    }

    /// A reading from `node` shows what became of a lock; `None`: it was not held before. The first after the change counts.
    pub(crate) fn fate(&mut self, node: &Arc<str>, task: TaskIndex, fate: Option<Fate>) {
        let Some(open) = self.open.iter_mut().find(|open| open.node == *node) else { return };
        if open.told.insert(task)
            && let Some(fate) = fate
        {
            add(&mut open.aftermath, fate, 1);
        }
    }

    /// At `at` a lock that `node` has could not be read yet, for a reason that passes: what became of it is waited for.
    pub(crate) fn unread(&mut self, node: &Arc<str>, task: TaskIndex, at: Mono) {
        let Some(open) = self.open.iter_mut().find(|open| open.node == *node) else { return };
        if !open.told.contains(&task) && at.since_ms(open.began) <= UNREAD_MS_MAX {
            open.since = open.since.max(at);
        }
    }

    /// Two hold the lock of `task`, for so long by now.
    pub(crate) fn overlaps(&mut self, task: TaskIndex, since_ms: u64) {
        let Some(open) = self.open.first_mut() else { return };
        open.aftermath.overlap_ms = open.aftermath.overlap_ms.max(since_ms);
        if open.overlapped.insert(task) {
            add(&mut open.aftermath, Fate::Overlapped, 1);
        }
    }

    /// The changes of which everything is known by `at`.
    pub(crate) fn over(&mut self, at: Mono, settle_ms: u64) -> Vec<Aftermath> {
        let (over, open) = self.open.drain(..).partition(|open: &Open| at.since_ms(open.since) > settle_ms);
        self.open = open;
        over.into_iter().map(|open| open.aftermath).collect()
    }
}

fn add(aftermath: &mut Aftermath, fate: Fate, count: u64) {
    if let Some(fates) = aftermath.fates.get_mut(fate as usize) {
        *fates += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Generation;
    use crate::spec::RedisKind;

    #[test]
    fn what_cannot_be_read_yet_is_waited_for() {
        let node: Arc<str> = Arc::from("a:1");
        let origin = Origin {
            node: node.clone(),
            clock_steps: 0,
            generation: Some(Arc::new(Generation::default())),
            histories: Arc::default(),
            offset: None,
            kind: RedisKind::Cluster,
        };
        let restarted = Delta { restarted: true, ..Delta::default() };
        let begun = || {
            let mut aftermaths = Aftermaths::default();
            aftermaths.begin(&origin, &origin, restarted, (Mono(1_000), 0));
            aftermaths
        };
        let task = TaskIndex(0);
        let mut aftermaths = begun();
        for at in (1_000..5_000).step_by(500) {
            aftermaths.unread(&node, task, Mono(at));
            assert!(aftermaths.over(Mono(at + 500), 1_000).is_empty(), "{at}");
        }
        aftermaths.fate(&node, task, Some(Fate::Kept));
        aftermaths.unread(&node, task, Mono(5_400));
        let over = aftermaths.over(Mono(5_600), 1_000);
        assert_eq!(over.first().map(|over| over.fates[Fate::Kept as usize]), Some(1));
        // Not for ever.
        let mut aftermaths = begun();
        (1_000..40_000).step_by(500).for_each(|at| aftermaths.unread(&node, task, Mono(at)));
        assert_eq!(aftermaths.over(Mono(40_000), 1_000).len(), 1);
    }
}
