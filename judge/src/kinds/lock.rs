//! Tracks one lock over time: its holders and when they acquired it, how holds begin and end, and
//! when "free" may be believed.

mod identity;
pub(crate) mod renewal;
mod stretch;
pub(crate) mod view;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::identity::Identity;
use self::renewal::{Deadlines, Leases, Move, PeriodRule, RHYTHM};
pub(crate) use self::stretch::Break;
use self::stretch::Stretch;
use crate::continuity::earlier::{BRIEF_MS, Earlier};
use crate::continuity::generation::{Delta, Mark};
use crate::event::End;
use crate::evidence::{CONFIRM_AFTER_MS, NOISE_MS, Seen, set_between};
use crate::reading::{Deadline, Held, Holder, LockReading, Mode, Unknown};
use crate::spec::LockSpec;
use crate::time::{Mono, ServerTime};
use crate::verdict::LockFact;

/// Number of deadlines remembered for a hold. Replication is rarely behind by more renewals.
const WRITTEN_MAX: usize = 4;

/// The state of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) leases: Leases,
    rule: PeriodRule,
    /// As of the newest accepted reading.
    present: Present,
    /// Whether the newest attempt gave an accepted reading.
    newest: Result<(), Unknown>,
    /// The newest accepted reading.
    last: Option<Seen>,
    /// The replication offset of the server at that reading.
    last_offset: Option<u64>,
    earlier: Earlier,
    unbroken: Option<Stretch>,
    /// Absent until a holder is replaced.
    identity: Option<Box<Identity>>,
}

#[derive(Clone, Debug)]
enum Present {
    Nothing,
    Held(Box<Hold>),
    Free { first: Mono, confirmed: bool, fact_before: LockFact },
}

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
    /// Whether the lease tells when it began.
    began_exactly: bool,
    /// When it was acquired, on the server's clock.
    pub(crate) acquired: Option<ServerTime>,
    pub(crate) deadlines: Deadlines,
    /// Since when its deadline moved only in the rhythm of its watchdog, so that no other client
    /// held the lock since then, however briefly.
    pub(crate) sure_since: Mono,
    /// Since when only a timely renewal moved the deadline, so that another holder in between is
    /// unlikely.
    whole_since: Mono,
    /// Since when the deadline stood still, so that the holder had the lock at every moment since
    /// then.
    pub(crate) still_since: Mono,
    /// The three values from before the newest readings without a deadline. The next reading with
    /// a deadline decides whether they still hold.
    untold: Option<(Mono, Mono, Mono)>,
    pub(crate) overdue_ms: u64,
    /// The holder's last sign of life.
    pub(crate) last_life: Mono,
    /// A replication offset at which this hold certainly had not begun; `None` if unknown, or if it
    /// belongs to another history than the present one.
    pub(crate) offset_before: Option<u64>,
    /// The offset by which the holder's previous hold was certainly over, if any.
    pub(crate) earlier_over: Option<u64>,
    /// Until this deadline, this may be that previous hold, whose end did not reach this history.
    left_until: Option<ServerTime>,
    /// The newest reading had no deadline, and the same clock reported none before for these data.
    deadline_unknown: bool,
    /// The newest deadlines, and the points by which they had certainly been written, in the
    /// present history.
    written: Vec<(Mark, Mono)>,
    /// The point at which the newest deadline certainly was not written yet, if a renewal in the
    /// present history set it.
    renewed_after: Option<Mono>,
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
    fn may_be_leftover(&self) -> bool {
        self.left_until
            .zip(self.deadlines.newest())
            .is_some_and(|(until, deadline)| deadline <= until)
    }

    fn note_written(&mut self, context: Context) {
        let until = match self.held.deadline {
            Deadline::At(deadline) => context.seen.mono_of(deadline),
            Deadline::Never => Mono(u64::MAX),
            Deadline::Torn => return,
        };
        if self.written.len() >= WRITTEN_MAX {
            self.written.remove(0);
        }
        self.written.push((context.given, until));
    }

    /// Whether this is one hold that lasted long enough, not several short ones of one client.
    pub(crate) fn lasted(&self, settle_ms: u64) -> bool {
        self.last_seen.since_ms(self.whole_since) >= settle_ms
    }

    /// Whether this hold by itself lasted long enough to count.
    pub(crate) fn settled(&self, settle_ms: u64) -> bool {
        self.last_seen.since_ms(self.first_seen) >= settle_ms
    }
}

/// The changes made by one accepted reading of the lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// A hold ended.
    pub(crate) ended: Option<Ended>,
    /// A hold began, and its beginning was observed.
    pub(crate) acquired: bool,
    /// Nothing was seen for longer than `blind_after` before this reading.
    pub(crate) across_blind: bool,
    /// The deadline of the present hold moved.
    pub(crate) moved: Option<Move>,
    /// A stretch in which somebody held the lock without a break is over.
    pub(crate) broke: Option<Break>,
    /// The new holder had the lock not long ago, and took it while the lease of another ran.
    pub(crate) came_back: bool,
}

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
    /// When its lease certainly ran out: the lock was found free at or after the deadline, or with
    /// a holder that took it after that, and no renewal can be unseen.
    pub(crate) ran_out: Option<Mono>,
}

/// What may have happened between two readings.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    /// Nothing was seen for longer than `blind_after`.
    across_blind: bool,
    /// The hold was last seen before a renewal was due, so it may have been renewed and even
    /// released.
    may_have_renewed: bool,
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

impl Lock {
    pub(crate) fn new(spec: &LockSpec) -> Lock {
        Lock {
            leases: Leases::new(spec.lease_ms),
            rule: period_rule(spec),
            present: Present::Nothing,
            newest: Err(Unknown::NotReadYet),
            last: None,
            last_offset: None,
            earlier: Earlier::default(),
            unbroken: None,
            identity: None,
        }
    }

    /// Takes over a changed configuration of the same lock.
    pub(crate) fn configure(&mut self, spec: &LockSpec) {
        self.leases.configure(spec.lease_ms);
        self.rule = period_rule(spec);
    }

    /// The newest attempt gave no trustworthy reading.
    pub(crate) fn unknown(&mut self, why: Unknown) {
        self.newest = Err(why);
    }

    pub(crate) fn newest(&self) -> Result<(), Unknown> {
        self.newest
    }

    /// The state of the lock, after confirmation.
    pub(crate) fn fact(&self) -> LockFact {
        match (&self.newest, &self.present) {
            (Err(_), _) | (_, Present::Nothing) => LockFact::Unknown,
            (Ok(()), Present::Held(_)) => LockFact::Held,
            (Ok(()), Present::Free { confirmed: true, .. }) => LockFact::Free,
            (Ok(()), Present::Free { fact_before, .. }) => *fact_before,
        }
    }

    /// Whether the newest reading shows a hold, confirmed or not.
    pub(crate) fn held(&self) -> Option<bool> {
        match (&self.newest, &self.present) {
            (Err(_), _) | (_, Present::Nothing) => None,
            (Ok(()), present) => Some(matches!(present, Present::Held(_))),
        }
    }

    /// The hold as of the newest accepted reading, also while blind.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match &self.present {
            Present::Held(hold) => Some(hold),
            _ => None,
        }
    }

    /// Since when the lock is free, once that is confirmed.
    pub(crate) fn free_since(&self) -> Option<Mono> {
        match self.present {
            Present::Free { first, confirmed: true, .. } => Some(first),
            _ => None,
        }
    }

    /// How long the lock has been held without a break, by any holder; 0 while it is free.
    pub(crate) fn unbroken_ms(&self) -> u64 {
        let held = self.unbroken.filter(|_| self.hold().is_some());
        held.map_or(0, Stretch::ms)
    }

    /// A sign other than a renewal showed that the holder lives.
    pub(crate) fn sign_of_life(&mut self, at: Mono) {
        if let Present::Held(hold) = &mut self.present {
            hold.last_life = hold.last_life.max(at);
        }
    }

    /// What a process started after the newest reading shows. If it shows the newest renewal, then
    /// it has everything written by the returned instant, because a process begins with a copy of
    /// its predecessor's data from one moment.
    pub(crate) fn shows_renewal_after(&self, reading: &LockReading) -> Option<Mono> {
        self.shown_unmoved(reading)?.renewed_after
    }

    /// The present hold, if a reading shows it with the deadline that it had before.
    pub(crate) fn shown_unmoved(&self, reading: &LockReading) -> Option<&Hold> {
        let (LockReading::Held(held), Some(hold)) = (reading, self.hold()) else { return None };
        let (shown, newest) = held.deadline.instant().zip(hold.deadlines.newest())?;
        let is_that = shown.since_ms(newest).abs() <= NOISE_MS && continues(&hold.held, held);
        is_that.then_some(hold)
    }

    pub(crate) fn last_reading(&self) -> Option<Seen> {
        self.last
    }

    /// The pause between two renewals, if known, in milliseconds.
    pub(crate) fn period_ms(&self) -> Option<u64> {
        match self.hold() {
            Some(hold) => hold.deadlines.period_ms(self.rule, self.leases.of(hold.held.mode)),
            None => self.rule.configured_ms.or_else(|| self.rule.by_lease(self.leases.any()?)),
        }
    }

    /// Takes in a reading. An unknown one changes only the newest attempt.
    pub(crate) fn observe(&mut self, reading: &LockReading, context: Context) -> News {
        let seen = context.seen;
        let unseen = Unseen {
            across_blind: self
                .last
                .is_some_and(|last| seen.sent.since_ms(last.sent) > context.blind_after_ms),
            may_have_renewed: self.hold().is_some_and(|hold| {
                let renewed_ms = self.leases.of_renewed(hold.held.mode);
                hold.overdue_ms == 0 && hold.deadlines.expects_renewal(self.period_ms(), renewed_ms)
            }),
        };
        let successor_over = match reading {
            LockReading::Held(held) => self.earlier.of(&held.holders),
            LockReading::Free | LockReading::Unknown(_) => None,
        };
        if context.delta.new_history() && !matches!(reading, LockReading::Unknown(_)) {
            self.earlier.new_history(|offset| context.delta.surely_shares(offset));
        }
        let mut news = match reading {
            LockReading::Unknown(why) => {
                self.newest = Err(*why);
                return News::default();
            }
            LockReading::Free => self.observe_free(context, unseen),
            LockReading::Held(held) => self.observe_held(held, context, unseen),
        };
        news.across_blind = unseen.across_blind;
        news.broke = self.follow_stretch(&news, seen.sent);
        news.came_back = self.follow_identity(&news, seen.sent);
        if let Some(ended) = &mut news.ended {
            ended.successor_over = successor_over;
            ended.earlier_brief = self.earlier.brief();
            let given_back = matches!(ended.reason, End::EndedEarly | End::Replaced);
            let brief = given_back && ended.hold.held_ms() < BRIEF_MS;
            self.earlier.over(&ended.hold.held, context.given.offset, brief);
        }
        self.newest = Ok(());
        self.last = Some(seen);
        self.last_offset = context.given.offset;
        news
    }

    /// Follows whether the holder's id tells one holder from another. A library may write another
    /// token with each renewal. Returns whether a client comes back.
    fn follow_identity(&mut self, news: &News, at: Mono) -> bool {
        let old = news.ended.as_ref().filter(|ended| ended.reason == End::Replaced);
        if news.broke.is_some() || matches!(news.moved, Some(Move::Renewed { .. })) {
            self.identity.iter_mut().for_each(|identity| identity.stays());
            return false;
        }
        let (Some(old), Present::Held(now), false) = (old, &self.present, news.across_blind) else {
            return false;
        };
        self.identity.get_or_insert_default().replaced(&old.hold.held, &now.held, at)
    }

    /// Whether another id is another holder, as far as that is known.
    pub(crate) fn identifies(&self) -> bool {
        self.identity.as_ref().is_none_or(|identity| identity.is_told())
    }

    fn observe_free(&mut self, context: Context, unseen: Unseen) -> News {
        let sent = context.seen.sent;
        let fact_before = match &self.present {
            Present::Nothing => LockFact::Unknown,
            Present::Held(_) => LockFact::Held,
            Present::Free { fact_before, .. } => *fact_before,
        };
        match &mut self.present {
            Present::Free { confirmed: true, .. } => return News::default(),
            // Too long ago to be the beginning of this stretch.
            Present::Free { first, .. } if unseen.across_blind => {
                *first = sent;
                return News::default();
            }
            Present::Free { first, confirmed, .. } => {
                *confirmed = sent.since_ms(*first) >= CONFIRM_AFTER_MS;
                return News::default();
            }
            Present::Nothing | Present::Held(_) => {}
        }
        let before = core::mem::replace(&mut self.present, Present::Nothing);
        let ended = match before {
            Present::Held(hold) => Some(end_by_absence(hold, context, unseen)),
            _ => None,
        };
        // What ran out needs no confirmation.
        let confirmed = ended.as_ref().is_some_and(|ended| ended.ran_out.is_some());
        self.present = Present::Free { first: sent, confirmed, fact_before };
        News { ended, ..News::default() }
    }

    fn observe_held(&mut self, held: &Arc<Held>, context: Context, unseen: Unseen) -> News {
        if let Present::Held(hold) = &mut self.present
            && continues(&hold.held, held)
        {
            let moved = hold.observe(held, context, &mut self.leases, self.rule);
            return News { moved, ..News::default() };
        }
        let watched = !matches!(self.present, Present::Nothing);
        let hold = Box::new(self.begin(held, context, watched));
        match core::mem::replace(&mut self.present, Present::Held(hold.clone())) {
            Present::Held(old) => {
                let ended = end_by_successor(old, &hold, context, unseen);
                News { ended: Some(ended), acquired: true, ..News::default() }
            }
            _ => News { acquired: watched, ..News::default() },
        }
    }

    fn begin(&self, held: &Arc<Held>, context: Context, watched: bool) -> Hold {
        let seen = context.seen;
        let deadline = held.deadline.instant();
        let before = if watched && context.same_clock { self.last } else { None };
        let exact = before
            .and_then(|before| set_between(deadline?, self.leases.of(held.mode)?, before, seen));
        let began = exact.map_or(seen.sent, |instant| seen.mono_of(instant));
        let regular = exact.is_some() || !watched || self.leases.of(held.mode).is_none();
        let mut hold = Hold {
            held: Arc::clone(held),
            first_seen: seen.sent,
            last_seen: seen.sent,
            began,
            start_seen: watched,
            began_exactly: exact.is_some(),
            acquired: exact.or(watched.then_some(seen.last)),
            deadlines: Deadlines::new(deadline, before, seen, exact, regular),
            sure_since: seen.sent,
            whole_since: seen.sent,
            still_since: seen.sent,
            untold: None,
            overdue_ms: 0,
            last_life: began,
            offset_before: match watched && !context.delta.new_history() {
                true => self.last_offset,
                false => None,
            },
            earlier_over: self.earlier.of(&held.holders),
            // A lock taken between two readings is not a leftover from before them.
            left_until: match exact {
                Some(_) => None,
                None => self.earlier.left_until(&held.holders),
            },
            deadline_unknown: held.deadline == Deadline::Torn,
            written: Vec::new(),
            renewed_after: None,
        };
        hold.note_written(context);
        hold
    }
}

impl Hold {
    fn observe(
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
        let told_at = self.deadlines.told_at();
        let is_same = Arc::ptr_eq(&self.held, held);
        let re_entered =
            !is_same && (entries(&self.held) != entries(held) || self.held.mode != held.mode);
        let told_before = self.deadlines.newest().is_some();
        let same_clock = context.same_clock && !(self.deadline_unknown && told_before);
        // Data of another history may have an older deadline.
        let told_of_these = told_before && same_clock && !context.delta.new_history();
        self.deadline_unknown = held.deadline == Deadline::Torn && !told_of_these;
        let moved = match held.deadline {
            Deadline::At(deadline) if !same_clock => {
                self.deadlines.told_by_another_clock(deadline, seen)
            }
            Deadline::At(deadline) => {
                self.deadlines.observe(deadline, seen, re_entered, held.mode, leases, rule)
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
        let in_a_row = match moved {
            // Whether it moved is unknown.
            _ if !same_clock || held.deadline == Deadline::Torn => 0,
            None => u32::MAX,
            Some(Move::Renewed { in_a_row, .. }) => in_a_row,
            Some(Move::Shortened { .. } | Move::Reset) => 0,
        };
        let before = (self.sure_since, self.whole_since, self.still_since);
        match (held.deadline, self.untold) {
            _ if !same_clock => self.untold = None,
            (Deadline::Torn, _) => _ = self.untold.get_or_insert(before),
            (_, Some(before)) => {
                (self.sure_since, self.whole_since, self.still_since) = before;
                self.untold = None;
            }
            (_, None) => {}
        }
        if in_a_row < RHYTHM {
            self.sure_since = seen.sent;
        }
        if in_a_row == 0 {
            self.whole_since = seen.sent;
        }
        // Without a deadline, nothing shows that it was not given back and taken anew.
        let stands_still = in_a_row == u32::MAX && held.deadline != Deadline::Never;
        if !stands_still || context.delta.new_history() {
            self.still_since = seen.sent;
        }
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
            self.renewed_after = if renewed { told_at } else { None };
            // A released lock is not renewed. After a clock step, its deadline may lie before the
            // one of long ago.
            if renewed {
                self.left_until = None;
            }
        }
        moved
    }
}

fn period_rule(spec: &LockSpec) -> PeriodRule {
    PeriodRule { configured_ms: spec.renew_every_ms, renewals_per_lease: spec.renewals_per_lease }
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

fn end_by_absence(hold: Box<Hold>, context: Context, unseen: Unseen) -> Ended {
    let deadline_passed =
        hold.deadlines.newest().is_some_and(|deadline| context.seen.last >= deadline);
    ended(hold, deadline_passed, true, End::EndedEarly, context, unseen)
}

fn end_by_successor(old: Box<Hold>, new: &Hold, context: Context, unseen: Unseen) -> Ended {
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

#[cfg(test)]
mod tests;
