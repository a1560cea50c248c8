//! The results of a scan, kept in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Groups;
use super::likely::{is_of_progress, may_be_switches};
use lockwatch_watch::redis::libraries::recognise::{Content, Guess, Laid, Role, ScannedKey};
use lockwatch_watch::redis::libraries::shape::{identifies_nobody, unserialized};
use lockwatch_watch::redis::libraries::{may_be_of_holders, recognise};

/// Maximum number of keys kept for suggestions; the first by name are kept.
const HINTS_MAX: usize = 10_000;
/// Maximum length of such a key in bytes: switches do not have longer names.
const HINT_BYTES_MAX: usize = 200;

/// Everything that the scan recognised.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Locks.
    pub(super) locks: Groups<Laid>,
    /// Possible locks, and why they are doubtful.
    pub(super) doubtful: Groups<(Laid, &'static str)>,
    /// Possible locks that are fields of a hash, with the hash, and why they are doubtful.
    pub(super) doubtful_fields: Groups<(Vec<u8>, Laid, &'static str)>,
    /// Locks that lockwatch cannot read, and why.
    pub(super) unreadable: Groups<&'static str>,
    /// Locks of single jobs and items.
    pub(super) per_item: Groups<&'static str>,
    /// Keys that libraries keep beside locks, grouped by the part of their name that names the
    /// lock. Keys that normally expire by themselves are left out.
    pub(super) companions: Groups<(&'static str, Role)>,
    /// Strings that may be tokens, whatever their names are.
    pub(super) possible_tokens: Groups<()>,
    /// Number of those, including bare numbers.
    pub(super) possible_token_count: u64,
    /// Number of such strings without a TTL.
    pub(super) staying_token_count: u64,
    /// Small hashes that may hold switches or progress, with their sizes.
    pub(super) hashes: BTreeMap<Vec<u8>, u64>,
    /// Sorted sets without a TTL, which may hold delayed tasks.
    pub(super) sorted_sets: BTreeSet<Vec<u8>>,
    /// Strings whose name suggests progress.
    pub(super) progress: BTreeSet<Vec<u8>>,
}

impl Findings {
    /// Takes in one key.
    pub(super) fn take(&mut self, seen: ScannedKey) {
        match recognise(&seen) {
            Guess::Lock(laid) => self.locks.insert(laid, seen.key),
            Guess::Doubtful(laid, why) => self.doubtful.insert((laid, why), seen.key),
            Guess::DoubtfulFields(laid, why, fields) => fields.into_iter().for_each(|field| {
                self.doubtful_fields.insert((seen.key.clone(), laid, why), field);
            }),
            Guess::Unreadable(what) => self.unreadable.insert(what, seen.key),
            Guess::PerItem(what) => self.per_item.insert(what, seen.key),
            Guess::Companion(_, Role::Latch | Role::Reader, _) | Guess::Internal => {}
            Guess::Companion(library, role, mut locks) => {
                if let Some(inner) = locks.pop() {
                    self.companions.insert((library, role), inner);
                }
            }
            Guess::PossibleToken { stays: true, .. } => self.staying_token_count += 1,
            Guess::PossibleToken { number, stays: false } => {
                self.possible_token_count += 1;
                if !number {
                    self.possible_tokens.insert((), seen.key);
                }
            }
            Guess::Nothing => {
                if let Some(why) = unread(&seen) {
                    self.unreadable.insert(why, seen.key.clone());
                }
                self.take_hint(seen);
            }
        }
    }

    fn take_hint(&mut self, seen: ScannedKey) {
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
                insert_bounded(&mut self.progress, seen.key);
            }
            Content::Sorted { .. } if seen.ttl_ms.is_none() => {
                insert_bounded(&mut self.sorted_sets, seen.key);
            }
            _ => {}
        }
    }

    /// Some of the keys that are, or may be, locks in strings: the first by name of each pattern.
    pub(super) fn examples(&self) -> impl Iterator<Item = &[u8]> {
        let tokens = self.possible_tokens.examples();
        let doubtful = self.doubtful.examples();
        self.locks.examples().chain(doubtful).chain(self.per_item.examples()).chain(tokens)
    }

    /// Number of recognised keys beyond the maximum number of patterns.
    pub(super) fn dropped(&self) -> u64 {
        let doubtful = self.doubtful.dropped + self.doubtful_fields.dropped;
        self.locks.dropped + doubtful + self.unreadable.dropped + self.per_item.dropped
    }
}

fn insert_bounded(keys: &mut BTreeSet<Vec<u8>>, key: Vec<u8>) {
    keys.insert(key);
    if keys.len() > HINTS_MAX {
        keys.pop_last();
    }
}

/// Of which type a key is that is named like a lock and has no layout of one.
fn unread(seen: &ScannedKey) -> Option<&'static str> {
    if !may_be_of_holders(&seen.key) {
        return None;
    }
    match &seen.content {
        Content::Text { length, start } if *length == start.len() as u64 => {
            Some(unread_text(start, &seen.key))
        }
        Content::Text { .. } => {
            Some("a string that is longer than a token; perhaps its holder lies inside, as in JSON")
        }
        Content::Hash { .. } => Some(
            "a hash whose fields are those of no library; where each field is a lock, `field` with \
             `library: string` reads it",
        ),
        Content::Sorted { .. } if seen.ttl_ms.is_none() => {
            Some("a sorted set without a TTL, perhaps a semaphore, which lockwatch does not read")
        }
        Content::Sorted { .. } => Some(
            "a sorted set whose scores are not times that fit its TTL, as `library: zset` needs them",
        ),
        Content::List => Some("a list, perhaps of who waits"),
        Content::Set => Some("a set"),
        Content::Other => None,
    }
}

fn unread_text(value: &[u8], key: &[u8]) -> &'static str {
    match unserialized(value) {
        text if identifies_nobody(&text, key) => {
            "a string that names no holder, such as a counter, without a TTL"
        }
        text if std::str::from_utf8(&text).is_err() => {
            "a string in binary form, such as MessagePack; perhaps its holder lies inside"
        }
        _ => "a string that is no token of a library, without a TTL",
    }
}
