//! What a reading of a lock says about two holders: next to a hold that ended early, next to the
//! claims, and on several servers.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::ended::Ended;
use super::hold::Hold;
use super::state::{Lock, Observed};
use crate::continuity::generation::Delta;
use crate::event::{End, EventKind};
use crate::reading::Deadline;
use crate::shared::Shared;
use crate::shared::claims::Weighed;
use crate::shared::splits::{EndedBefore, Observation, PHANTOM_MS};
use crate::spec::{Authority, Claimants};
use crate::step::{Accepted, Log};
use crate::time::Mono;

/// A reading of the lock, and what may have happened since the previous one.
#[derive(Clone)]
pub(super) struct Reading<'a> {
    pub(super) batch: Accepted<'a>,
    pub(super) delta: Delta,
    /// The server that the previous reading came from.
    pub(super) node_before: Arc<str>,
}

/// Takes in what a reading shows of one lock and of the claims.
pub(super) fn update(
    shared: &mut Shared,
    lock: &Lock,
    observed: &Observed,
    reading: &Reading<'_>,
    log: &mut Log,
) {
    if let Some(before) = &mut shared.splits.before {
        before.data_changed(reading.delta);
    }
    if let Some(ended) = &observed.ended {
        let has_ids = shared.spec.kind.claimants() == Claimants::Threads;
        hold_ended(shared, ended, has_ids || lock.identifies(), reading);
    }
    if observed.began || observed.ended.is_some() {
        shared.claims.hold_changed();
    }
    if observed.broke.is_some() || observed.across_blind || lock.free_since().is_some() {
        shared.claims.seen_free();
    }
    let batch = reading.batch;
    let hold = lock.hold();
    let weighed = hold.map(|hold| Weighed {
        held: &hold.held,
        sure_since: hold.continuity.sure_since,
        still_since: Some(hold.continuity.still_since),
    });
    let claims_during = shared.claims.weigh(weighed, shared.spec.fresh_for_ms());
    let observation = Observation {
        at: batch.sent,
        held: hold.map(|hold| &*hold.held),
        acquired: observed.began,
        proven: hold.is_some_and(|hold| proven(hold, batch.sent, batch.origin.authority)),
        claims_during: &claims_during,
        spec: &shared.spec,
    };
    let mut split = shared.splits.observe(&shared.claims, observation);
    if let (Some((before, left_ms)), Some(hold)) = (split.in_doubt.take(), hold) {
        let now = hold.held.holders.clone();
        log.push(EventKind::OverlapInDoubt { before, now, left_ms });
    }
    shared.report_splits(split, log);
}

/// A hold ended. If that was before its deadline, its holder may still believe in it.
fn hold_ended(shared: &mut Shared, ended: &Ended, identifies: bool, reading: &Reading<'_>) {
    let Reading { batch, delta, node_before } = reading;
    let hold = &ended.hold;
    let is_phantom = !proven(hold, hold.last_seen, batch.origin.authority);
    let before = shared.splits.before.as_deref();
    if is_phantom && before.is_some_and(|before| before.awaits_successor(batch.sent)) {
        return; // It changed nothing: the holder that may go on is still the one before it.
    }
    // With short holds, one may have been released just before the data were lost, or been taken
    // again on the new master and released there, all unseen.
    let may_be_over = (delta.emptied || ended.earlier_brief) && !hold.lasted(shared.spec.settle_ms);
    // The hold that the new master shows may be a leftover of an earlier one, released on the old
    // master.
    let leftover =
        delta.shared.zip(ended.successor_over).is_some_and(|(shared, over)| over > shared);
    let early =
        !ended.at_deadline && matches!(ended.reason, End::EndedEarly | End::Replaced | End::Lost);
    // A token that changes with each renewal leaves nobody behind; an id of a client does.
    shared.splits.before = (early && identifies).then(|| {
        Box::new(EndedBefore {
            holders: hold.held.holders.clone(),
            deadline: hold.deadlines.newest_mono(),
            surely_lost: !may_be_over
                && !leftover
                && delta.surely_lost_after(hold.offset_before, hold.earlier_over),
            perhaps_lost: hold.may_be_lost(*delta, batch.sent)
                || delta.may_evict(hold.held.deadline != Deadline::Never),
            gone: batch.mark(),
            node: node_before.clone(),
            successor_seen: None,
            judged: false,
            moved_since: 0,
        })
    });
}

/// Whether a hold seen at `at` cannot be a phantom.
fn proven(hold: &Hold, at: Mono, authority: Authority) -> bool {
    // Without replicas, no client waits for any.
    authority.alone || hold.deadlines.renewed || at.since_ms(hold.began) >= PHANTOM_MS
}
