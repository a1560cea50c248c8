//! How a hold ended: given back, expired, replaced or lost.

use alloc::boxed::Box;

use super::hold::{Context, Hold};
use crate::event::End;
use crate::evidence::NOISE_MS;
use crate::reading::Deadline;
use crate::time::Mono;

/// A hold that ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) hold: Box<Hold>,
    pub(crate) reason: End,
    /// It ended at its deadline: an expiry, or an end that its holder had set.
    pub(crate) at_deadline: bool,
    /// Duration of the hold in milliseconds; `None` when its start or its end was not seen.
    pub(crate) held_ms: Option<u64>,
    /// The replication offset, in the history of this hold, by which an earlier hold of its
    /// successor was certainly over, if any.
    pub(crate) successor_over: Option<u64>,
    /// A client had released the lock after a moment, before this hold began.
    pub(crate) earlier_brief: bool,
    /// When its lease, or the end that its holder had set, certainly ran out: the lock was found
    /// free at or after the deadline, or with a holder that took it after that, and no renewal can
    /// be unseen.
    pub(crate) ran_out: Option<Mono>,
}

/// What may have happened between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    /// Nothing was seen for longer than `blind_after`.
    pub(super) across_blind: bool,
    /// The hold was last seen before a renewal was due, so it may have been renewed and even
    /// released.
    pub(super) may_have_renewed: bool,
}

pub(super) fn end_by_absence(hold: Box<Hold>, context: Context, unseen: Unseen) -> Ended {
    let deadline_passed =
        hold.deadlines.newest().is_some_and(|deadline| context.seen.last >= deadline);
    ended(hold, deadline_passed, true, End::EndedEarly, context, unseen)
}

pub(super) fn end_by_successor(
    old: Box<Hold>,
    new: &Hold,
    context: Context,
    unseen: Unseen,
) -> Ended {
    // Without a known lease, the server's answer is the latest possible beginning.
    let began = new.acquired.unwrap_or(context.seen.last);
    let after_deadline =
        old.deadlines.newest().is_some_and(|deadline| began.plus_ms(NOISE_MS) >= deadline);
    ended(old, after_deadline, new.began_exactly, End::Replaced, context, unseen)
}

/// `surely`: it is certain that the lock was free after the deadline, if `after_deadline`.
/// `before_deadline`: the kind of the end if it came before the deadline and no data were lost.
fn ended(
    hold: Box<Hold>,
    after_deadline: bool,
    surely: bool,
    before_deadline: End,
    context: Context,
    unseen: Unseen,
) -> Ended {
    let after_deadline = after_deadline && hold.held.deadline != Deadline::Never;
    // If the deadline moved during the last reading, what was known of it no longer holds.
    let moved = hold.held.deadline == Deadline::Torn;
    // Another clock, or one that has stepped, does not show what the old clock showed when the hold
    // ended.
    let perhaps_after = !context.same_clock
        && hold.deadlines.newest_mono().is_some_and(|deadline| context.seen.sent >= deadline);
    let at_deadline = after_deadline && !moved && !unseen.may_have_renewed;
    let reason = match () {
        // The holder had shortened its lease to this.
        () if at_deadline && hold.deadlines.end_is_set => End::EndedEarly,
        () if at_deadline => End::Expired,
        // A holder that renewed unseen and then released the lock leaves the same state.
        () if after_deadline || perhaps_after || unseen.across_blind || hold.deadline_unknown => {
            End::Unknown
        }
        () if hold.may_be_lost(context.delta, context.seen.sent) => {
            // Its holder released it long ago, and lost nothing.
            if hold.may_be_leftover() { End::Unknown } else { End::Lost }
        }
        () => before_deadline,
    };
    let end = match (at_deadline, hold.deadlines.newest()) {
        // With another clock, or after a step, the deadline may lie before the newest reading that
        // showed the hold.
        (true, Some(deadline)) => context.seen.mono_of(deadline).max(hold.last_seen),
        _ => context.seen.sent,
    };
    let known = hold.start_seen && !unseen.across_blind && reason != End::Unknown;
    let held_ms = known.then(|| end.since_ms(hold.began));
    let surely = surely && context.same_clock && !unseen.across_blind;
    let ran_out = (at_deadline && surely).then_some(end);
    Ended {
        held_ms,
        reason,
        at_deadline,
        ran_out,
        hold,
        successor_over: None,
        earlier_brief: false,
    }
}
