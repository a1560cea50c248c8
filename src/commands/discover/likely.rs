//! Whether a key or a field looks like switches or like progress.

use lockwatch_watch::redis::libraries::shape::words;

/// Maximum number of fields of a hash of switches; a team has no more users.
pub(super) const SWITCHES_MAX: u64 = 64;
/// Words in the name of a field or key that suggest progress.
const PROGRESS_WORDS: [&[u8]; 5] =
    [b"heartbeat", b"progress", b"processed", b"lastrun", b"lastsuccess"];

/// Whether a hash of this size may hold switches.
pub(super) fn may_be_switches(length: u64) -> bool {
    (1..=SWITCHES_MAX).contains(&length)
}

/// Whether a name suggests progress.
pub(super) fn is_of_progress(name: &[u8]) -> bool {
    let words = words(name);
    let mut endings =
        (0..words.len()).rev().take(2).filter_map(|at| words.get(at..)).map(<[Vec<u8>]>::concat);
    endings.any(|ending| PROGRESS_WORDS.contains(&ending.as_slice()))
}
