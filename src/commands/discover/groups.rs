//! Groups keys that differ only in an id into one pattern with a count and a few examples, so that
//! memory stays bounded.

use std::collections::{BTreeMap, HashMap};

use lockwatch_watch::redis::libraries::shape::is_uuid;

/// From this many keys on that differ only in ids, they count as locks of items, not as tasks.
pub(super) const SAME_BUT_IDS: usize = 5;
/// The same limit for keys that differ only in one word: a team may have many tasks, but rarely
/// this many of one kind.
pub(super) const SAME_BUT_ONE_WORD: usize = 100;
/// Maximum number of patterns kept; the first by name are kept.
const PATTERNS_MAX: usize = 20_000;
/// Minimum length of digits that count as an id; shorter ones may be a number in a name.
const ID_DIGITS: usize = 3;
/// Minimum length of hex digits that count as an id; shorter ones may be a word.
const ID_HEX_DIGITS: usize = 8;
/// Maximum length of letters and digits that count as a word.
const WORD_LETTERS: usize = 20;

/// Keys grouped by kind and pattern.
#[derive(Clone, Debug)]
pub(super) struct Groups<K> {
    groups: BTreeMap<(K, Vec<u8>), Group>,
    /// Number of keys beyond [`PATTERNS_MAX`].
    pub(super) dropped: u64,
}

/// Keys of one pattern.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Number of keys.
    pub(super) count: u64,
    /// The first of them by name.
    pub(super) keys: Vec<Vec<u8>>,
}

/// The keys of one kind: a single key, or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sorted {
    /// A key of its own.
    Single(Vec<u8>),
    /// Several keys with a common pattern.
    Pattern {
        /// The name with `*` for the parts that differ.
        pattern: Vec<u8>,
        /// Number of keys.
        count: u64,
    },
}

impl<K> Default for Groups<K> {
    fn default() -> Groups<K> {
        Groups { groups: BTreeMap::new(), dropped: 0 }
    }
}

impl<K: Ord + Clone + std::hash::Hash> Groups<K> {
    /// Adds a key. A key that the scan returns twice may be counted twice in a large group.
    pub(super) fn insert(&mut self, kind: K, key: Vec<u8>) {
        let group = self.groups.entry((kind, pattern(&key))).or_default();
        if let Err(at) = group.keys.binary_search(&key) {
            group.count += 1;
            group.keys.insert(at, key);
            group.keys.truncate(SAME_BUT_IDS);
        }
        if self.groups.len() > PATTERNS_MAX
            && let Some((_, last)) = self.groups.pop_last()
        {
            self.dropped += last.count;
        }
    }

    /// The keys that are kept, at most [`SAME_BUT_IDS`] of each pattern.
    pub(super) fn examples(&self) -> impl Iterator<Item = &[u8]> {
        self.groups.values().flat_map(|group| group.keys.iter().map(Vec::as_slice))
    }

    /// Every kind with its keys and patterns, sorted.
    pub(super) fn sorted(&self) -> Vec<(K, Sorted)> {
        let mut sorted = Vec::new();
        let mut singles: Vec<(&K, &[u8])> = Vec::new();
        for ((kind, pattern), group) in &self.groups {
            if group.count >= SAME_BUT_IDS as u64 {
                sorted.push((
                    kind.clone(),
                    Sorted::Pattern { pattern: pattern.clone(), count: group.count },
                ));
            } else {
                singles.extend(group.keys.iter().map(|key| (kind, key.as_slice())));
            }
        }
        let mut alike: HashMap<(&K, Vec<u8>), u64> = HashMap::new();
        for (kind, key) in &singles {
            for blurred in without_each_word(key) {
                *alike.entry((kind, blurred)).or_default() += 1;
            }
        }
        alike.retain(|_, count| *count >= SAME_BUT_ONE_WORD as u64);
        let mut patterns: BTreeMap<(&K, Vec<u8>), u64> = BTreeMap::new();
        for (kind, key) in singles {
            let of_key = without_each_word(key)
                .into_iter()
                .filter(|blurred| alike.contains_key(&(kind, blurred.clone())));
            match of_key.max_by_key(|blurred| alike.get(&(kind, blurred.clone())).copied()) {
                Some(pattern) => *patterns.entry((kind, pattern)).or_default() += 1,
                None => sorted.push((kind.clone(), Sorted::Single(key.to_vec()))),
            }
        }
        let patterns = patterns.into_iter();
        sorted
            .extend(patterns.map(|((kind, pattern), count)| {
                (kind.clone(), Sorted::Pattern { pattern, count })
            }));
        sorted.sort_by(|a, b| (&a.0, a.1.name()).cmp(&(&b.0, b.1.name())));
        sorted
    }
}

impl Sorted {
    /// The key, or the pattern.
    pub(super) fn name(&self) -> &[u8] {
        match self {
            Sorted::Single(key) => key,
            Sorted::Pattern { pattern, .. } => pattern,
        }
    }
}

/// Whether a name contains an id, as opposed to a small number.
pub(super) fn has_id(key: &[u8]) -> bool {
    runs(key).into_iter().any(|run| match run {
        Run::Word(word) => is_id(word),
        Run::Between(_) => false,
    })
}

/// The name with `*` in place of each id or number.
pub(super) fn pattern(key: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(key.len());
    for run in runs(key) {
        match run {
            Run::Word(word) if is_id(word) => pattern.push(b'*'),
            Run::Word(word) => {
                for (digits, part) in chunks(word) {
                    if digits {
                        pattern.push(b'*');
                    } else {
                        pattern.extend_from_slice(part);
                    }
                }
            }
            Run::Between(bytes) => pattern.extend_from_slice(bytes),
        }
    }
    pattern
}

/// The keys that are not one of [`SAME_BUT_IDS`] or more that differ only in ids.
pub(super) fn few_alike<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<&'a [u8]> {
    let mut alike: HashMap<Vec<u8>, usize> = HashMap::new();
    keys.clone().for_each(|key| *alike.entry(pattern(key)).or_default() += 1);
    keys.filter(|key| alike.get(&pattern(key)).is_some_and(|count| *count < SAME_BUT_IDS)).collect()
}

fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hex = word.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    is_uuid(word)
        || (digits == word.len() && digits >= ID_DIGITS)
        || (hex && digits > 0 && word.len() >= ID_HEX_DIGITS)
        || (digits > 0 && word.len() > WORD_LETTERS)
}

/// A part of a name.
enum Run<'a> {
    /// Letters and digits, or a whole UUID.
    Word(&'a [u8]),
    /// The characters between words.
    Between(&'a [u8]),
}

fn runs(key: &[u8]) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let wordy = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
        let length = match rest.get(..36) {
            Some(uuid) if is_uuid(uuid) => 36,
            _ => {
                let is_word = rest.first().is_some_and(wordy);
                rest.iter().take_while(|byte| wordy(byte) == is_word).count()
            }
        };
        let (run, after) = rest.split_at(length);
        runs.push(if run.first().is_some_and(wordy) { Run::Word(run) } else { Run::Between(run) });
        rest = after;
    }
    runs
}

/// Splits a word into digits (`true`) and other characters.
fn chunks(word: &[u8]) -> Vec<(bool, &[u8])> {
    word.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .map(|part| (part.first().is_some_and(u8::is_ascii_digit), part))
        .collect()
}

/// The name with `*` in place of one word, for each of its words.
fn without_each_word(key: &[u8]) -> Vec<Vec<u8>> {
    let runs = runs(key);
    let words = runs.iter().enumerate().filter(|(_, run)| matches!(run, Run::Word(_)));
    let blurred = words.map(|(at, _)| {
        let parts = runs.iter().enumerate().map(|(other, run)| match run {
            Run::Word(_) if other == at => b"*".as_slice(),
            Run::Word(bytes) | Run::Between(bytes) => bytes,
        });
        parts.collect::<Vec<_>>().concat()
    });
    blurred.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blurred(key: &str) -> String {
        String::from_utf8(pattern(key.as_bytes())).unwrap()
    }

    fn sorted(keys: impl IntoIterator<Item = String>) -> Vec<(u8, Sorted)> {
        let mut groups = Groups::default();
        keys.into_iter().for_each(|key| groups.insert(0, key.into_bytes()));
        groups.sorted()
    }

    #[test]
    fn ids_are_left_out_of_a_pattern() {
        for (key, expected) in [
            ("order:123:lock", "order:*:lock"),
            ("order:285475da-9152-4c83-822a-67ee2f116a79:lock", "order:*:lock"),
            ("lock:deadbeef01", "lock:*"),
            ("lock:feedback", "lock:feedback"),
            ("outbound2:lock", "outbound*:lock"),
            ("{shop}:lock", "{shop}:lock"),
        ] {
            assert_eq!(blurred(key), expected);
        }
        assert!(
            has_id(b"order:123:lock")
                && has_id(b"a:0b1f6c0e6d6c")
                && !has_id(b"outbound2:lock")
                && !has_id(b"v12")
        );
    }

    #[test]
    fn few_are_tasks_and_many_are_items() {
        let orders = |count| (0..count).map(|id| format!("order:{id}:lock"));
        let single = |key: &str| (0, Sorted::Single(key.as_bytes().to_vec()));
        assert_eq!(
            sorted(orders(4)),
            (0..4).map(|id| single(&format!("order:{id}:lock"))).collect::<Vec<_>>()
        );
        let pattern = |pattern: &str, count| {
            (0, Sorted::Pattern { pattern: pattern.as_bytes().to_vec(), count })
        };
        assert_eq!(sorted(orders(5)), [pattern("order:*:lock", 5)]);
        assert_eq!(sorted(orders(5_000).chain(orders(1))), [pattern("order:*:lock", 5_000)]);
        let word =
            |n: u8| format!("cart:{}{}:lock", char::from(b'a' + n / 26), char::from(b'a' + n % 26));
        assert_eq!(sorted((0..99).map(word)).len(), 99);
        let mixed = sorted((0..120).map(word).chain(["outbound:lock".to_owned()]));
        assert_eq!(mixed, [pattern("cart:*:lock", 120), single("outbound:lock")]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_left_out_is_counted() {
        let mut groups = Groups::default();
        let letters = |n: usize| {
            n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect::<String>()
        };
        (0..PATTERNS_MAX + 10)
            .for_each(|n| groups.insert(0, format!("{}:lock", letters(n)).into_bytes()));
        assert_eq!(groups.dropped, 10);
        assert_eq!(groups.groups.len(), PATTERNS_MAX);
    }
}
