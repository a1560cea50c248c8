//! What a change of generation did to the watched locks: gathered while their first readings come in, told once.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{Aftermath, Fate};
use crate::evidence::Origin;
use crate::generation::Delta;
use crate::spec::TaskIndex;
use crate::time::Mono;

/// The changes whose consequences are not known yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aftermaths {
    open: Vec<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    node: Arc<str>,
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
        self.open.push(Open { node: new.node.clone(), since: sent, told, overlapped, aftermath });
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
