//! Interprets the movements of a deadline: renewals with their instants and lateness, the lease,
//! and the renewal period.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::evidence::{NOISE_MS, Seen, set_between};
use crate::reading::Mode;
use crate::seldom::Seldom;
use crate::time::{Mono, ServerTime, to_i64};

/// Maximum delay of a renewal in milliseconds before it counts as overdue. Healthy timers are up to
/// 60 ms late.
const OVERDUE_TOLERANCE_MS: i64 = 200;
/// Maximum change of the TTL in milliseconds when a cluster moves a key to another server; the move
/// itself takes time.
const CLOCKS_APART_MS: i64 = 500;
/// Number of intervals between renewals that are kept to find the period when the library has no
/// rule.
const REMEMBERED_MOVES: usize = 8;

/// The full lifetime of a hold as far as it is known, for each mode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    configured_ms: Option<u64>,
    /// Few locks are held in more than one mode.
    learned: Box<[(Mode, Learned)]>,
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    /// Bounds of the lease in milliseconds.
    within: (i64, i64),
    lease_ms: Option<u64>,
}

impl Leases {
    pub(crate) fn new(configured_ms: Option<u64>) -> Leases {
        Leases { configured_ms, ..Leases::default() }
    }

    pub(crate) fn configure(&mut self, configured_ms: Option<u64>) {
        self.configured_ms = configured_ms;
    }

    /// The lease of holds of this mode, in milliseconds.
    pub(crate) fn of(&self, mode: Mode) -> Option<u64> {
        self.configured_ms.or_else(|| self.learned(mode)?.lease_ms)
    }

    /// The lease of any mode, for outputs while nothing is held.
    pub(crate) fn any(&self) -> Option<u64> {
        self.configured_ms.or_else(|| self.learned.iter().find_map(|(_, learned)| learned.lease_ms))
    }

    /// The lease of holds of this mode, if such a hold was ever renewed.
    pub(crate) fn of_renewed(&self, mode: Mode) -> Option<u64> {
        self.learned(mode).and(self.of(mode))
    }

    /// Whether no lease within this interval fits the learned one.
    fn contradicted_by(&self, mode: Mode, seen: (i64, i64)) -> bool {
        self.learned(mode).is_some_and(|learned| apart(learned.within, seen))
    }

    /// Learns that the lease lies within an interval. Returns the lease if it became known or
    /// changed.
    fn learn(&mut self, mode: Mode, seen: (i64, i64)) -> Option<u64> {
        let before = self.learned(mode);
        let within = match before.map(|learned| learned.within) {
            Some(old) if !apart(old, seen) => (old.0.max(seen.0), old.1.min(seen.1)),
            _ => seen,
        };
        let learned = Learned { within, lease_ms: whole_second_within(within) };
        match self.learned.iter_mut().find(|(other, _)| *other == mode) {
            Some((_, old)) => *old = learned,
            None => self.learned = self.learned.iter().copied().chain([(mode, learned)]).collect(),
        }
        let before_ms = before.and_then(|learned| learned.lease_ms);
        learned
            .lease_ms
            .filter(|lease_ms| before_ms != Some(*lease_ms) && self.configured_ms.is_none())
    }

    fn learned(&self, mode: Mode) -> Option<Learned> {
        self.learned.iter().find(|(other, _)| *other == mode).map(|(_, learned)| *learned)
    }
}

/// Bounds in milliseconds of the lease with which a deadline was set between two readings. They
/// leave room for noise; otherwise a reading right beside a renewal would exclude the lease that
/// was actually set.
fn lease_between(deadline: ServerTime, before: Seen, after: Seen) -> (i64, i64) {
    (
        deadline.since_ms(after.last).saturating_sub(NOISE_MS),
        deadline.since_ms(before.first).saturating_add(NOISE_MS),
    )
}

/// Whether two closed intervals have no lease in common.
fn apart(a: (i64, i64), b: (i64, i64)) -> bool {
    a.1 < b.0 || b.1 < a.0
}

/// The whole second in a closed interval of milliseconds, if there is exactly one.
fn whole_second_within((low, high): (i64, i64)) -> Option<u64> {
    let first = low.max(1).div_euclid(1_000) + i64::from(low.max(1).rem_euclid(1_000) != 0);
    let last = high.div_euclid(1_000);
    if first == last { u64::try_from(first.checked_mul(1_000)?).ok() } else { None }
}

/// How the deadline of a hold was last set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    /// The newest known deadline and the newest reading that showed it.
    base: Option<(ServerTime, Seen)>,
    /// Whether an acquisition or a renewal with the usual lease set the base. Only then are
    /// distances from it meaningful.
    base_is_regular: bool,
    /// Bounds of the lease with which the base was set, if observed.
    base_lease: Option<(i64, i64)>,
    /// When the deadline was last set, or at the latest when that was seen.
    set: Option<ServerTime>,
    /// The interval between the last two renewals, in milliseconds.
    last_move_ms: Option<u64>,
    /// The last such intervals, where no rule of the library gives the period.
    moves_ms: Seldom<Vec<u64>>,
    pub(crate) renewed: bool,
    /// A watchdog was seen to renew the hold. Only then is another renewal expected.
    has_watchdog: bool,
    /// The newest movement went back: the holder set the end itself, and renews no more. A guard
    /// or ShedLock does so when the work ended before the lock was to be free.
    pub(crate) end_is_set: bool,
    /// The newest renewal did not fit the lease of the earlier ones.
    misfit: bool,
    /// Number of consecutive renewals in the rhythm of a watchdog.
    in_a_row: u16,
    pub(crate) last_renewal: Option<ServerTime>,
    pub(crate) last_latency_ms: Option<u64>,
    pub(crate) last_margin_ms: Option<u64>,
}

/// Number of consecutive renewals that identify a watchdog. Each must come one period after the
/// last, or two or three if some were not seen. A lock that is released and taken again rarely
/// matches by chance.
pub(crate) const RHYTHM: u16 = 5;
const RHYTHM_PERIODS_MAX: u64 = 3;
/// Tolerance of the rhythm in milliseconds: the delay of a timer, or a part of the period. For a
/// very short period only a small part of it is allowed.
const RHYTHM_EXACT_MS: u64 = 20;
const RHYTHM_EXACT_PERCENT: u64 = 3;

/// The kind of a movement of the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Forward, by the holder's watchdog.
    Renewed {
        /// Delay in milliseconds, if known.
        latency_ms: Option<u64>,
        /// When it happened at the latest, on the agent's clock.
        at: Mono,
        /// The lease, if this renewal made it known or changed it.
        learned_ms: Option<u64>,
        /// Number of consecutive renewals in the rhythm of a watchdog. From [`RHYTHM`] on, no other
        /// client can have held the lock in between.
        in_a_row: u16,
    },
    /// Back.
    Shortened {
        /// Reduction in milliseconds.
        by_ms: u64,
    },
    /// A change together with the re-entry count, or from or to no TTL at all.
    Reset,
}

/// The inputs that determine the period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeriodRule {
    pub configured_ms: Option<u64>,
    /// How often the library renews a lease by its own rule.
    pub renewals_per_lease: Option<u32>,
}

impl PeriodRule {
    /// The period for a lease by the library's rule.
    pub(crate) fn by_lease(self, lease_ms: u64) -> Option<u64> {
        lease_ms.checked_div(u64::from(self.renewals_per_lease?))
    }

    /// The same for a lease of at most this many milliseconds, unless the period is configured.
    fn if_learned(self, lease_ms: i64) -> Option<u64> {
        if self.configured_ms.is_some() {
            return None;
        }
        self.by_lease(u64::try_from(lease_ms).ok()?)
    }
}

/// What a deadline's movements are judged by.
pub(super) struct Terms<'a> {
    pub(super) mode: Mode,
    pub(super) leases: &'a mut Leases,
    pub(super) rule: PeriodRule,
}

impl Terms<'_> {
    fn lease_ms(&self) -> Option<u64> {
        self.leases.of(self.mode)
    }
}

impl Deadlines {
    /// For a hold first seen in `seen` and certainly absent in `before`. `set` is when it was
    /// acquired, if known. `regular`: there is no evidence against the usual lease.
    pub(crate) fn new(
        deadline: Option<ServerTime>,
        before: Option<Seen>,
        seen: Seen,
        set: Option<ServerTime>,
        regular: bool,
    ) -> Deadlines {
        Deadlines {
            base: deadline.map(|deadline| (deadline, seen)),
            base_is_regular: regular,
            base_lease: deadline
                .zip(before)
                .map(|(deadline, before)| lease_between(deadline, before, seen)),
            set,
            ..Deadlines::default()
        }
    }

    /// The newest known deadline on the agent's clock, converted by the reading that showed it
    /// last.
    pub(crate) fn newest_mono(&self) -> Option<Mono> {
        self.base.map(|(deadline, seen)| seen.mono_of(deadline))
    }

    /// The newest known deadline.
    pub(crate) fn newest(&self) -> Option<ServerTime> {
        self.base.map(|(deadline, _)| deadline)
    }

    /// The newest reading that showed it.
    pub(crate) fn known_at(&self) -> Option<Mono> {
        self.base.map(|(_, seen)| seen.sent)
    }

    /// The pause between two renewals, if known, in milliseconds.
    pub(crate) fn period_ms(&self, rule: PeriodRule, lease_ms: Option<u64>) -> Option<u64> {
        rule.configured_ms.or_else(|| match rule.by_lease(1_000) {
            Some(_) => rule.by_lease(lease_ms?),
            // Some libraries send the first renewal early, so the rhythm is known only from the
            // second.
            None if self.moves_ms.len() < 2 => None,
            None => self.moves_ms.iter().copied().max(),
        })
    }

    /// Delay of the next renewal at `now`; 0 when it is not late, or when no watchdog ever renewed
    /// this hold.
    pub(crate) fn overdue_ms(&self, now: ServerTime, period_ms: Option<u64>) -> u64 {
        let expects = self.has_watchdog && !self.end_is_set;
        let (true, Some(set), Some(period_ms)) = (expects, self.set, period_ms) else {
            return 0;
        };
        let late_ms = now.since_ms(set).saturating_sub(to_i64(period_ms));
        if late_ms > OVERDUE_TOLERANCE_MS { late_ms.unsigned_abs() } else { 0 }
    }

    /// Whether the holder is expected to renew between the newest reading and the end of the lease,
    /// if it behaves as before or as earlier holders did. `renewed_ms`: the lease of this lock's
    /// holds, if any was ever renewed.
    pub(crate) fn expects_renewal(&self, period_ms: Option<u64>, renewed_ms: Option<u64>) -> bool {
        // A first renewal is expected only for the usual renewed lease. Another lease is a fixed
        // one.
        let goes_on =
            !self.end_is_set && (self.renewed || (self.base_is_regular && renewed_ms.is_some()));
        let (true, Some((deadline, newest)), Some(set)) = (goes_on, self.base, self.set) else {
            return false;
        };
        // While the rhythm is unknown: libraries renew after half of the lease at the latest.
        let Some(pause_ms) = period_ms.or_else(|| Some(renewed_ms? / 2)).map(to_i64) else {
            return false;
        };
        set.plus_ms(pause_ms) < deadline
            && newest.last.since_ms(set) <= pause_ms.saturating_add(OVERDUE_TOLERANCE_MS)
    }

    /// The TTL is gone, so distances to the next deadline mean nothing.
    pub(crate) fn lost_ttl(&mut self) {
        self.base = None;
    }

    /// Takes in the deadline of a later reading of the same hold by another clock. Distances mean
    /// nothing, but a long way forward is a renewal.
    pub(crate) fn observe_another_clock(
        &mut self,
        deadline: ServerTime,
        seen: Seen,
    ) -> Option<Move> {
        let old = self.base.replace((deadline, seen));
        self.base_is_regular = false;
        self.base_lease = None;
        let Some((old, before)) = old else {
            (self.set, self.end_is_set) = (Some(seen.last), false);
            return Some(Move::Reset);
        };
        // Replication passes on the instant; a move between servers of a cluster passes on the
        // remaining time.
        let by_instant_ms = deadline.since_ms(old);
        let by_rest_ms = deadline.since_ms(seen.server_of(before.mono_of(old)));
        if by_instant_ms.saturating_abs().min(by_rest_ms.saturating_abs()) <= CLOCKS_APART_MS {
            // Past the deadline, either the other clock is behind, or unseen renewals advanced it
            // by as much as the clocks differ.
            let is_past = before.mono_of(old) < seen.sent;
            self.set = match self.set {
                Some(set) if !is_past => Some(seen.server_of(before.mono_of(set))),
                _ => None,
            };
            return None;
        }
        (self.set, self.last_renewal, self.end_is_set) = (Some(seen.last), None, false);
        // The lock may have been released and taken again meanwhile, which is no sign of a
        // watchdog.
        let forward = by_instant_ms > 0 && by_rest_ms > 0;
        Some(if forward {
            Move::Renewed { latency_ms: None, at: seen.sent, learned_ms: None, in_a_row: 0 }
        } else {
            Move::Reset
        })
    }

    /// Takes in the deadline of a later reading of the same hold.
    pub(super) fn observe(
        &mut self,
        deadline: ServerTime,
        seen: Seen,
        re_entered: bool,
        terms: Terms<'_>,
    ) -> Option<Move> {
        let Some((old, before)) = self.base else {
            self.end_is_set = false;
            self.rebase(deadline, seen, None, terms.lease_ms());
            return Some(Move::Reset);
        };
        let delta_ms = deadline.since_ms(old);
        if delta_ms.saturating_abs() <= NOISE_MS {
            self.base = Some((old, seen));
            return None;
        }
        self.end_is_set = false;
        if !re_entered && delta_ms > 0 {
            return Some(self.renew(deadline, delta_ms.unsigned_abs(), before, seen, terms));
        }
        let was_regular = self.base_is_regular;
        self.rebase(deadline, seen, Some(before), terms.lease_ms());
        if re_entered {
            return Some(Move::Reset);
        }
        // A watchdog that cuts a longer lease back to its own goes on; so does one that renews
        // after the clock was put back.
        let seen_lease = lease_between(deadline, before, seen);
        self.end_is_set = !self.base_is_regular
            && (was_regular
                || terms.lease_ms().is_some()
                || terms.leases.contradicted_by(terms.mode, seen_lease));
        Some(Move::Shortened { by_ms: delta_ms.unsigned_abs() })
    }

    /// Whether a movement forward comes from a watchdog, as far as is known. If not, somebody
    /// entered the lock, or took it again, between two readings.
    fn is_by_watchdog(
        &self,
        seen_lease: (i64, i64),
        (delta_ms, unread_ms): (u64, u64),
        misfits: bool,
        rule: PeriodRule,
    ) -> bool {
        if self.has_watchdog {
            // A single movement that contradicts a hold's own renewals: the lock was entered with a
            // lease and left again. Only a second one in a row shows that the lease has changed.
            return !misfits || self.misfit;
        }
        // A first movement to another lease than the lock was taken with: a multi-lock takes each
        // lock with a temporary lease, and sets the real one once all are taken.
        let is_set_again = self.base_lease.is_some_and(|taken| apart(taken, seen_lease));
        // A first movement long after the library would have renewed: the lock was released and
        // taken again.
        let is_taken_again = rule.if_learned(seen_lease.1).is_some_and(|period_ms| {
            unread_ms.saturating_mul(2) < period_ms
                && delta_ms.saturating_mul(2) > period_ms.saturating_mul(3)
        });
        !is_set_again && !is_taken_again
    }

    fn renew(
        &mut self,
        deadline: ServerTime,
        delta_ms: u64,
        before: Seen,
        seen: Seen,
        Terms { mode, leases, rule }: Terms<'_>,
    ) -> Move {
        let period_ms = self.period_ms(rule, leases.of(mode));
        let was_regular = self.base_is_regular;
        let waited_ms = self.set.and_then(|set| u64::try_from(before.first.since_ms(set)).ok());
        let seen_lease = lease_between(deadline, before, seen);
        let unread_ms = seen.sent.since_ms(before.sent);
        let misfits = self.has_watchdog && leases.contradicted_by(mode, seen_lease);
        let by_watchdog = self.is_by_watchdog(seen_lease, (delta_ms, unread_ms), misfits, rule);
        self.misfit = misfits;
        let learned_ms = if by_watchdog { leases.learn(mode, seen_lease) } else { None };
        let lease_ms = leases.of(mode);
        self.rebase(deadline, seen, Some(before), lease_ms);
        // Without a known lease, a renewal counts as regular. With one, it must fit.
        self.base_is_regular |= lease_ms.is_none();
        self.renewed = true;
        self.has_watchdog |= by_watchdog;
        self.last_renewal =
            lease_ms.and_then(|lease_ms| set_between(deadline, lease_ms, before, seen));
        let measurable = was_regular && self.base_is_regular;
        let close = |period_ms: &u64| unread_ms.saturating_mul(2) < *period_ms;
        let latency_ms = period_ms
            .filter(close)
            .filter(|_| measurable && by_watchdog)
            .map(|period_ms| delta_ms.saturating_sub(period_ms));
        self.last_latency_ms = latency_ms.or(self.last_latency_ms);
        if measurable && let Some(lease_ms) = lease_ms {
            self.last_margin_ms = Some(lease_ms.saturating_sub(delta_ms));
        }
        // If the period is unknown, each renewal must follow the last one after the same time as
        // that one followed the one before.
        let in_time = match (period_ms, self.last_move_ms) {
            (Some(period_ms), _) => in_rhythm(delta_ms, period_ms),
            (None, Some(last_ms)) => in_rhythm(delta_ms, last_ms) || in_rhythm(last_ms, delta_ms),
            (None, None) => false,
        };
        self.in_a_row = if in_time { self.in_a_row.saturating_add(1) } else { 0 };
        // Between readings that are a period apart, there may be more than one renewal. Only the
        // time without a renewal before them is certainly part of one interval.
        let distance_ms = match period_ms {
            Some(period_ms) if unread_ms >= period_ms => {
                waited_ms.filter(|waited_ms| *waited_ms > period_ms)
            }
            _ => Some(delta_ms),
        };
        self.last_move_ms = distance_ms.or(self.last_move_ms);
        if let (Some(distance_ms), None) = (distance_ms, rule.by_lease(1_000)) {
            if self.moves_ms.len() == REMEMBERED_MOVES {
                self.moves_ms.remove(0);
            }
            self.moves_ms.push(distance_ms);
        }
        let at = self.last_renewal.map_or(seen.sent, |instant| seen.mono_of(instant));
        Move::Renewed { latency_ms, at, learned_ms, in_a_row: self.in_a_row }
    }

    /// Sets the base to a deadline that was set after `before` and no later than `seen`.
    fn rebase(
        &mut self,
        deadline: ServerTime,
        seen: Seen,
        before: Option<Seen>,
        lease_ms: Option<u64>,
    ) {
        let exact = lease_ms
            .zip(before)
            .and_then(|(lease_ms, before)| set_between(deadline, lease_ms, before, seen));
        self.base = Some((deadline, seen));
        self.base_is_regular = exact.is_some();
        self.base_lease = before.map(|before| lease_between(deadline, before, seen));
        self.set = Some(exact.unwrap_or(seen.last));
    }
}

/// Whether a movement by this much means exactly one renewal, or a few of them between two
/// readings.
fn in_rhythm(delta_ms: u64, period_ms: u64) -> bool {
    let exact_ms = RHYTHM_EXACT_MS
        .max(period_ms.saturating_mul(RHYTHM_EXACT_PERCENT) / 100)
        .min(period_ms / 16);
    (1..=RHYTHM_PERIODS_MAX).any(|periods| {
        delta_ms.abs_diff(period_ms.saturating_mul(periods)) <= exact_ms.saturating_mul(periods)
    })
}

#[cfg(test)]
mod tests;
