//! A new holder beside the one whose hold was lost before its deadline.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::generation::{Delta, Mark};
use crate::reading::{Held, Holder};
use crate::shared::claims::{CLAIM_GOES_ON, Claims};
use crate::spec::TaskSpec;
use crate::time::Mono;

/// An accepted reading, as far as evidence for two holders depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Observation<'a> {
    pub(crate) at: Mono,
    /// The holders now; `None` when the lock is free.
    pub(crate) held: Option<&'a Held>,
    /// A hold began with this reading.
    pub(crate) acquired: bool,
    /// The present hold cannot be a phantom.
    pub(crate) proven: bool,
    /// Claims that changed while the present hold certainly continued.
    pub(crate) claims_during: &'a [Vec<u8>],
    pub(crate) spec: &'a TaskSpec,
}

/// A hold that ended before its deadline, whose holder may still believe in it.
#[derive(Clone, Debug)]
pub(crate) struct EndedBefore {
    pub(crate) holders: Vec<Holder>,
    pub(crate) deadline: Option<Mono>,
    /// It was certainly lost: the server lost its data, or the new master never had it.
    pub(crate) surely_lost: bool,
    /// It may have been lost: the generation changed.
    pub(crate) perhaps_lost: bool,
    /// The point by which it was certainly gone.
    pub(crate) gone: Mark,
    /// The server that showed it.
    pub(crate) node: Arc<str>,
    /// When another holder was first seen.
    pub(crate) successor_seen: Option<Mono>,
    /// The evidence from that holder was reported.
    pub(crate) judged: bool,
    /// Number of samples since then in which the old holder's claim changed. One change may be the
    /// last of a worker that stops.
    pub(crate) moved_since: u32,
}

impl EndedBefore {
    /// The next reading is of other data. These may be older than the loss, so the hold may have
    /// returned with them and been released since.
    pub(crate) fn data_changed(&mut self, delta: Delta) {
        let is_gone_there = delta.kept || delta.emptied || delta.surely_includes(self.gone);
        self.surely_lost &= is_gone_there || !delta.new_history();
    }

    /// Takes in a reading of another holder. Returns until when the two overlap, if that is proven
    /// now, and whether it is in doubt.
    pub(super) fn observe(
        &mut self,
        now: Observation<'_>,
        left_ms: Option<u64>,
    ) -> (Option<Until>, bool) {
        if now.acquired && self.successor_seen.is_none() {
            self.successor_seen = Some(now.at);
        }
        let Some(seen) = self.successor_seen else { return (None, false) };
        if !self.judged && now.proven {
            self.judged = true;
            return match (left_ms, self.deadline) {
                (Some(_), Some(deadline)) if self.surely_lost => {
                    (Some(Until::Deadline(deadline)), false)
                }
                (left_ms, _) => (None, left_ms.is_some() && self.perhaps_lost),
            };
        }
        if now.at > seen {
            let moved =
                self.holders.iter().find(|holder| now.claims_during.contains(&holder.client));
            self.moved_since += u32::from(moved.is_some());
            if self.moved_since >= CLAIM_GOES_ON {
                return (moved.map(|holder| Until::Claim(holder.client.clone())), false);
            }
        }
        (None, false)
    }

    /// Whether its successor is still to be judged.
    pub(crate) fn awaits_successor(&self, at: Mono) -> bool {
        !self.judged
            && (self.surely_lost || self.perhaps_lost)
            && self.deadline.is_some_and(|deadline| at < deadline)
    }
}

/// What ends an overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The lost hold's deadline, on the clock that set it.
    Deadline(Mono),
    /// The old holder's claim lives no more.
    Claim(Vec<u8>),
}

impl Until {
    pub(super) fn is_over(&self, claims: &Claims, now: Observation<'_>) -> bool {
        match self {
            Until::Deadline(deadline) => now.at >= *deadline,
            Until::Claim(instance) => !claims.is_live(instance, now.spec.fresh_for_ms()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost_at(gone: Mark) -> EndedBefore {
        EndedBefore {
            holders: Vec::new(),
            deadline: Some(Mono::at(1_000)),
            surely_lost: true,
            perhaps_lost: false,
            gone,
            node: Arc::from("a:1"),
            successor_seen: None,
            judged: false,
            moved_since: 0,
        }
    }

    /// While the holder may still believe in the hold, a reading that differs for a moment changes
    /// nothing.
    #[test]
    fn only_a_lost_hold_whose_lease_would_run_awaits_who_comes_after_it() {
        let lost = lost_at(Mark { offset: None, at: Mono::at(0) });
        let perhaps = EndedBefore { surely_lost: false, perhaps_lost: true, ..lost.clone() };
        let released = EndedBefore { surely_lost: false, ..lost.clone() };
        let judged = EndedBefore { judged: true, ..lost.clone() };
        let endless = EndedBefore { deadline: None, ..lost.clone() };
        let table = [
            (&lost, 999, true),
            (&lost, 1_000, false),
            (&perhaps, 999, true),
            (&released, 999, false),
            (&judged, 999, false),
            (&endless, 999, false),
        ];
        for (before, at, awaits) in table {
            assert_eq!(before.awaits_successor(Mono::at(at)), awaits, "{before:?} at {at}");
        }
    }

    /// A hold that came with data that may be older than the loss may have been released since.
    #[test]
    fn only_data_that_surely_come_after_a_loss_leave_it_certain() {
        let _rule = crate::truth::rule("12 two holders");
        let none = Delta::default();
        let restarted = Delta { restarted: true, ..none };
        let failover = |shared| Delta { failover: true, shared, ..none };
        let table = [
            (none, true, "the same data"),
            (restarted, false, "perhaps an old file"),
            (restarted.beginning_with(Mono::at(600)), true, "a file that is newer"),
            (restarted.beginning_with(Mono::at(500)), false, "or not"),
            (Delta { emptied: true, ..restarted }, true, "nothing is there"),
            (failover(Some(100)), true, "the new master shares it"),
            (failover(Some(99)), false, "or not"),
            (failover(None), false, "unknown"),
            (Delta { kept: true, ..failover(None) }, true, "all was kept"),
        ];
        for (delta, stays, what) in table {
            let mut before = lost_at(Mark { offset: Some(100), at: Mono::at(500) });
            before.data_changed(delta);
            assert_eq!(before.surely_lost, stays, "{what}");
        }
    }
}
