//! How long somebody has held a lock without a break.
//!
//! A break is a free reading that is confirmed, a free reading of a lock whose lease ran out, or a
//! new holder that surely took the lock after the old lease ran out. Any other new holder between
//! two readings is none, and neither is one whose token tells nobody from another.

use super::{Lock, News, Present};
use crate::time::Mono;

/// The first and the newest reading of a stretch in which somebody held it without a break.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    first: Mono,
    newest: Mono,
}

impl Stretch {
    /// Its duration by its readings, in milliseconds.
    pub(super) fn ms(self) -> u64 {
        self.newest.since_ms(self.first)
    }
}

/// The end of a stretch in which somebody held the lock without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    /// From the first reading that showed somebody until the lease ran out, or until the first
    /// reading that showed nobody, in milliseconds.
    pub(crate) held_ms: u64,
    /// A lease ran out.
    pub(crate) expired: bool,
}

impl Lock {
    /// Returns the stretch that is over.
    pub(super) fn follow_stretch(&mut self, news: &News, at: Mono) -> Option<Break> {
        let is_new = news.acquired || news.ended.is_some();
        let ran_out = news.ended.as_ref().and_then(|ended| ended.ran_out);
        let end = match self.present {
            Present::Nothing => None,
            Present::Free { first, confirmed, .. } => {
                (confirmed || news.across_blind).then_some(ran_out.unwrap_or(first))
            }
            Present::Held(_) if is_new && news.across_blind => Some(at),
            Present::Held(_) => ran_out.filter(|_| is_new && self.identifies()),
        };
        let over = end.and_then(|end| Some((self.unbroken.take()?, end)));
        if let Present::Held(_) = self.present {
            self.unbroken.get_or_insert(Stretch { first: at, newest: at }).newest = at;
        }
        over.map(|(stretch, end)| Break {
            held_ms: end.max(stretch.newest).since_ms(stretch.first),
            expired: ran_out.is_some(),
        })
    }
}
