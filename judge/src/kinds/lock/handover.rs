//! Who had the lock before, and what lies between: gaps, outages, and handovers without either.

use alloc::sync::Arc;

use super::ended::Ended;
use super::hold::{Hold, continues};
use super::state::{Lock, Observed};
use super::stretch::Break;
use crate::event::{End, EventKind};
use crate::reading::Held;
use crate::shared::Shared;
use crate::shared::clocks::{GapClock, Holding, OutageClock};
use crate::shared::progress;
use crate::step::Log;
use crate::time::Mono;
use crate::totals::Past;
use crate::verdict::Wanted;

/// How one holder follows another.
#[derive(Clone, Debug, Default)]
pub(super) struct Handover {
    pub(super) outage: OutageClock,
    /// The holder whose hold ended, as long as no gap has begun since.
    from: Option<Arc<Held>>,
    /// The present hold took over from another holder without a gap; counted when it settles.
    is_direct: bool,
    /// The lock has been held without a break for `settle`, and this was recorded.
    settled: bool,
    /// The same of the present hold by itself.
    hold_settled: bool,
}

impl Handover {
    /// A hold ended.
    pub(super) fn ended(&mut self, ended: &Ended, across_blind: bool, wanted: Wanted) {
        let counts = matches!(wanted, Wanted::Yes | Wanted::Unset) && !across_blind;
        match ended.reason {
            End::Expired if counts => self.outage.expired(ended.hold.last_life),
            _ if self.settled => self.outage.forget(),
            _ => {}
        }
        self.from = (!across_blind).then(|| Arc::clone(&ended.hold.held));
        self.hold_settled = false;
    }

    /// Somebody held the lock without a break; now there was one.
    pub(super) fn broke(
        &mut self,
        shared: &mut Shared,
        Break { held_ms, expired }: Break,
        across_blind: bool,
        log: &mut Log,
    ) {
        // Between two readings it may have lasted, which is no evidence against what was published.
        let is_published = shared.gap().is_some_and(GapClock::is_published);
        if held_ms >= shared.spec.settle_ms && !across_blind && !is_published {
            self.update_gap(shared, log.at, Holding::Settled, log);
            self.lasted(shared, log);
        }
        if core::mem::take(&mut self.settled) {
            return;
        }
        self.outage.lost_again();
        // What ended while unseen for long may have lasted.
        if let Some(wanting) = &mut shared.wanting
            && wanting.gap.open()
            && !across_blind
        {
            wanting.gap.broke(held_ms, expired);
            shared.totals().rare.phantom_holds += 1;
            shared.grounds.flapped(log.at);
            log.push(EventKind::PhantomHold { held_ms });
        }
    }

    /// A hold began, and its beginning was seen.
    pub(super) fn began(&mut self, shared: &Shared, hold: &Hold, across_blind: bool) {
        let has_gap = shared.gap().is_some_and(GapClock::open);
        // An unwanted task is not handed over.
        let may_be_handover = shared.wanted_since().is_some() && !across_blind && !has_gap;
        let from = self.from.take();
        self.is_direct = may_be_handover && from.is_some_and(|from| !continues(&from, &hold.held));
        self.outage.taken_over(hold.began);
        self.hold_settled = false;
    }

    /// Updates the clocks that count evidence of the lock and of "wanted" together: gap, outage,
    /// unwanted and progress.
    pub(super) fn update(
        &mut self,
        shared: &mut Shared,
        lock: &Lock,
        observed: &Observed,
        at: Mono,
        log: &mut Log,
    ) {
        let settle_ms = shared.spec.settle_ms;
        let hold = lock.hold();
        let holding = match (hold, lock.free_since()) {
            (Some(_), _) if lock.unbroken_ms() >= settle_ms => Holding::Settled,
            (Some(hold), _) => Holding::Unsettled(observed.broke.map(|_| hold.began)),
            (None, Some(first)) => Holding::Free(first),
            (None, None) => Holding::PerhapsFree,
        };
        if let Some(wanting) = &mut shared.wanting
            && observed.across_blind
        {
            wanting.gap.taint();
        }
        self.is_direct &= !self.update_gap(shared, at, holding, log);
        if holding == Holding::Settled {
            self.lasted(shared, log);
        }
        let hold_lasted = hold.is_some_and(|hold| hold.settled(settle_ms));
        if hold_lasted && !core::mem::replace(&mut self.hold_settled, true) {
            self.hold_lasted(shared, log.at);
        }
        let (wanted, wanted_since) = (shared.wanted(), shared.wanted_since());
        if let Some(wanting) = &mut shared.wanting {
            wanting.unwanted.observe(at, hold.is_some(), wanted, shared.spec.blind_after_ms);
        }
        if let (Some(clock), Some(spec)) = (&mut shared.progress, &shared.spec.progress) {
            let hold = hold.map(|hold| progress::Hold {
                since: hold.first_seen,
                saw_begin: hold.acquired.is_some(),
            });
            clock.judge(at, hold, wanted, wanted_since, spec.stale_after_ms);
        }
    }

    /// Returns whether a hold ended a gap.
    pub(super) fn update_gap(
        &mut self,
        shared: &mut Shared,
        at: Mono,
        holding: Holding,
        log: &mut Log,
    ) -> bool {
        let is_unwanted = shared.wanted() == Wanted::No;
        if is_unwanted {
            self.outage.forget();
            self.is_direct = false;
        }
        if is_unwanted || matches!(holding, Holding::Free(_)) {
            // From here on the gap counts, not a direct handover.
            self.from = None;
        }
        let ended = shared.observe_gap(at, holding, log);
        if ended {
            shared.grounds.flapped(at);
        }
        ended
    }

    /// The present hold lasted, so the handover that led to it without a gap may be counted.
    fn hold_lasted(&mut self, shared: &mut Shared, at: Mono) {
        if core::mem::take(&mut self.is_direct) && shared.wanted() == Wanted::Yes {
            shared.totals().rare.handed_over(Past { at, ms: 0 });
        }
    }

    /// The lock was held for long enough, so the outage before it may be counted.
    fn lasted(&mut self, shared: &mut Shared, log: &mut Log) {
        if core::mem::replace(&mut self.settled, true) {
            return;
        }
        if let Some(outage_ms) = self.outage.settled() {
            let totals = &mut shared.totals().rare;
            totals.outage_ms += outage_ms;
            totals.outage_ended(Past { at: log.at, ms: outage_ms });
            log.push(EventKind::Outage { outage_ms });
        }
    }
}
