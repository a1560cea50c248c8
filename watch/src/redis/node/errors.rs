//! What a server refuses to say about tasks although its batch is believed: the words for people,
//! and keys that are elsewhere. Pure.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use lockwatch_judge::reading::{
    GuardReading, LockReading, QueueReading, TaskReading, TurnReading, Unknown,
};
use lockwatch_judge::spec::TaskIndex;

use crate::redis::ask::{Ask, Class};
use crate::redis::batch::Question;
use crate::redis::diagnosis::words_of;
use crate::redis::driver::{Failure, printable};
use crate::redis::read::TaskRead;
use crate::redis::replies::scanned_pairs;
use crate::redis::reply::Reply;
use crate::redis::value::complaint;

/// What was refused about each task, or found instead of what was asked for: the first of each
/// reason, in words with the question that it answers.
pub(super) fn refusals(question: &Question, replies: &[Reply]) -> Vec<(TaskIndex, Failure)> {
    let of_task = |(task, read, replies): (TaskIndex, &TaskRead, &[Reply])| {
        refusals_of(read, replies).into_iter().map(move |refusal| (task, refusal))
    };
    question.by_task(replies).flat_map(of_task).collect()
}

/// An error may quote what was asked, so a question that names a holder is left out with its answer.
fn refusals_of(read: &TaskRead, replies: &[Reply]) -> Vec<Failure> {
    let said = |reply: &Reply| match reply {
        Reply::Error(error) => Some((Unknown::from(error), words_of(error))),
        reply => odd_hash(reply).map(|words| (Unknown::Layout, words)),
    };
    let mut refusals: Vec<Failure> = Vec::new();
    // Nearly always there is nothing to say, and the questions are not needed.
    if !read.has_path() && !replies.iter().any(|reply| said(reply).is_some()) {
        return refusals;
    }
    let asks = read.asks();
    for (ask, reply) in asks.iter().zip(replies) {
        let Some((why, words)) = said(reply) else { continue };
        let is_known = refusals.iter().any(|known| known.why == why);
        let is_of_holders = why != Unknown::Layout || ask.class == Class::Holders;
        if !is_known && is_of_holders && ask.class != Class::Named {
            refusals.push(failure(why, &words, ask));
        }
    }
    let complaint = asks.iter().zip(replies).find_map(|(ask, reply)| {
        Some(failure(Unknown::ValuePath, complaint(read.spec(), ask, reply)?, ask))
    });
    refusals.extend(complaint);
    refusals
}

/// What was found in a hash that is no lock: of those that are, each value but the mode is a count.
fn odd_hash(reply: &Reply) -> Option<String> {
    let pairs = scanned_pairs(reply).ok()?;
    let is_count = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let is_odd = |(field, value): &(&[u8], &[u8])| *field != b"mode" && !is_count(value);
    let odd = pairs.iter().filter(|pair| is_odd(pair)).count();
    (odd > 0).then(|| match pairs.len() {
        1 => "the hash has 1 field, and its value is no count".to_owned(),
        all if odd == 1 => format!("the hash has {all} fields, and a value that is no count"),
        all => format!("the hash has {all} fields, and {odd} values that are no counts"),
    })
}

fn failure(why: Unknown, words: &str, ask: &Ask) -> Failure {
    let name = ask.command.args.first().map(Vec::as_slice).unwrap_or_default();
    let key = ask.key().map_or(&b""[..], |key| key);
    let asked = [name, b" ", key].concat();
    let asked = printable(String::from_utf8_lossy(&asked).trim_end());
    Failure::new_printable(why, format!("{words} (asked: {asked})"))
}

/// Why parts of a reading are unknown.
pub(super) fn unknowns(
    TaskReading { guard, parts }: &TaskReading,
) -> impl Iterator<Item = Unknown> {
    guard.why_unknown().into_iter().chain(parts.whys_unknown())
}

/// Whether a reading shows that a key is not on the expected server.
pub(super) fn has_moved(reading: &TaskReading) -> bool {
    unknowns(reading).any(is_elsewhere)
}

pub(super) fn is_elsewhere(why: Unknown) -> bool {
    matches!(why, Unknown::Moved | Unknown::ClusterDown)
}

/// Only a cluster says that a key is elsewhere, and this server is not configured as part of one.
pub(super) fn out_of_cluster(TaskReading { guard, parts }: &mut TaskReading) {
    let correct = |why: &mut Unknown| {
        if is_elsewhere(*why) {
            *why = Unknown::Cluster;
        }
    };
    match guard {
        GuardReading::Lock { lock: LockReading::Unknown(why), .. }
        | GuardReading::Turn(TurnReading::Unknown(why))
        | GuardReading::Queue(QueueReading::Unknown(why)) => correct(why),
        GuardReading::Lock { .. } | GuardReading::Turn(_) | GuardReading::Queue(_) => {}
    }
    parts.whys_unknown_mut().for_each(correct);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use lockwatch_judge::reading::{
        ClaimsReading, Extras, LockReading, Parts, PauseReading, ProgressReading, SwitchesReading,
    };

    use super::*;

    #[test]
    fn a_hash_that_is_no_lock_is_described() {
        let hash = |pairs: &[(&str, &str)]| {
            let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
            let items = pairs.iter().flat_map(|(field, value)| [bytes(field), bytes(value)]);
            odd_hash(&Reply::Array(vec![bytes("0"), Reply::Array(items.collect())]))
        };
        for lock in [&[("mode", "read"), ("a:1", "1"), ("b:1", "2")][..], &[("a", "1")], &[]] {
            assert_eq!(hash(lock), None, "{lock:?}");
        }
        assert_eq!(
            hash(&[("report", "cf1c"), ("sync", "0a5e")]).as_deref(),
            Some("the hash has 2 fields, and 2 values that are no counts")
        );
        assert_eq!(
            hash(&[("owner", "web-1"), ("acquired_at", "1764412800"), ("ttl", "30")]).as_deref(),
            Some("the hash has 3 fields, and a value that is no count")
        );
    }

    #[test]
    fn a_key_that_is_elsewhere_shows_whichever_it_is() {
        let of = |lock| TaskReading::of_lock(lock, Extras::default(), Parts::default());
        let here = of(LockReading::Free);
        assert!(!has_moved(&here));
        for why in [Unknown::Moved, Unknown::ClusterDown] {
            assert!(has_moved(&of(LockReading::Unknown(why))));
            for parts in [
                Parts { switches: Some(SwitchesReading::Unknown(why)), ..Parts::default() },
                Parts { progress: Some(ProgressReading::Unknown(why)), ..Parts::default() },
                Parts { claims: Some(ClaimsReading::Unknown(why)), ..Parts::default() },
                Parts { pause: Some(PauseReading::Unknown(why)), ..Parts::default() },
            ] {
                assert!(
                    has_moved(&TaskReading { parts: parts.clone(), ..here.clone() }),
                    "{parts:?}"
                );
            }
        }
        assert!(!has_moved(&of(LockReading::Unknown(Unknown::Timeout))));
    }
}
