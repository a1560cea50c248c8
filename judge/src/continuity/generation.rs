//! Derives from a change of generation which data were certainly lost or kept.

use alloc::sync::Arc;

use crate::event::GenerationChange;
use crate::evidence::Origin;
use crate::input::Generation;
use crate::spec::Authority;
use crate::time::Mono;

/// Instants and durations are rounded to whole milliseconds.
const ROUNDING_MS: u64 = 1;

/// The difference between one generation and the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Another process at the same address.
    pub(crate) restarted: bool,
    /// Another server.
    pub(crate) failover: bool,
    /// Another replication history within one process.
    pub(crate) replication: bool,
    /// A database was flushed.
    pub(crate) flushed: bool,
    /// A slot of a cluster was flushed.
    pub(crate) slot_flushed: bool,
    pub(crate) evicted: Evicted,
    /// All data were certainly lost: flushed, or restarted without data.
    pub(crate) emptied: bool,
    /// For a history that continues the old one: the number of bytes that both share.
    pub(crate) shared: Option<u64>,
    /// Everything written by the earlier reading is among the shared bytes.
    pub(crate) kept: bool,
    /// For a restart: the new process certainly began with everything written by this instant.
    pub(crate) began_with: Option<Mono>,
}

/// Which keys may have been evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Evicted {
    #[default]
    None,
    /// Only keys with a TTL.
    WithTtl,
    Any,
}

/// A point by which data had certainly been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes of the history; `None`: unknown.
    pub(crate) offset: Option<u64>,
    pub(crate) at: Mono,
}

impl Delta {
    /// How the data changed from a reading from `old` to one from `new`. Without an earlier reading,
    /// no change is known.
    pub(crate) fn since(old: Option<&Origin>, new: &Origin) -> Delta {
        let Some(old) = old else { return Delta::default() };
        match (&old.generation, &new.generation) {
            (Some(before), Some(now)) if Arc::ptr_eq(before, now) => Delta::default(),
            (Some(before), Some(now)) => {
                let moved = old.node != new.node;
                Delta::between(before, old.offset, now, moved, new.authority)
            }
            // A server that does not report its generation proves nothing, but another server still
            // is another server.
            _ if old.node != new.node => Delta::of_another_server(new.authority),
            _ => Delta::default(),
        }
    }

    /// How `new` differs from `old`, of which `old_offset` bytes had been written. `moved`: another
    /// address answered.
    pub(crate) fn between(
        old: &Generation,
        old_offset: Option<u64>,
        new: &Generation,
        moved: bool,
        authority: Authority,
    ) -> Delta {
        let other_process = old.process != new.process;
        let shared = shared_bytes(old, new);
        let kept = shared.zip(old_offset).is_some_and(|(shared, offset)| offset <= shared);
        if moved && other_process {
            return match shared {
                Some(_) => Delta { failover: true, shared, kept, ..Delta::default() },
                None => Delta::of_another_server(authority),
            };
        }
        // A restart resets the counters, as CONFIG RESETSTAT does.
        let grew =
            |old: u64, new: u64| if other_process || new < old { new > 0 } else { new > old };
        let flushed = grew(old.flushes, new.flushes);
        let evicted = match grew(old.evictions, new.evictions) {
            false => Evicted::None,
            // The policy may have changed in between.
            true if old.evicts_only_with_ttl && new.evicts_only_with_ttl => Evicted::WithTtl,
            true => Evicted::Any,
        };
        let started_empty = other_process && new.started_empty == Some(true) && !kept;
        Delta {
            restarted: other_process,
            failover: false,
            replication: !other_process && old.history != new.history,
            flushed,
            slot_flushed: grew(old.slot_flushes, new.slot_flushes),
            evicted,
            emptied: flushed || started_empty,
            shared,
            kept,
            began_with: None,
        }
    }

    /// Another server answers, and how its data relate to the previous one's is unknown. In a
    /// cluster the slot has moved, which loses nothing.
    pub(crate) fn of_another_server(authority: Authority) -> Delta {
        let failover = !authority.divided;
        Delta { failover, kept: !failover, ..Delta::default() }
    }

    /// Whether offsets belong to another history from here on.
    pub(crate) fn new_history(self) -> bool {
        self.restarted || self.failover || self.replication || self.kept
    }

    /// Whether a lock may have been lost. Evictions do not count, because a busy cache evicts
    /// constantly.
    pub(crate) fn may_lose_locks(self) -> bool {
        self.flushed || self.slot_flushed || self.may_lack()
    }

    /// Whether the new history may lack data of the old one.
    pub(crate) fn may_lack(self) -> bool {
        (self.restarted || self.replication || self.failover) && !self.kept
    }

    /// Whether a key may have been evicted. `has_ttl`: it had a TTL, or that is unknown.
    pub(crate) fn may_evict(self, has_ttl: bool) -> bool {
        match self.evicted {
            Evicted::None => false,
            Evicted::WithTtl => has_ttl,
            Evicted::Any => true,
        }
    }

    /// Whether the new history certainly shares the first `written` bytes of the old one, whatever
    /// else it lacks.
    pub(crate) fn surely_shares(self, written: u64) -> bool {
        self.is_another_history() && self.shared.is_some_and(|shared| written <= shared)
    }

    /// The same change, with the knowledge that the new process began with everything written to
    /// the old one by `until`.
    pub(crate) fn beginning_with(self, until: Mono) -> Delta {
        let untouched = self.restarted && !self.emptied;
        Delta { began_with: untouched.then_some(until), ..self }
    }

    /// Whether the present data certainly come after `written`. If the data written then are absent
    /// now, they were removed.
    pub(crate) fn surely_includes(self, written: Mark) -> bool {
        written.offset.is_some_and(|offset| self.surely_shares(offset))
            || self.began_with.is_some_and(|until| until.since_ms(written.at) > ROUNDING_MS)
    }

    /// Whether the new history certainly lacks what was written after `written`, and lost nothing
    /// but that.
    pub(crate) fn surely_lacks(self, written: u64) -> bool {
        self.is_another_history()
            && !self.kept
            && self.shared.is_some_and(|shared| shared <= written)
    }

    /// Whether what is missing can only be what the new history lacks: a master that was a replica,
    /// or that began with a copy of the old data from one moment.
    fn is_another_history(self) -> bool {
        let is_another = self.failover || self.replication || self.restarted;
        is_another && !self.flushed && !self.slot_flushed
    }

    /// The same change where other data of this database are known to be unchanged. They prove that
    /// any flush hit another database.
    pub(crate) fn seen_with(self, kept: bool) -> Delta {
        Delta { flushed: self.flushed && !kept, emptied: self.emptied && !kept, ..self }
    }

    /// Whether data first written after `written` bytes of the old history certainly never reached
    /// the new one, and neither did older data of the same name, which were over at `earlier`.
    pub(crate) fn surely_lost_after(self, written: Option<u64>, earlier: Option<u64>) -> bool {
        let beyond = |shared: u64, written: u64| {
            written >= shared && earlier.is_none_or(|over| over <= shared)
        };
        // If everything that was read is shared, none of it can be lost: the offset is read a
        // moment after the lock.
        self.emptied
            || (!self.kept
                && self
                    .shared
                    .zip(written)
                    .is_some_and(|(shared, written)| beyond(shared, written)))
    }

    /// The changes to report.
    pub(crate) fn reported(self) -> impl Iterator<Item = GenerationChange> {
        [
            self.restarted.then_some(GenerationChange::Restarted),
            self.replication.then_some(GenerationChange::Replication),
            self.failover.then_some(GenerationChange::Failover),
            self.flushed.then_some(GenerationChange::Flushed),
        ]
        .into_iter()
        .flatten()
    }
}

/// The number of bytes of `old`'s history that `new`'s history shares, if it continues it.
pub(crate) fn shared_bytes(old: &Generation, new: &Generation) -> Option<u64> {
    let fork = new.forked_from.as_ref()?;
    let continues = !old.history.is_empty() && fork.history == old.history;
    continues.then(|| fork.offset.saturating_sub(1))
}

/// Number of bytes that two servers share, if one of them continues the history of the other, or
/// both the same third one.
pub(crate) fn fork(a: &Origin, b: &Origin) -> Option<u64> {
    let (a, b) = (a.generation.as_deref()?, b.generation.as_deref()?);
    let of_a_third = || {
        let (a, b) = (a.forked_from.as_ref()?, b.forked_from.as_ref()?);
        let same = !a.history.is_empty() && a.history == b.history;
        same.then(|| a.offset.min(b.offset).saturating_sub(1))
    };
    shared_bytes(a, b).or_else(|| shared_bytes(b, a)).or_else(of_a_third)
}

/// Whether offsets of both belong to one history: the same, or one that was continued.
pub(crate) fn one_history(old: &Origin, new: &Origin) -> bool {
    match (&old.generation, &new.generation) {
        (Some(old), Some(new)) => old.history == new.history || shared_bytes(old, new).is_some(),
        _ => false,
    }
}

/// Whether a master stayed master between both. A server that follows another one, even for a
/// moment, starts a new history.
pub(crate) fn one_reign(old: &Origin, new: &Origin) -> bool {
    match (&old.generation, &new.generation) {
        (Some(old), Some(new)) => !old.history.is_empty() && old.history == new.history,
        _ => false,
    }
}

pub(crate) fn same_process(a: &Origin, b: &Origin) -> bool {
    match (&a.generation, &b.generation) {
        (Some(a), Some(b)) => !a.process.is_empty() && a.process == b.process,
        _ => false,
    }
}

/// The data that one process passed to the next at the same address.
#[derive(Clone, Debug)]
pub(crate) struct Continued {
    pub(crate) by: Arc<Generation>,
    /// The next process began with everything written up to this instant, because stored data are a
    /// copy from one moment.
    pub(crate) until: Mono,
}

impl Continued {
    /// Whether a reading from `old` comes from that process.
    pub(crate) fn left_by(&self, old: &Origin) -> bool {
        old.generation.as_ref().is_some_and(|old| old.process == self.by.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    use crate::input::Fork;

    fn generation(run: &str, flushes: u64, empty: Option<bool>) -> Generation {
        Generation {
            process: run.as_bytes().to_vec(),
            flushes,
            started_empty: empty,
            ..Generation::default()
        }
    }

    /// Bytes count from another origin on another server of a cluster, but the moved data are
    /// complete.
    #[test]
    fn of_another_server_only_a_cluster_has_the_same_data() {
        let kinds =
            [Authority::ALONE, Authority::SELF_DECLARED, Authority::ANNOUNCED, Authority::DIVIDED];
        let found = kinds
            .map(Delta::of_another_server)
            .map(|delta| (delta.new_history(), delta.may_lose_locks()));
        assert_eq!(found, [(true, true), (true, true), (true, true), (true, false)]);
    }

    #[test]
    fn only_flush_and_empty_restart_prove_a_loss() {
        let _rule = crate::truth::rule("10 lost switches");
        let delta = |old, new| Delta::between(&old, None, &new, false, Authority::ALONE);
        let same = delta(generation("a", 1, None), generation("a", 1, None));
        assert_eq!(same, Delta::default());
        assert!(delta(generation("a", 1, None), generation("a", 2, None)).emptied);
        assert!(delta(generation("a", 5, None), generation("b", 0, Some(true))).emptied);
        let kept = delta(generation("a", 5, None), generation("b", 0, Some(false)));
        assert!(kept.may_lose_locks() && !kept.emptied && !kept.flushed);
        assert!(delta(generation("a", 0, None), generation("b", 1, Some(false))).flushed);
        // CONFIG RESETSTAT alone is no flush, but a flush counted after it is one.
        assert!(!delta(generation("a", 5, None), generation("a", 0, None)).flushed);
        assert!(delta(generation("a", 5, None), generation("a", 1, None)).emptied);
        assert!(delta(generation("a", 5, None), generation("a", 4, None)).emptied);
    }

    #[test]
    fn offsets_tell_what_a_promoted_replica_never_had() {
        let history = |run: &str, id: &str, fork: Option<(&str, u64)>| Generation {
            history: id.as_bytes().to_vec(),
            forked_from: fork.map(|(id, offset)| Fork { history: id.as_bytes().to_vec(), offset }),
            ..generation(run, 0, None)
        };
        let old = history("a", "x", None);
        // The new master shares the first 100 bytes.
        let new = history("b", "y", Some(("x", 101)));
        let delta = |offset| Delta::between(&old, offset, &new, true, Authority::ANNOUNCED);
        let table = [(Some(100), false), (Some(101), true), (None, true)];
        for (offset, may_lose) in table {
            let delta = delta(offset);
            assert!(delta.failover && delta.may_lose_locks() == may_lose, "{offset:?}");
        }
        assert!(delta(Some(120)).surely_lost_after(Some(100), None));
        assert!(
            !delta(Some(100)).surely_lost_after(Some(100), None),
            "it was written while it was read"
        );
        assert!(!delta(Some(120)).surely_lost_after(Some(99), None));
        assert!(!delta(Some(120)).surely_lost_after(None, None));
        assert!(
            delta(Some(120)).surely_lost_after(Some(110), Some(100)),
            "an earlier hold was over in both histories"
        );
        assert!(
            !delta(Some(120)).surely_lost_after(Some(110), Some(101)),
            "an earlier hold may have been left over"
        );
        let unrelated = history("b", "y", Some(("z", 101)));
        let delta = |kind| Delta::between(&old, Some(1), &unrelated, true, kind);
        assert!(delta(Authority::ANNOUNCED).may_lose_locks());
        assert!(!delta(Authority::DIVIDED).may_lose_locks(), "a slot that moved");
    }
    /// A server that hides the names of its histories shares none with any other.
    #[test]
    fn nameless_histories_are_not_one() {
        let new = Generation {
            forked_from: Some(Fork { history: Vec::new(), offset: 101 }),
            ..generation("b", 0, None)
        };
        assert_eq!(shared_bytes(&generation("a", 0, None), &new), None);
        assert!(
            Delta::between(&generation("a", 0, None), Some(1), &new, true, Authority::ANNOUNCED)
                .may_lose_locks()
        );
    }

    /// A server that had replicas returns with the history and the offset that its file has.
    #[test]
    fn a_restart_shares_what_its_file_has() {
        let _rule = crate::truth::rule("10 lost switches");
        let id = |id: &str| id.as_bytes().to_vec();
        let old = Generation { history: id("x"), ..generation("a", 0, None) };
        let forked_from = Some(Fork { history: id("x"), offset: 101 });
        let new = Generation { history: id("y"), forked_from, ..generation("b", 0, Some(true)) };
        let delta = |read: u64| Delta::between(&old, Some(read), &new, false, Authority::ALONE);
        let whole = delta(100);
        assert!(whole.restarted && whole.kept && !whole.may_lose_locks());
        assert!(!whole.emptied, "all that it had has run out since");
        assert!(!whole.surely_lost_after(Some(100), None));
        let older = delta(101);
        assert!(older.may_lose_locks() && older.emptied, "it was written after the file");
        assert!(older.surely_shares(100) && older.surely_lacks(100));
        let unnamed = Generation { forked_from: None, ..new };
        let delta = Delta::between(&old, Some(100), &unnamed, false, Authority::ALONE);
        assert!(delta.may_lose_locks() && delta.shared.is_none(), "it had no replicas");
        let flushed = Delta { flushed: true, ..whole };
        assert!(flushed.may_lose_locks() && !flushed.surely_shares(1));
    }

    /// The policy may have changed between two readings.
    #[test]
    fn keys_without_ttl_are_spared_only_where_the_policy_stayed() {
        let _rule = crate::truth::rule("10 lost switches");
        let evicted = |evictions: u64, evicts_only_with_ttl: bool| Generation {
            evictions,
            evicts_only_with_ttl,
            ..generation("a", 0, None)
        };
        let may_evict = |old: (u64, bool), new: (u64, bool)| {
            let (old, new) = (evicted(old.0, old.1), evicted(new.0, new.1));
            let delta = Delta::between(&old, None, &new, false, Authority::ALONE);
            [true, false].map(|has_ttl| delta.may_evict(has_ttl))
        };
        assert_eq!(may_evict((7, true), (7, true)), [false, false]);
        assert_eq!(may_evict((7, true), (8, true)), [true, false]);
        assert_eq!(may_evict((7, true), (8, false)), [true, true]);
        assert_eq!(may_evict((7, false), (8, true)), [true, true]);
    }

    /// The bytes that the new master shares do not show what was flushed there since.
    #[test]
    fn a_flush_takes_what_is_shared() {
        let delta = Delta { replication: true, shared: Some(100), ..Delta::default() };
        assert!(delta.surely_shares(50));
        assert!(!Delta { flushed: true, ..delta }.surely_shares(50));
    }
}
