//! One execution of a member: who holds its lock, and whether that holder shows signs of life.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::evidence::{NOISE_MS, Seen};
use crate::reading::{Held, Holder};
use crate::shared::claims::{CLAIM_GOES_ON, Claims};
use crate::time::{Mono, ServerTime};

/// A holder of a member's lock.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    held: Arc<Held>,
    /// The newest reading that showed it.
    last: Seen,
    /// The newest renewal that was seen.
    renewal: Option<Renewal>,
    /// Whether its lock had expired when it was first seen to be free again.
    expired: Option<bool>,
    expiry_reported: bool,
    death_reported: bool,
}

/// A renewal, and when the next one is late.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    next_by: ServerTime,
}

impl Execution {
    pub(super) fn new(held: &Arc<Held>, seen: Seen) -> Execution {
        Execution {
            held: Arc::clone(held),
            last: seen,
            renewal: None,
            expired: None,
            expiry_reported: false,
            death_reported: false,
        }
    }

    pub(super) fn holders(&self) -> &[Holder] {
        &self.held.holders
    }

    /// The same holder has the lock as of `seen`.
    pub(super) fn goes_on(
        &mut self,
        held: &Arc<Held>,
        seen: Seen,
        renewals_per_lease: Option<u32>,
    ) {
        let moved = self
            .held
            .deadline
            .instant()
            .zip(held.deadline.instant())
            .is_some_and(|(before, now)| now.since_ms(before) > NOISE_MS);
        if let (true, Some(deadline)) = (moved, held.deadline.instant()) {
            // It was set between the two readings, so the lease is at most this long.
            let lease_ms = deadline.since_ms(self.last.first);
            let period_ms = renewals_per_lease.map(|times| lease_ms / i64::from(times.max(1)));
            let late_ms = |period_ms: i64| period_ms.saturating_add(period_ms / 2);
            self.renewal =
                period_ms.map(|period| Renewal { next_by: seen.last.plus_ms(late_ms(period)) });
        }
        if moved || self.expired.is_some() {
            self.death_reported = false;
        }
        self.held = Arc::clone(held);
        self.last = seen;
        self.expired = None;
    }

    /// The clock of the server is another one from here on.
    pub(super) fn clock_changed(&mut self) {
        self.renewal = None;
    }

    /// The lock is free as of `seen`; `same_clock`: by the clock that set its deadline. Returns
    /// whether it is reported now that it had expired: once that is seen again.
    pub(super) fn is_free(&mut self, seen: Seen, same_clock: bool) -> bool {
        let Some(expired) = self.expired else {
            let by_then = |deadline| same_clock && deadline <= seen.last;
            self.expired = Some(self.held.deadline.instant().is_some_and(by_then));
            return false;
        };
        expired && !core::mem::replace(&mut self.expiry_reported, true)
    }

    /// Whether its holder is silent: its claim is, or its library should have renewed the lock.
    pub(super) fn is_dead(&self, now: ServerTime, claims: &Claims, fresh_for_ms: u64) -> bool {
        let is_overdue = self.renewal.is_some_and(|renewal| renewal.next_by < now);
        let is_silent = |holder: &Holder| claims.fell_silent(&holder.client, fresh_for_ms);
        is_overdue || self.holders().iter().any(is_silent)
    }

    /// Whether it is reported now that its holder is dead.
    pub(super) fn reports_dead(&mut self, is_dead: bool) -> bool {
        let before = core::mem::replace(&mut self.death_reported, is_dead);
        is_dead && !before
    }
}

/// A holder that was followed by another one while the member kept its score.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    pub(super) holder: Holder,
    /// When the next holder was seen.
    seen: Mono,
    /// Number of samples since then in which its claim changed. One change may be the last of a
    /// worker that stops.
    moved: u32,
}

impl Replaced {
    pub(super) fn new(holder: &Holder, seen: Mono) -> Replaced {
        Replaced { holder: holder.clone(), seen, moved: 0 }
    }

    /// Takes in the claims that changed, as of a reading at `at`.
    pub(super) fn observe(&mut self, changed: &[Vec<u8>], at: Mono) {
        if at > self.seen && changed.contains(&self.holder.client) {
            self.moved = self.moved.saturating_add(1);
        }
    }

    /// Whether it still executes the member beside the next holder.
    pub(super) fn goes_on(&self, claims: &Claims, fresh_for_ms: u64) -> bool {
        self.moved >= CLAIM_GOES_ON && claims.is_live(&self.holder.client, fresh_for_ms)
    }
}
