//! Detects locks that were lost although the holder lived: signs of life after a hold has expired.
//!
//! Only a sign that is certainly later than the expiry counts: a difference between two readings
//! that were both made after the end was seen. What first appears in the reading that showed the
//! end may have been written before it. Work that is read on another server than the lock counts
//! once the next reading shows that the lock is still free.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::state::{Lock, Observed};
use crate::event::{End, EventKind, LossSign};
use crate::reading::{ClaimsReading, Held, Holder, Parts, ProgressReading, clients_meet};
use crate::shared::{Shared, Signs};
use crate::spec::{ProgressSource, TaskSpec};
use crate::step::Log;
use crate::time::Mono;

/// Minimum time to watch for signs of life after a hold expired. A stopped process continues as
/// soon as it is woken. After a minute, a restarted process may use the same name.
const WATCHED_MS: u64 = 60_000;

/// How often the progress must have moved under a hold before it counts as the work of that holder.
/// Workers that take the lock for moments, one after the other, move it too, and none of them need
/// be seen: under a hold of theirs it moves once.
const MOVED_IN_HOLD: u8 = 2;

/// Detects that a holder lost its lock although it lived.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    pub(super) expired: Expired,
    /// How often the progress was seen to move while the present hold lasted.
    moved_in_hold: u8,
}

impl Losses {
    /// The parts could not be read on their server.
    pub(super) fn parts_failed(&mut self, parts: &Parts) {
        let (claims, progress) = (parts.claims.is_some(), parts.progress.is_some());
        self.expired.unread(SignsRead { claims, progress });
    }

    /// Takes in a reading of the lock, or without `observed` of the other keys alone, which are on
    /// another server.
    pub(super) fn update(
        &mut self,
        shared: &mut Shared,
        lock: &mut Lock,
        observed: Option<&Observed>,
        parts: &Parts,
        signs: &Signs,
        log: &mut Log,
    ) {
        let is_other = observed.is_some_and(|it| it.ended.is_some() || it.began);
        let moved = match is_other {
            true => core::mem::take(&mut self.moved_in_hold),
            false => {
                self.holder_lives(lock, signs, log.at);
                0
            }
        };
        if observed.is_some_and(|observed| observed.across_blind) {
            return self.expired.forget();
        }
        let look = Look {
            at: log.at,
            with_lock: observed.is_some(),
            held: lock.hold().map(|hold| &*hold.held),
            read: signs_read(&shared.spec, parts),
            claims_changed: &signs.claims_changed,
            progress_moved: signs.progress_moved,
            blind_after_ms: shared.spec.blind_after_ms,
        };
        let late = self.expired.observe(look);
        let at_once = match observed.and_then(|observed| observed.ended.as_ref()) {
            Some(ended) if ended.reason == End::Lost => {
                Some((ended.hold.held.holders.clone(), LossSign::Data))
            }
            Some(ended) if ended.reason == End::Expired => {
                let works = moved >= MOVED_IN_HOLD;
                self.expired.watch(ended.hold.held.holders.clone(), works, look);
                None
            }
            _ => None,
        };
        for (holders, sign) in late.into_iter().chain(at_once) {
            shared.totals().rare.holds_lost += 1;
            shared.grounds.rare().lock_lost = Some(log.at);
            log.push(EventKind::LockLost { holders, sign });
        }
    }

    /// Claims and progress may prove that the present holder lives.
    fn holder_lives(&mut self, lock: &mut Lock, signs: &Signs, at: Mono) {
        let Some(hold) = lock.hold() else { return };
        let changed = |holder: &Holder| signs.claims_changed.contains(&holder.client);
        let has_sign = signs.progress_moved || hold.held.holders.iter().any(changed);
        self.moved_in_hold = self.moved_in_hold.saturating_add(u8::from(signs.progress_moved));
        if has_sign {
            lock.sign_of_life(at);
        }
    }
}

/// Which signs of life could be read. The length of a queue is none, nor what is added to a stream,
/// because other clients extend them.
fn signs_read(spec: &TaskSpec, parts: &Parts) -> SignsRead {
    let of_the_work = |source: &ProgressSource| {
        !matches!(source, ProgressSource::Length(_) | ProgressSource::Stream(_))
    };
    let has_progress = spec.progress.as_ref().is_some_and(|it| of_the_work(&it.source));
    let is_read =
        matches!(parts.progress, Some(ProgressReading::Value(_) | ProgressReading::Absent));
    SignsRead {
        claims: matches!(parts.claims, Some(ClaimsReading::Read(_))),
        progress: has_progress && is_read,
    }
}

/// The newest expired hold, while its holder may still show signs of life.
#[derive(Clone, Debug, Default)]
pub(super) struct Expired {
    watched: Option<Box<Watched>>,
}

#[derive(Clone, Debug)]
struct Watched {
    holders: Vec<Holder>,
    /// When the end was seen.
    since: Mono,
    /// The parts that have been read since then, so that a difference in them is a later one.
    read: SignsRead,
    /// The progress is known to be the work of that holder.
    works: bool,
    /// No holder was seen since then.
    free: bool,
    /// When work was first seen that counts only if a later reading shows that the lock was free.
    worked: Option<Mono>,
}

/// The parts of a reading that can show work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SignsRead {
    claims: bool,
    progress: bool,
}

/// One accepted reading of the lock, or of the keys beside it on another server.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    at: Mono,
    /// Whether the lock was read in this reading, too.
    with_lock: bool,
    /// The holders as of the newest reading of the lock; `None` when it is free.
    held: Option<&'a Held>,
    /// The parts beside the lock that could be read.
    read: SignsRead,
    /// Claims that differ from the previous reading.
    claims_changed: &'a [Vec<u8>],
    /// The progress differs from the previous reading.
    progress_moved: bool,
    blind_after_ms: u64,
}

impl Expired {
    /// A hold expired, as `look` showed. `works`: the progress moved under it, so that it shows
    /// whether its holder lives.
    fn watch(&mut self, holders: Vec<Holder>, works: bool, look: Look<'_>) {
        let free = look.held.is_none();
        self.watched = Some(Box::new(Watched {
            holders,
            since: look.at,
            read: look.read,
            works,
            free,
            worked: None,
        }));
    }

    pub(super) fn forget(&mut self) {
        self.watched = None;
    }

    /// The lock could not be read. It may be held, even by the holder whose hold expired, and that
    /// holder may be working.
    pub(super) fn unseen(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.read = SignsRead::default();
            watched.worked = None;
        }
    }

    /// These parts could not be read on their server. The next server to answer may know less than
    /// the last one did.
    fn unread(&mut self, parts: SignsRead) {
        if let Some(watched) = &mut self.watched {
            watched.read.claims &= !parts.claims;
            watched.read.progress &= !parts.progress;
        }
    }

    /// Takes in a reading after the one that showed the end. Returns, once, the holders that live
    /// on without the lock, and the sign that shows it.
    fn observe(&mut self, look: Look<'_>) -> Option<(Vec<Holder>, LossSign)> {
        // A request sent to another server before the end was seen is older than the end.
        let watched = self.watched.as_mut().filter(|watched| watched.since <= look.at)?;
        let back = look.held.is_some_and(|held| clients_meet(&watched.holders, &held.holders));
        if back || look.at.since_ms(watched.since) > look.blind_after_ms.max(WATCHED_MS) {
            self.watched = None;
            return None;
        }
        watched.free &= look.held.is_none();
        let claims = watched.read.claims
            && watched.holders.iter().any(|holder| look.claims_changed.contains(&holder.client));
        let moved = watched.works && watched.read.progress && look.progress_moved;
        let works = if look.with_lock {
            watched.free && (moved || watched.worked.is_some_and(|worked| worked < look.at))
        } else {
            watched.worked = watched.worked.or(moved.then_some(look.at));
            false
        };
        watched.read.claims |= look.read.claims;
        watched.read.progress |= look.read.progress;
        let sign = if claims { LossSign::Claim } else { LossSign::Progress };
        if claims || works {
            self.watched.take().map(|watched| (watched.holders, sign))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::reading::{Deadline, Mode};
    use crate::time::ServerTime;

    const ALL: SignsRead = SignsRead { claims: true, progress: true };

    fn holder(client: &str) -> Holder {
        Holder { client: client.into(), thread: None, entries: Some(1), secret: false }
    }

    fn held_by(client: &str) -> Held {
        let deadline = Deadline::At(ServerTime::at(30_000));
        Held { mode: Mode::Exclusive, holders: vec![holder(client)], ghosts: 0, deadline }
    }

    fn lock(at: u64, held: Option<&Held>) -> Look<'_> {
        Look {
            at: Mono::at(at),
            with_lock: true,
            held,
            read: SignsRead::default(),
            claims_changed: &[],
            progress_moved: false,
            blind_after_ms: 0,
        }
    }

    /// A reading of the keys beside the lock on another server, while the lock was last seen free.
    fn work(at: u64, progress_moved: bool) -> Look<'static> {
        Look { with_lock: false, read: ALL, progress_moved, ..lock(at, None) }
    }

    fn expired() -> Expired {
        let mut expired = Expired::default();
        expired.watch(vec![holder("A")], true, lock(1_000, None));
        expired
    }

    fn signs(expired: &mut Expired, looks: &[Look<'_>]) -> Vec<Option<LossSign>> {
        looks.iter().map(|look| expired.observe(*look).map(|(_, sign)| sign)).collect()
    }

    #[test]
    fn work_on_another_server_counts_once_the_lock_is_still_free() {
        let found = signs(
            &mut expired(),
            &[
                work(1_010, false),
                work(2_010, true),
                lock(2_000, None),
                lock(3_000, None),
                work(3_010, true),
            ],
        );
        assert_eq!(
            found,
            [None, None, None, Some(LossSign::Progress), None],
            "one from an earlier request does not count"
        );
    }

    #[test]
    fn work_on_another_server_may_be_a_new_holders() {
        let new = held_by("B");
        let found = signs(
            &mut expired(),
            &[
                work(1_010, false),
                work(2_010, true),
                lock(3_000, Some(&new)),
                work(3_010, true),
                lock(4_000, None),
            ],
        );
        assert_eq!(found, [None; 5]);
    }

    #[test]
    fn work_on_another_server_says_nothing_of_a_lock_that_could_not_be_read_then() {
        let mut expired = expired();
        assert_eq!(signs(&mut expired, &[work(1_010, false), work(2_010, true)]), [None; 2]);
        expired.unseen();
        assert_eq!(
            signs(&mut expired, &[lock(3_000, None), work(3_010, true), lock(4_000, None)]),
            [None; 3]
        );
    }

    #[test]
    fn what_was_asked_on_another_server_before_the_end_is_older_than_it() {
        let mut expired = expired();
        let claims = |at, claims_changed| Look { claims_changed, ..work(at, false) };
        let changed = [b"A".to_vec()];
        assert_eq!(signs(&mut expired, &[claims(999, &[]), claims(1_010, &changed)]), [None; 2]);
        assert_eq!(signs(&mut expired, &[claims(2_010, &changed)]), [Some(LossSign::Claim)]);
    }

    #[test]
    fn a_part_that_could_not_be_read_is_read_anew_and_the_other_goes_on() {
        let mut expired = expired();
        assert_eq!(signs(&mut expired, &[work(1_010, false)]), [None]);
        expired.unread(SignsRead { claims: true, progress: false });
        let changed = [b"A".to_vec()];
        assert_eq!(
            signs(&mut expired, &[Look { claims_changed: &changed, ..work(2_010, true) }]),
            [None]
        );
        assert_eq!(signs(&mut expired, &[lock(3_000, None)]), [Some(LossSign::Progress)]);
    }

    #[test]
    fn progress_that_could_not_be_read_is_compared_with_nothing_older() {
        let mut expired = expired();
        assert_eq!(signs(&mut expired, &[work(1_010, false)]), [None]);
        expired.unread(SignsRead { claims: false, progress: true });
        assert_eq!(signs(&mut expired, &[work(2_010, true), lock(3_000, None)]), [None; 2]);
        let changed = [b"A".to_vec()];
        assert_eq!(
            signs(&mut expired, &[Look { claims_changed: &changed, ..work(3_010, false) }]),
            [Some(LossSign::Claim)]
        );
    }
}
