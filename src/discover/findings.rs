//! What a walk over all keys found, kept in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Groups;
use super::hints::{is_of_progress, may_be_switches};
use super::library::{Content, Guess, Laid, Role, Seen, recognise};

/// Most keys that are kept for suggestions; of more, the first by name.
const HINTS_MAX: usize = 10_000;
/// Longer names are nobody's switches.
const HINT_BYTES_MAX: usize = 200;

/// Everything that was recognised.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Locks.
    pub(super) locks: Groups<Laid>,
    /// Perhaps locks, and why not surely.
    pub(super) doubtful: Groups<(Laid, &'static str)>,
    /// Locks that lockwatch does not read, and why.
    pub(super) unreadable: Groups<&'static str>,
    /// Locks of jobs and items.
    pub(super) per_item: Groups<&'static str>,
    /// What Redisson keeps beside locks, by the part of its name that names the lock. Those that go
    /// by themselves are left out.
    pub(super) companions: Groups<Role>,
    /// Strings that could be tokens, whatever they are called.
    pub(super) possible_tokens: Groups<()>,
    /// How many of those there are, bare numbers among them.
    pub(super) possible_token_count: u64,
    /// Small hashes that could be switches or tell of progress, with their sizes.
    pub(super) hashes: BTreeMap<Vec<u8>, u64>,
    /// Strings whose name tells of progress.
    pub(super) progress: BTreeSet<Vec<u8>>,
}

impl Findings {
    /// Takes in one key.
    pub(super) fn take(&mut self, seen: Seen) {
        match recognise(&seen) {
            Guess::Lock(laid) => self.locks.insert(laid, seen.key),
            Guess::Doubtful(laid, why) => self.doubtful.insert((laid, why), seen.key),
            Guess::Unreadable(what) => self.unreadable.insert(what, seen.key),
            Guess::PerItem(what) => self.per_item.insert(what, seen.key),
            Guess::Companion(Role::Latch | Role::Reader, _) if seen.ttl_ms.is_some() => {}
            Guess::Companion(role, mut locks) => {
                if let Some(inner) = locks.pop() {
                    self.companions.insert(role, inner);
                }
            }
            Guess::PossibleToken { number } => {
                self.possible_token_count += 1;
                if !number {
                    self.possible_tokens.insert((), seen.key);
                }
            }
            Guess::Nothing => self.take_hint(seen),
        }
    }

    fn take_hint(&mut self, seen: Seen) {
        if seen.key.len() > HINT_BYTES_MAX {
            return;
        }
        match seen.content {
            Content::Hash { length, .. } if may_be_switches(length) => {
                self.hashes.insert(seen.key, length);
                if self.hashes.len() > HINTS_MAX {
                    self.hashes.pop_last();
                }
            }
            Content::Text { .. } if is_of_progress(&seen.key) => {
                self.progress.insert(seen.key);
                if self.progress.len() > HINTS_MAX {
                    self.progress.pop_last();
                }
            }
            _ => {}
        }
    }

    /// Keys that were recognised but are one pattern too many.
    pub(super) fn dropped(&self) -> u64 {
        self.locks.dropped + self.doubtful.dropped + self.unreadable.dropped + self.per_item.dropped
    }
}
