//! Chooses the key prefixes for which a server reports changes. Redis compares each written key
//! with each prefix, so there must be few. It refuses two prefixes of which one begins with the
//! other. Other keys that begin with a prefix are reported needlessly.

use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of prefixes. By measurement, each costs the server 0.02 µs per write.
pub const PREFIXES_MAX: usize = 16;
/// A namespace with more parts than this is not split, because most of its keys are probably
/// watched: `lock:0` to `lock:9`.
const PARTS_MAX: usize = 8;

/// Returns at most [`PREFIXES_MAX`] prefixes, so that each of `keys` begins with one of them and no
/// prefix begins with another. They are the keys themselves if possible, otherwise as long as
/// possible; the shortest are extended first. Sorted; empty only if `keys` is.
pub fn prefixes<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let mut keys: Vec<&[u8]> = keys.into_iter().collect();
    keys.sort_unstable();
    keys.dedup();
    let exact = keys.len() <= PREFIXES_MAX;
    let roots = roots(keys);
    let mut groups: Vec<Group<'_>> = Group::whole(&roots).into_iter().collect();
    loop {
        let room = PREFIXES_MAX - groups.len() + 1;
        let splits = |position: &usize| {
            let Some(group) = groups.get(*position) else { return false };
            let parts = group.parts(&roots).len();
            let worth = exact || group.prefix.is_empty() || parts <= PARTS_MAX;
            parts > 1 && parts <= room && worth
        };
        let length = |position: &usize| groups.get(*position).map(|group| group.prefix.len());
        let Some(next) = (0..groups.len()).filter(splits).min_by_key(length) else { break };
        let parts = groups.get(next).map(|group| group.parts(&roots)).unwrap_or_default();
        groups.splice(next..=next, parts);
    }
    groups.into_iter().map(|group| group.prefix).collect()
}

/// The sorted `keys` that begin with no other key. The other keys are covered by these.
fn roots(keys: Vec<&[u8]>) -> Vec<&[u8]> {
    let mut roots: Vec<&[u8]> = Vec::new();
    for key in keys {
        if !roots.last().is_some_and(|root| key.starts_with(root)) {
            roots.push(key);
        }
    }
    roots
}

/// Adjacent roots, and their common prefix.
struct Group<'a> {
    range: Range<usize>,
    prefix: &'a [u8],
}

impl<'a> Group<'a> {
    fn whole(roots: &[&'a [u8]]) -> Option<Group<'a>> {
        Group::new(roots, 0..roots.len())
    }

    fn new(roots: &[&'a [u8]], range: Range<usize>) -> Option<Group<'a>> {
        let within = roots.get(range.clone())?;
        let (first, last) = (*within.first()?, *within.last()?);
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        Some(Group { range, prefix: first.get(..common)? })
    }

    /// Splits the group by the byte that follows its prefix; a single key is one part.
    fn parts(&self, roots: &[&'a [u8]]) -> Vec<Group<'a>> {
        let follows =
            |position: usize| roots.get(position).and_then(|root| root.get(self.prefix.len()));
        let (mut parts, mut start) = (Vec::new(), self.range.start);
        while start < self.range.end && parts.len() <= PREFIXES_MAX {
            let within = roots.get(start..self.range.end).unwrap_or_default();
            let next = follows(start);
            let length = within.partition_point(|root| root.get(self.prefix.len()) <= next).max(1);
            parts.extend(Group::new(roots, start..start + length));
            start += length;
        }
        parts
    }
}
