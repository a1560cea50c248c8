//! Derives the consequences of a reading of the lock: ends and losses, gaps and outages, splits.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{OfLock, Reading, proven};
use crate::claims::Weighed;
use crate::clocks::{GapClock, Holding};
use crate::continuity::lost::{Look, Parts};
use crate::event::{End, EventKind, LossSign, Party};
use crate::evidence::Seen;
use crate::kinds::lock::renewal::Move;
use crate::kinds::lock::{self, Break, Ended};
use crate::progress;
use crate::reading::{Beside, ClaimsReading, Deadline, Held, ProgressReading};
use crate::snapshot::{LastHold, Past, RENEWALS_KEPT};
use crate::spec::{Claimants, ProgressSource};
use crate::splits::{EndedBefore, View};
use crate::task::beside::Signs;
use crate::task::{Accepted, Log, Watched};
use crate::time::Mono;
use crate::verdict::Wanted;

/// How often the progress must have moved under a hold before it counts as the work of that holder.
/// Workers that take the lock for moments, one after the other, move it too, and none of them need
/// be seen: under a hold of theirs it moves once.
const MOVED_IN_HOLD: u8 = 2;

impl Watched<OfLock> {
    /// Detects locks that were lost although their holder lived. Without `news`, only the keys
    /// beside the lock on another server were read, not the lock.
    pub(super) fn follow_losses(
        &mut self,
        beside: &Beside,
        at: Mono,
        news: Option<&lock::News>,
        signs: &Signs,
        log: &mut Log<'_>,
    ) {
        let is_other = news.is_some_and(|news| news.ended.is_some() || news.acquired);
        let moved = match is_other {
            true => core::mem::take(&mut self.kind.moved_in_hold),
            false => 0,
        };
        if news.is_some_and(|news| news.across_blind) {
            return self.kind.expired.forget();
        }
        let look = Look {
            at,
            with_lock: news.is_some(),
            held: self.kind.lock.hold().map(|hold| &*hold.held),
            read: self.signs_read(beside),
            claims_changed: &signs.claims_changed,
            progress_moved: signs.progress_moved,
            blind_after_ms: self.spec.blind_after_ms,
        };
        let late = self.kind.expired.observe(look);
        let at_once = match news.and_then(|news| news.ended.as_ref()) {
            Some(ended) if ended.reason == End::Lost => {
                Some((ended.hold.held.holders.clone(), LossSign::Data))
            }
            Some(ended) if ended.reason == End::Expired => {
                let works = moved >= MOVED_IN_HOLD;
                self.kind.expired.watch(ended.hold.held.holders.clone(), works, look);
                None
            }
            _ => None,
        };
        for (holders, sign) in late.into_iter().chain(at_once) {
            self.totals().holds_lost += 1;
            self.grounds.rare().lock_lost = Some(at);
            log.push(EventKind::LockLost { holders, sign });
        }
    }

    /// Which signs of life could be read. The length of a queue is none, nor what is added to a
    /// stream, because other clients extend them.
    pub(super) fn signs_read(&self, beside: &Beside) -> Parts {
        let of_the_work = |source: &ProgressSource| {
            !matches!(source, ProgressSource::Length(_) | ProgressSource::Stream(_))
        };
        let has_progress =
            self.spec.progress.as_ref().is_some_and(|progress| of_the_work(&progress.source));
        Parts {
            claims: matches!(beside.claims, Some(ClaimsReading::Read(_))),
            progress: has_progress
                && matches!(
                    beside.progress,
                    Some(ProgressReading::Value(_) | ProgressReading::Absent)
                ),
        }
    }

    /// Follows ends, acquisitions and movements of the deadline.
    pub(super) fn follow_lock(
        &mut self,
        news: &lock::News,
        reading: &Reading<'_>,
        log: &mut Log<'_>,
    ) {
        match &news.ended {
            Some(_) if news.across_blind => self.kind.outage.forget(),
            None if news.across_blind => self.kind.outage.unseen(),
            _ => {}
        }
        if let Some(before) = &mut self.splits.before {
            before.data_changed(reading.delta);
        }
        if self.kind.lock.hold().is_none() {
            self.grounds.seen_free();
        } else if news.came_back {
            self.grounds.came_back(log.at);
        }
        if let Some(ended) = &news.ended {
            self.follow_end(ended, news.across_blind, reading, log);
        }
        if let Some(broke) = news.broke {
            self.follow_break(broke, news.across_blind, log);
        }
        if news.acquired
            && let Some(hold) = self.kind.lock.hold()
        {
            Arc::make_mut(&mut self.totals).acquisitions += 1;
            log.push(EventKind::Acquired { holders: hold.held.holders.clone() });
            // An unwanted task is not handed over.
            let was_wanted = self.gap().is_some_and(|gap| gap.wanted_since().is_some());
            let may_be_handover = was_wanted && !news.across_blind && !self.has_gap();
            let from = self.kind.handed_over_by.take();
            self.kind.direct_handover =
                may_be_handover && from.is_some_and(|from| !lock::continues(&from, &hold.held));
            self.kind.outage.taken_over(hold.began);
        }
        if news.ended.is_some() || news.acquired {
            self.kind.hold_settled = false;
        }
        match news.moved {
            Some(Move::Renewed { latency_ms, learned_ms, at, .. }) => {
                self.totals().renewals += 1;
                let kept = self.kind.renewals.len().saturating_sub(RENEWALS_KEPT - 1);
                self.kind.renewals =
                    self.kind.renewals.iter().skip(kept).copied().chain([at]).collect();
                if let Some(latency_ms) = latency_ms {
                    self.totals().renewal_latency.observe(latency_ms);
                }
                if let Some(lease_ms) = learned_ms {
                    log.push(EventKind::LeaseLearned { lease_ms });
                }
            }
            Some(Move::Shortened { by_ms }) => {
                self.totals().shortened += 1;
                log.push(EventKind::Shortened { by_ms });
            }
            Some(Move::Reset) | None => {}
        }
    }

    /// Somebody held the lock without a break; now there was one.
    fn follow_break(&mut self, broke: Break, across_blind: bool, log: &mut Log<'_>) {
        let Break { held_ms, expired } = broke;
        // Between two readings it may have lasted, which is no evidence against what was published.
        let is_published = self.gap().is_some_and(GapClock::is_published);
        if held_ms >= self.spec.settle_ms && !across_blind && !is_published {
            self.follow_gap(log.at, Holding::Settled, log);
            self.follow_settled(log);
        }
        if core::mem::take(&mut self.kind.settled) {
            return;
        }
        self.kind.outage.lost_again();
        // What ended while unseen for long may have lasted.
        if self.has_gap() && !across_blind {
            self.totals().phantom_holds += 1;
            self.grounds.flapped(log.at);
            if let Some(wanting) = &mut self.wanting {
                wanting.gap.broke(held_ms, expired);
            }
            log.push(EventKind::PhantomHold { held_ms });
        }
    }

    pub(super) fn follow_end(
        &mut self,
        ended: &Ended,
        across_blind: bool,
        reading: &Reading<'_>,
        log: &mut Log<'_>,
    ) {
        if let Some(count) = self.totals().ends.get_mut(ended.reason as usize) {
            *count += 1;
        }
        if ended.reason == End::Expired {
            self.grounds.rare().lease_expired = Some(log.at);
        }
        let hold = &ended.hold;
        log.push(EventKind::HoldEnded {
            holders: hold.held.holders.clone(),
            reason: ended.reason,
            held_ms: ended.held_ms,
        });
        let holders = hold.held.holders.iter().map(|holder| Party::of(holder, None)).collect();
        let (holders, seen) =
            (self.with_hosts(holders), reading.batch.seen().server_of(hold.last_seen));
        self.kind.last = Some(Arc::new(LastHold { holders, seen }));
        let wanted = matches!(self.wanted(), Wanted::Yes | Wanted::Unset);
        match ended.reason {
            End::Expired if wanted && !across_blind => self.kind.outage.expired(hold.last_life),
            _ if self.kind.settled => self.kind.outage.forget(),
            _ => {}
        }
        self.kind.handed_over_by = (!across_blind).then(|| Arc::clone(&hold.held));
        let early = !ended.at_deadline
            && matches!(ended.reason, End::EndedEarly | End::Replaced | End::Lost);
        let phantom = !proven(hold, hold.last_seen, reading.batch.origin.authority);
        if phantom
            && self
                .splits
                .before
                .as_ref()
                .is_some_and(|before| before.awaits_successor(reading.batch.sent))
        {
            return; // It changed nothing: the hold before it is still the one that may be lived on with.
        }
        // With short holds, one may have been released just before the data were lost, or been
        // taken again on the new master and released there, all unseen.
        let may_be_over =
            (reading.delta.emptied || ended.earlier_brief) && !hold.lasted(self.spec.settle_ms);
        // The hold that the new master shows may be a leftover of an earlier one, released on the
        // old master.
        let leftover = reading
            .delta
            .shared
            .zip(ended.successor_over)
            .is_some_and(|(shared, over)| over > shared);
        let surely_lost = !may_be_over
            && !leftover
            && reading.delta.surely_lost_after(hold.offset_before, hold.earlier_over);
        // A token that changes with each renewal leaves nobody behind; an id of a client is one.
        let is_id = self.kind.claimants == Claimants::Threads;
        let early = early && (is_id || self.kind.lock.identifies());
        self.splits.before = early.then(|| {
            Box::new(EndedBefore {
                holders: hold.held.holders.clone(),
                deadline: hold.deadlines.newest_mono(),
                surely_lost,
                perhaps_lost: hold.may_be_lost(reading.delta, reading.batch.sent)
                    || reading.delta.may_evict(hold.held.deadline != Deadline::Never),
                gone: reading.batch.mark(),
                node: reading.node_before.clone(),
                successor_seen: None,
                judged: false,
                moved_since: 0,
            })
        });
    }

    /// Follows gap, outage, unwanted and progress: the clocks that count evidence of the lock and
    /// of "wanted" together.
    pub(super) fn follow_clocks(&mut self, seen: Seen, news: &lock::News, log: &mut Log<'_>) {
        let at = seen.sent;
        let wanted = self.wanted();
        let settle_ms = self.spec.settle_ms;
        let holding = match (self.kind.lock.hold(), self.kind.lock.free_since()) {
            (Some(_), _) if self.kind.lock.unbroken_ms() >= settle_ms => Holding::Settled,
            (Some(hold), _) => Holding::Unsettled(news.broke.map(|_| hold.began)),
            (None, Some(first)) => Holding::Free(first),
            (None, None) => Holding::PerhapsFree,
        };
        if let Some(wanting) = &mut self.wanting
            && news.across_blind
        {
            wanting.gap.taint();
        }
        self.kind.direct_handover &= !self.follow_gap(at, holding, log);
        if holding == Holding::Settled {
            self.follow_settled(log);
        }
        let lasted = self.kind.lock.hold().is_some_and(|hold| hold.settled(settle_ms));
        if lasted && !core::mem::replace(&mut self.kind.hold_settled, true) {
            self.follow_handover(log);
        }
        let is_held = self.kind.lock.hold().is_some();
        if let Some(wanting) = &mut self.wanting {
            wanting.unwanted.observe(at, is_held, wanted, self.spec.blind_after_ms);
        }
        let wanted_since = self.gap().and_then(GapClock::wanted_since);
        if let Some((clock, spec)) = self.progress.as_mut().zip(self.spec.progress.as_ref()) {
            let hold = self.kind.lock.hold();
            let hold = hold.map(|hold| progress::Hold {
                since: hold.first_seen,
                saw_begin: hold.acquired.is_some(),
            });
            clock.judge(at, hold, wanted, wanted_since, spec.stale_after_ms);
        }
    }

    /// Returns whether a hold ended a gap.
    pub(super) fn follow_gap(&mut self, at: Mono, holding: Holding, log: &mut Log<'_>) -> bool {
        let wanted = self.wanted();
        if wanted == Wanted::No {
            self.kind.outage.forget();
            self.kind.direct_handover = false;
        }
        if wanted == Wanted::No || matches!(holding, Holding::Free(_)) {
            // From here on the gap counts, not a direct handover.
            self.kind.handed_over_by = None;
        }
        let ended = self.observe_gap(at, holding, log);
        if ended {
            self.grounds.flapped(at);
        }
        ended
    }

    /// The present hold lasted, so the handover that led to it without a gap may be counted.
    fn follow_handover(&mut self, log: &Log<'_>) {
        if self.kind.direct_handover && self.wanted() == Wanted::Yes {
            self.totals().take_overs_mut().handed_over(Past { at: log.at, ms: 0 });
        }
        self.kind.direct_handover = false;
    }

    /// The lock was held for long enough, so the outage before it may be counted.
    fn follow_settled(&mut self, log: &mut Log<'_>) {
        if core::mem::replace(&mut self.kind.settled, true) {
            return;
        }
        if let Some(outage_ms) = self.kind.outage.settled() {
            let totals = self.totals();
            totals.outage_ms += outage_ms;
            totals.take_overs_mut().outage_ended(Past { at: log.at, ms: outage_ms });
            log.push(EventKind::Outage { outage_ms });
        }
    }

    pub(super) fn follow_splits(
        &mut self,
        batch: Accepted<'_>,
        news: &lock::News,
        log: &mut Log<'_>,
    ) {
        if news.acquired || news.ended.is_some() {
            self.claims.hold_changed();
        }
        if news.broke.is_some() || news.across_blind || self.kind.lock.free_since().is_some() {
            self.claims.seen_free();
        }
        let fresh_for_ms = self.fresh_for_ms();
        let hold = self.kind.lock.hold();
        let weighed = hold.map(|hold| Weighed {
            held: &hold.held,
            sure_since: hold.sure_since,
            still_since: Some(hold.still_since),
        });
        let claims_beside = self.claims.weigh(weighed, fresh_for_ms);
        let held: Option<&Held> = hold.map(|hold| &*hold.held);
        let view = View {
            at: batch.sent,
            held,
            acquired: news.acquired,
            proven: hold.is_some_and(|hold| proven(hold, batch.sent, batch.origin.authority)),
            claims_beside: &claims_beside,
            fresh_for_ms,
            blind_after_ms: self.spec.blind_after_ms,
            claimants: self.kind.claimants,
        };
        let mut split = self.splits.observe(&self.claims, view);
        let in_doubt = split.in_doubt.take();
        if let (Some((before, left_ms)), Some(held)) = (in_doubt, held) {
            log.push(EventKind::OverlapInDoubt { before, now: held.holders.clone(), left_ms });
        }
        self.tell_splits(split, log);
        let mut claimed = None;
        if self.kind.lock.free_since().is_some() {
            // Claims cannot be read now. A claim beside the free lock was seen before, or will be
            // seen later.
            let Some(live) = self.claims.live(fresh_for_ms) else { return };
            claimed = live.into_iter().next();
        }
        let beside_free = claimed.is_some();
        if let (Some(instance), false) = (claimed, self.told.claim_beside_free) {
            log.push(EventKind::ClaimBesideFreeLock {
                instance: self.kind.claimants.holder(&instance),
            });
        }
        self.told.claim_beside_free = beside_free;
    }
}
