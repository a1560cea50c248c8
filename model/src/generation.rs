//! What a change of generation proves about lost data.

use crate::event::GenerationChange;
use crate::input::Generation;

/// How one generation differs from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Another process.
    pub(crate) restarted: bool,
    /// Another replication history within one process.
    pub(crate) replication: bool,
    /// A database was flushed.
    pub(crate) flushed: bool,
    /// Keys were evicted.
    pub(crate) evicted: bool,
    /// Everything was lost beyond doubt: flushed, or restarted with nothing.
    pub(crate) emptied: bool,
}

impl Delta {
    /// How `new` differs from `old`.
    pub(crate) fn between(old: &Generation, new: &Generation) -> Delta {
        let restarted = old.run_id != new.run_id;
        // A restart, like CONFIG RESETSTAT, begins the counters anew.
        let grew = |old: u64, new: u64| if restarted || new < old { new > 0 } else { new > old };
        let flushed = grew(old.flushes, new.flushes);
        Delta {
            restarted,
            replication: !restarted && old.replication_id != new.replication_id,
            flushed,
            evicted: grew(old.evictions, new.evictions),
            emptied: flushed || (restarted && new.started_empty == Some(true)),
        }
    }

    /// Whether a lock may have been lost. Evictions do not count: a busy cache evicts all day.
    pub(crate) fn may_lose_locks(self) -> bool {
        self.restarted || self.replication || self.flushed
    }

    /// The same for a task whose switches are still there, unchanged: whatever was flushed was another database.
    pub(crate) fn seen_beside(self, kept_switches: bool) -> Delta {
        if kept_switches { Delta { flushed: false, emptied: false, ..self } } else { self }
    }

    /// The changes to report.
    pub(crate) fn reported(self) -> impl Iterator<Item = GenerationChange> {
        [
            self.restarted.then_some(GenerationChange::Restarted),
            self.replication.then_some(GenerationChange::Replication),
            self.flushed.then_some(GenerationChange::Flushed),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(run: &str, flushes: u64, empty: Option<bool>) -> Generation {
        Generation { run_id: run.as_bytes().to_vec(), flushes, started_empty: empty, ..Generation::default() }
    }

    #[test]
    fn only_flush_and_empty_restart_prove_a_loss() {
        let delta = |old, new| Delta::between(&old, &new);
        let same = delta(generation("a", 1, None), generation("a", 1, None));
        assert_eq!(same, Delta::default());
        assert!(delta(generation("a", 1, None), generation("a", 2, None)).emptied);
        assert!(delta(generation("a", 5, None), generation("b", 0, Some(true))).emptied);
        let kept = delta(generation("a", 5, None), generation("b", 0, Some(false)));
        assert!(kept.may_lose_locks() && !kept.emptied && !kept.flushed);
        assert!(delta(generation("a", 0, None), generation("b", 1, Some(false))).flushed);
        // CONFIG RESETSTAT alone is no flush.
        assert!(!delta(generation("a", 5, None), generation("a", 0, None)).flushed);
    }
}
