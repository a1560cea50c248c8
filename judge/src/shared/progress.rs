//! Follows whether the work makes progress: what moved, by which sign, and for how long nothing
//! did.

use alloc::sync::Arc;

use crate::event::EventKind;
use crate::evidence::{Origin, Seen};
use crate::reading::{Deadline, ProgressReading, ProgressValue, Unknown};
use crate::spec::Moves;
use crate::step::Log;
use crate::time::{Mono, ServerTime};
use crate::verdict::Wanted;

/// A deadline that moved by less did not: on servers without `PEXPIRETIME` it is computed. In
/// milliseconds.
const DEADLINE_JITTER_MS: i64 = 5;
/// For how long bytes must be seen to stand still, in milliseconds, before a renewed deadline alone
/// shows that the work moves. Before that, the process may have begun with a value that stopped.
const UNCHANGED_MS: u64 = 900_000;

/// The progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressView {
    /// When it was last seen to move, on the server's clock.
    pub moved: Option<ServerTime>,
    /// Why there is none to judge by (`Some(None)`: it is absent).
    pub missing: Option<Option<Unknown>>,
    /// It is gone because its deadline passed, which is a standstill.
    pub expired: bool,
    /// What counts as a movement; `None` while that is not known.
    pub by: Option<Moves>,
    /// Whether it has a TTL; `None` while it is not there.
    pub has_ttl: Option<bool>,
    /// The shortest time between two changes of its bytes, in milliseconds.
    pub shortest_ms: Option<u64>,
}

/// The progress of one task over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressClock {
    /// The newest value. It stays while there is none.
    value: Option<ProgressValue>,
    /// Where it was read.
    pub(crate) origin: Option<Arc<Origin>>,
    /// Whether the newest answer showed a value.
    is_there: bool,
    /// When it was last seen there.
    last_there: Mono,
    first_reading: Option<Mono>,
    moved_at: Option<Mono>,
    moved: Option<ServerTime>,
    /// When the bytes last changed, or appeared.
    changed_at: Option<Mono>,
    /// The shortest time between two changes, in milliseconds.
    shortest_ms: Option<u64>,
    /// The bytes changed while one hold lasted: they are what moves.
    bytes_move: bool,
    /// The hold in which the present bytes were written, by its first reading.
    written_in: Option<Mono>,
    /// What happened to the bytes since the last judgement: they changed, or only appeared.
    news: Option<News>,
    /// Why there is no value to judge by: the key is absent (`Some(None)`) or unreadable.
    pub(crate) missing: Option<Option<Unknown>>,
    /// That was reported.
    is_reported: bool,
    /// Its deadline, which may be what moves, could not be computed in the newest reading.
    is_torn: bool,
    /// It is gone because its deadline passed.
    is_expired: bool,
    /// When that was first seen, unless it had stood still for too long before.
    expired_at: Option<Mono>,
    stalled_ms: u64,
    /// It did not move for too long, whether or not that counts.
    is_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Changed,
    Appeared,
}

/// One reading, as far as a progress depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) seen: Seen,
    /// What is configured to count.
    pub(crate) moves: Option<Moves>,
    /// What is absent now may have been removed with other data.
    pub(crate) may_be_removed: bool,
}

/// The hold that an accepted reading of the lock showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// Its first reading.
    pub(crate) since: Mono,
    /// It was seen to begin.
    pub(crate) saw_begin: bool,
}

impl ProgressClock {
    /// Whether the work was seen to move, or the hold to begin, and neither is too long ago.
    pub(crate) fn moves(&self, saw_begin: bool, moves: Option<Moves>) -> bool {
        let moved = match self.moves_by(moves) {
            Some(_) => self.moved_at,
            None => self.changed_at,
        };
        !self.is_stale && (saw_begin || moved.is_some())
    }

    /// Time without progress once that is too long, otherwise 0. In milliseconds.
    pub(crate) fn stalled_ms(&self) -> u64 {
        self.stalled_ms
    }

    /// When it was last seen to be there.
    pub(crate) fn last_there(&self) -> Option<Mono> {
        self.value.as_ref().map(|_| self.last_there)
    }

    /// What counts; `None` while that is not known.
    fn moves_by(&self, moves: Option<Moves>) -> Option<Moves> {
        let ends = self.value.as_ref().is_some_and(|value| value.own != Ok(Deadline::Never));
        match moves {
            Some(moves) => Some(moves),
            None if self.bytes_move || !ends => Some(Moves::Value),
            None => {
                let since = self.changed_at.max(self.first_reading)?;
                (self.last_there.since_ms(since) >= UNCHANGED_MS).then_some(Moves::Deadline)
            }
        }
    }

    /// Takes in a reading; returns whether the progress moved.
    /// That there is none is reported once for as long as it lasts.
    pub(crate) fn observe(&mut self, reading: &ProgressReading, look: Look, log: &mut Log) -> bool {
        let at = look.seen.sent;
        let moved = match reading {
            ProgressReading::Value(value) => self.there(value, look),
            ProgressReading::Absent => {
                if core::mem::replace(&mut self.is_there, false) {
                    let ends = self.value.as_ref().and_then(ProgressValue::ends);
                    let is_over = ends.is_some_and(|end| end <= look.seen.last);
                    self.is_expired = is_over && !look.may_be_removed;
                    self.expired_at = (self.is_expired && !self.is_stale).then_some(at);
                }
                self.missing = if self.is_expired { None } else { Some(None) };
                self.first_reading.get_or_insert(at);
                false
            }
            ProgressReading::Unknown(why) => {
                self.missing = Some(Some(*why));
                false
            }
        };
        self.report(log);
        moved
    }

    /// It could not be read.
    pub(crate) fn unread(&mut self, why: Unknown, log: &mut Log) {
        self.missing = Some(Some(why));
        self.report(log);
    }

    fn report(&mut self, log: &mut Log) {
        let before = core::mem::replace(&mut self.is_reported, self.missing.is_some());
        if let (Some(why), false) = (self.missing, before) {
            log.push(EventKind::ProgressMissing { why });
        }
    }

    fn there(&mut self, value: &ProgressValue, look: Look) -> bool {
        let at = look.seen.sent;
        // Bytes that appear later count as progress.
        let appeared = self.first_reading.is_some() && !self.is_there;
        let old = self.value.as_ref();
        let changed = old.is_some_and(|old| old.bytes != value.bytes);
        let is_later = |of: fn(&ProgressValue) -> Option<ServerTime>| {
            let ends = old.and_then(of).zip(of(value));
            ends.is_some_and(|(before, now)| now.since_ms(before) > DEADLINE_JITTER_MS)
        };
        let own_moved = is_later(|value| value.own.ok()?.instant());
        let moved = appeared
            || match look.moves {
                Some(Moves::Value) => changed,
                Some(Moves::Deadline) => own_moved || is_later(|value| value.whole.instant()),
                None => changed || (own_moved && !self.bytes_move),
            };
        if changed {
            let step_ms = self.changed_at.map(|before| at.since_ms(before));
            self.shortest_ms = self.shortest_ms.into_iter().chain(step_ms).min();
        }
        if changed || appeared {
            self.changed_at = Some(at);
            self.news = Some(if changed { News::Changed } else { News::Appeared });
        }
        if moved {
            self.moved_at = Some(at);
            self.moved = Some(look.seen.last);
        }
        (self.is_there, self.last_there) = (true, at);
        (self.is_expired, self.expired_at) = (false, None);
        let may_end = !self.bytes_move && look.moves != Some(Moves::Value);
        self.is_torn = may_end && value.own == Ok(Deadline::Torn);
        self.missing = value.own.err().filter(|_| may_end).map(Some);
        self.first_reading.get_or_insert(at);
        self.keep(value);
        moved
    }

    /// A deadline that could not be computed leaves the one before it in force.
    fn keep(&mut self, value: &ProgressValue) {
        let Some(kept) = &mut self.value else {
            self.value = Some(value.clone());
            return;
        };
        if kept.bytes != value.bytes {
            kept.bytes.clone_from(&value.bytes);
        }
        if value.own != Ok(Deadline::Torn) {
            kept.own = value.own;
        }
        if value.whole != Deadline::Torn {
            kept.whole = value.whole;
        }
    }

    /// Learns whether the bytes move. The first change in a hold may be a name that each worker
    /// writes when it begins, and proves nothing.
    fn learn(&mut self, hold: Option<Hold>) {
        let since = hold.map(|hold| hold.since);
        if let Some(news) = self.news.take() {
            let again = news == News::Changed && self.written_in == since;
            self.bytes_move |= again && since.is_some();
            self.written_in = since;
        } else if let Some(hold) = hold
            && self.written_in.is_none()
            && self.changed_at.is_none()
            && !hold.saw_begin
        {
            self.written_in = since;
        }
    }

    /// Judges an accepted reading of the lock. `hold`: `None` when the lock is free.
    pub(crate) fn judge(
        &mut self,
        at: Mono,
        hold: Option<Hold>,
        wanted: Wanted,
        wanted_since: Option<Mono>,
        stale_after_ms: u64,
    ) {
        self.learn(hold);
        let (Some(hold), Wanted::Yes | Wanted::Unset | Wanted::Unknown) = (hold, wanted) else {
            self.stalled_ms = 0;
            return;
        };
        let instants =
            [self.moved_at, Some(hold.since), wanted_since, self.first_reading, self.expired_at];
        let from = instants.into_iter().flatten().max().unwrap_or(at);
        let still_ms = at.since_ms(from);
        let stale = still_ms > stale_after_ms;
        self.is_stale = stale;
        match self.missing {
            Some(None) => self.stalled_ms = 0,
            // An unreadable value resolves nothing and proves nothing. Another hold, or progress
            // that was seen, is evidence.
            Some(Some(_)) if stale => {}
            None if (wanted == Wanted::Unknown || self.is_torn) && stale => {}
            _ => self.stalled_ms = if stale { still_ms } else { 0 },
        }
    }

    /// What outputs show of it.
    pub(crate) fn view(&self, moves: Option<Moves>) -> ProgressView {
        let value = self.value.as_ref().filter(|_| self.is_there);
        ProgressView {
            moved: self.moved,
            missing: self.missing,
            expired: self.is_expired,
            by: self.moves_by(moves),
            has_ttl: value.map(|value| value.ends().is_some()),
            shortest_ms: self.shortest_ms,
        }
    }
}
