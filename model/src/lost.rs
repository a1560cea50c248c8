//! Locks that were lost although their holder lived: signs of life after a hold has expired.
//!
//! Only what is surely later than the expiry counts: a difference between two readings that were both made after the end was
//! seen. What the reading that showed the end shows for the first time may have been written before.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::event::LossSign;
use crate::reading::{Held, Holder};
use crate::split::clients_meet;
use crate::time::Mono;

/// An expired hold is watched at least for so long. A process that was stopped goes on at once when it is woken, and after
/// a minute a restarted one may go by the same name.
const WATCHED_MS: u64 = 60_000;

/// The newest hold that expired, while signs of life of its holder are waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expired {
    watched: Option<Box<Watched>>,
}

#[derive(Clone, Debug)]
struct Watched {
    holders: Vec<Holder>,
    /// When the end was seen.
    since: Mono,
    /// Which of the parts have been read since, so that a difference from then on is a later one.
    read: Parts,
    /// Nobody was seen to hold the lock since.
    free: bool,
}

/// The parts of a reading that show whether somebody works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) claims: bool,
    pub(crate) progress: bool,
}

/// One accepted reading of the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) at: Mono,
    /// The holders now; `None` when the lock is free.
    pub(crate) held: Option<&'a Held>,
    /// What could be read beside the lock.
    pub(crate) read: Parts,
    /// Claims that differ from when they were read before.
    pub(crate) claims_changed: &'a [Vec<u8>],
    /// So does the progress.
    pub(crate) progress_moved: bool,
    pub(crate) blind_after_ms: u64,
}

impl Expired {
    /// A hold expired; `look` showed that.
    pub(crate) fn watch(&mut self, holders: Vec<Holder>, look: Look<'_>) {
        let free = look.held.is_none();
        self.watched = Some(Box::new(Watched { holders, since: look.at, read: look.read, free }));
    }

    /// Nobody is waited for any more.
    pub(crate) fn forget(&mut self) {
        self.watched = None;
    }

    /// The lock could not be read: somebody may hold it, and work; also the one whose hold has expired.
    pub(crate) fn unseen(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.read = Parts::default();
        }
    }

    /// Takes in a reading after the end. Says once who lives on without the lock, and what shows it.
    pub(crate) fn observe(&mut self, look: Look<'_>) -> Option<(Vec<Holder>, LossSign)> {
        let watched = self.watched.as_mut()?;
        let back = look.held.is_some_and(|held| clients_meet(&watched.holders, &held.holders));
        if back || look.at.since_ms(watched.since) > look.blind_after_ms.max(WATCHED_MS) {
            self.watched = None;
            return None;
        }
        watched.free &= look.held.is_none();
        let claims =
            watched.read.claims && watched.holders.iter().any(|holder| look.claims_changed.contains(&holder.client));
        let works = watched.read.progress && watched.free && look.progress_moved;
        watched.read.claims |= look.read.claims;
        watched.read.progress |= look.read.progress;
        let sign = if claims { LossSign::Claim } else { LossSign::Progress };
        if claims || works { self.watched.take().map(|watched| (watched.holders, sign)) } else { None }
    }
}
