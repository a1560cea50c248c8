//! Curator's `InterProcessMutex`, `LeaderLatch`, `LeaderSelector` and `InterProcessReadWriteLock`.
//! A contender is `_c_<uuid>-lock-0000000005`, `_c_<uuid>-latch-…`, `_c_<uuid>-__READ__…` or
//! `_c_<uuid>-__WRIT__…`.
//!
//! Its clients compare what follows the lock's own word, and of a child without that word its whole
//! name. So a foreign child whose name sorts before the numbers keeps everybody from the lock.

use lockwatch_judge::reading::Mode;

use super::recipe::{Place, Recipe, number};

pub(super) struct Curator;

/// What stands before the number, and what such a child wants.
const WORDS: [(&str, Mode); 4] = [
    ("lock-", Mode::Exclusive),
    ("latch-", Mode::Exclusive),
    ("__WRIT__", Mode::Write),
    ("__READ__", Mode::Read),
];

impl Recipe for Curator {
    fn name(&self) -> &'static str {
        "curator"
    }

    fn place<'a>(&self, child: &'a str) -> Option<Place<'a>> {
        let found = WORDS.iter().find_map(|(word, mode)| {
            let (_, order) = child.rsplit_once(word)?;
            Some((order, *mode))
        });
        Some(match found {
            Some((order, mode)) => Place { order, wants: number(child).map(|_| mode) },
            None => Place { order: child, wants: None },
        })
    }
}
