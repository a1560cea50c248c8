//! One hold of a lock, from its first to its newest reading.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::continuity::Continuity;
use super::renewal::{Deadlines, Leases, Move, PeriodRule, Terms};
use crate::continuity::earlier::Earlier;
use crate::continuity::generation::{Delta, Mark};
use crate::evidence::{NOISE_MS, Seen, set_between};
use crate::reading::{Deadline, Held, Holder, Mode};
use crate::time::{Mono, ServerTime};

/// Number of deadlines remembered for a hold. Replication is rarely behind by more renewals.
const WRITTEN_MAX: usize = 4;

/// A hold, from its first to its newest reading.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) held: Arc<Held>,
    /// When it was first seen.
    pub(crate) first_seen: Mono,
    /// When it was last seen.
    pub(crate) last_seen: Mono,
    /// Latest possible beginning. Equal to `first_seen` unless the lease allows a better estimate.
    pub(crate) began: Mono,
    /// Whether the beginning was observed.
    pub(crate) start_seen: bool,
    /// Whether the lease shows when it began.
    pub(super) began_exactly: bool,
    /// When it was acquired, on the server's clock.
    pub(crate) acquired: Option<ServerTime>,
    pub(crate) deadlines: Deadlines,
    pub(crate) continuity: Continuity,
    pub(crate) overdue_ms: u64,
    /// The holder's last sign of life.
    pub(crate) last_life: Mono,
    /// A replication offset at which this hold certainly had not begun; `None` if unknown, or if it
    /// belongs to another history than the present one.
    pub(crate) offset_before: Option<u64>,
    /// The offset by which the holder's previous hold was certainly over, if any.
    pub(crate) earlier_over: Option<u64>,
    /// Until this deadline, this may be that previous hold, whose end did not reach this history.
    pub(super) left_until: Option<ServerTime>,
    /// The newest reading had no deadline, and the same clock reported none before for these data.
    pub(super) deadline_unknown: bool,
    /// The newest deadlines, and the points by which they had certainly been written, in the
    /// present history.
    written: Vec<(Mark, Mono)>,
    /// The point at which the newest deadline certainly was not written yet, if a renewal in the
    /// present history set it.
    pub(super) renewed_after: Option<Mono>,
}

impl Hold {
    /// Minimum duration of the hold, as of its newest reading, in milliseconds.
    pub(crate) fn held_ms(&self) -> u64 {
        self.last_seen.since_ms(self.began)
    }

    /// Whether a hold that was gone before its deadline may have been lost by `at`. Data that the
    /// new history certainly shares were not lost, and did not expire before the deadline that they
    /// had there.
    pub(crate) fn may_be_lost(&self, delta: Delta, at: Mono) -> bool {
        let kept =
            self.written.iter().any(|(mark, until)| delta.surely_includes(*mark) && at < *until);
        delta.may_lose_locks() && !kept
    }

    /// Whether this may be the holder's previous hold, released where that release is no longer
    /// known.
    pub(super) fn may_be_leftover(&self) -> bool {
        self.left_until
            .zip(self.deadlines.newest())
            .is_some_and(|(until, deadline)| deadline <= until)
    }

    fn note_written(&mut self, context: Context) {
        let until = match self.held.deadline {
            Deadline::At(deadline) => context.seen.mono_of(deadline),
            Deadline::Never => Mono::MAX,
            Deadline::Torn => return,
        };
        if self.written.len() >= WRITTEN_MAX {
            self.written.remove(0);
        }
        self.written.push((context.given, until));
    }

    /// Whether this is one hold that lasted long enough, not several short ones of one client.
    pub(crate) fn lasted(&self, settle_ms: u64) -> bool {
        self.last_seen.since_ms(self.continuity.whole_since) >= settle_ms
    }

    /// Whether its holder's id distinguishes it from others.
    pub(super) fn is_identified(&self) -> bool {
        self.held.holders.iter().any(Holder::is_identified)
    }

    /// Whether a reading that names nobody either shows a hold that began after this deadline:
    /// by the lease, its deadline was written then, since the reading before, `last`.
    pub(super) fn is_over_before(
        &self,
        held: &Held,
        last: Option<Seen>,
        lease_ms: Option<u64>,
        context: Context,
    ) -> bool {
        if self.is_identified() || !context.same_clock || context.delta.new_history() {
            return false;
        }
        let written = || set_between(held.deadline.instant()?, lease_ms?, last?, context.seen);
        let over = self.deadlines.newest().map(|deadline| deadline.plus_ms(NOISE_MS));
        over.zip(written()).is_some_and(|(over, written)| written > over)
    }

    /// Whether this hold by itself lasted long enough to count.
    pub(crate) fn settled(&self, settle_ms: u64) -> bool {
        self.last_seen.since_ms(self.first_seen) >= settle_ms
    }
}

/// The context of a reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) seen: Seen,
    /// The point by which the reading shows data to be written.
    pub(crate) given: Mark,
    /// The clock of `seen` is also the clock of the newest accepted reading.
    pub(crate) same_clock: bool,
    /// How the generation changed since the newest accepted reading.
    pub(crate) delta: Delta,
    pub(crate) blind_after_ms: u64,
}

impl Hold {
    /// The hold that begins with a reading. `watched`: it was certainly not there in `last`.
    /// `earlier`: the holds of this lock that are over.
    pub(super) fn begin(
        held: &Arc<Held>,
        context: Context,
        (watched, last, last_offset): (bool, Option<Seen>, Option<u64>),
        earlier: &Earlier,
        lease_ms: Option<u64>,
    ) -> Hold {
        let seen = context.seen;
        let deadline = held.deadline.instant();
        let before = last.filter(|_| watched && context.same_clock);
        let exact = before.and_then(|before| set_between(deadline?, lease_ms?, before, seen));
        let began = exact.map_or(seen.sent, |instant| seen.mono_of(instant));
        let regular = exact.is_some() || !watched || lease_ms.is_none();
        let mut hold = Hold {
            held: Arc::clone(held),
            first_seen: seen.sent,
            last_seen: seen.sent,
            began,
            start_seen: watched,
            began_exactly: exact.is_some(),
            acquired: exact.or(watched.then_some(seen.last)),
            deadlines: Deadlines::new(deadline, before, seen, exact, regular),
            continuity: Continuity::new(seen.sent),
            overdue_ms: 0,
            last_life: began,
            offset_before: last_offset.filter(|_| watched && !context.delta.new_history()),
            earlier_over: earlier.of(&held.holders),
            // A lock taken between two readings is not a leftover from before them.
            left_until: match exact {
                Some(_) => None,
                None => earlier.left_until(&held.holders),
            },
            deadline_unknown: held.deadline == Deadline::Torn,
            written: Vec::new(),
            renewed_after: None,
        };
        hold.note_written(context);
        hold
    }

    pub(super) fn observe(
        &mut self,
        held: &Arc<Held>,
        context: Context,
        leases: &mut Leases,
        rule: PeriodRule,
    ) -> Option<Move> {
        let seen = context.seen;
        if context.delta.new_history() {
            self.offset_before = None;
            self.written.clear();
        }
        let known_at = self.deadlines.known_at();
        let is_same = Arc::ptr_eq(&self.held, held);
        let re_entered =
            !is_same && (entries(&self.held) != entries(held) || self.held.mode != held.mode);
        let known_before = self.deadlines.newest().is_some();
        let same_clock = context.same_clock && !(self.deadline_unknown && known_before);
        // Data of another history may have an older deadline.
        let known_of_these = known_before && same_clock && !context.delta.new_history();
        self.deadline_unknown = held.deadline == Deadline::Torn && !known_of_these;
        let moved = match held.deadline {
            Deadline::At(deadline) if !same_clock => {
                self.deadlines.observe_another_clock(deadline, seen)
            }
            Deadline::At(deadline) => {
                let terms = Terms { mode: held.mode, leases, rule };
                self.deadlines.observe(deadline, seen, re_entered, terms)
            }
            Deadline::Never => {
                self.deadlines.lost_ttl();
                None
            }
            Deadline::Torn => None,
        };
        if context.delta.new_history() {
            // A renewal may be lost there: nobody shortened anything.
            self.deadlines.end_is_set = false;
        }
        match moved {
            Some(Move::Renewed { at, .. }) => self.last_life = self.last_life.max(at),
            Some(Move::Shortened { .. } | Move::Reset) => {
                self.last_life = self.last_life.max(seen.sent)
            }
            None => {}
        }
        self.continuity.observe(held.deadline, moved, same_clock, context.delta, seen.sent);
        let period_ms = self.deadlines.period_ms(rule, leases.of(held.mode));
        self.overdue_ms = match held.deadline {
            Deadline::Never => 0,
            // A renewal after the request is not in the answer, however long the answer took.
            Deadline::At(_) => self.deadlines.overdue_ms(seen.first, period_ms),
            // It may just have been renewed.
            Deadline::Torn => self.overdue_ms,
        };
        if !is_same {
            self.held = Arc::clone(held);
        }
        self.last_seen = seen.sent;
        if moved.is_some() || self.written.is_empty() {
            self.note_written(context);
            let renewed =
                matches!(moved, Some(Move::Renewed { .. })) && !context.delta.new_history();
            self.renewed_after = if renewed { known_at } else { None };
            // A released lock is not renewed. After a clock step, its deadline may lie before the
            // one of long ago.
            if renewed {
                self.left_until = None;
            }
        }
        moved
    }
}

fn entries(held: &Held) -> u64 {
    held.holders.iter().map(|holder| u64::from(holder.entries.unwrap_or(1))).sum()
}

/// Whether two readings show one hold: a holder stayed, or the lock is shared and stayed so.
pub(crate) fn continues(old: &Held, new: &Held) -> bool {
    if core::ptr::eq(old, new) || (old.mode == Mode::Read && new.mode == Mode::Read) {
        return true;
    }
    old.holders.iter().any(|holder| new.holders.iter().any(|other| same(holder, other)))
}

fn same(a: &Holder, b: &Holder) -> bool {
    a.client == b.client && a.thread == b.thread
}
