//! What guards state of the runs of their scripts: a field of each guard among the claims. It stays
//! while no script runs, and after the guard has ended.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::redis::ask::Class;
use crate::redis::replies::{scan_hash, scanned_pairs};
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::{Ended, GuardRuns};
use lockwatch_judge::time::ServerTime;

/// The fields of guards begin with this; the id of the instance follows.
const PREFIX: &[u8] = b"runs:";
/// What comes before the host, which is the last word.
const HOST: &str = "host=";
/// Longest host that is read, in bytes.
const HOST_BYTES: usize = 255;
/// After this time in milliseconds nobody needs a guard's runs any more.
const OUTDATED_MS: i64 = 3_600_000;

/// The field and the value in which a guard states its runs.
pub fn runs_claim(runs: &GuardRuns) -> (Vec<u8>, Vec<u8>) {
    let mut words: Vec<String> = Vec::new();
    for Ended { from, to, code, asked } in &runs.ended {
        let mark = if *asked { "!" } else { "" };
        words.push(format!("{}-{}={code}{mark}", from.ms(), to.ms()));
    }
    words.extend(runs.since.map(|since| format!("{}-", since.ms())));
    words.push(HOST.to_owned());
    let value = [words.join(" ").as_bytes(), &runs.host].concat();
    ([PREFIX, &runs.instance].concat(), value)
}

/// What a guard asks before it writes its runs: the fields that are there.
pub fn claims_scan(key: &[u8]) -> Command {
    scan_hash(Class::Claims, key).command
}

/// The fields in the answer to [`claims_scan`] that guards left which ran nothing in the last hour.
pub fn outdated_runs(scanned: &Reply, now: ServerTime) -> Vec<Vec<u8>> {
    let pairs = scanned_pairs(scanned).unwrap_or_default();
    let is_outdated = |(field, value): &(&[u8], &[u8])| {
        let runs = instance(field).and_then(|_| read(Vec::new(), value));
        runs.is_some_and(|runs| now.since_ms(runs.newest()) > OUTDATED_MS)
    };
    pairs.into_iter().filter(is_outdated).map(|(field, _)| field.to_vec()).collect()
}

/// The instance whose runs this field has, if it is such a field.
pub(super) fn instance(field: &[u8]) -> Option<&[u8]> {
    field.strip_prefix(PREFIX)
}

/// The runs of `instance` that a value states; `None` if no guard wrote it, or not all of it.
pub(super) fn read(instance: Vec<u8>, value: &[u8]) -> Option<GuardRuns> {
    let (words, host) = core::str::from_utf8(value).ok()?.split_once(HOST)?;
    let mut runs = GuardRuns {
        instance,
        host: Some(host.as_bytes()).filter(|host| host.len() <= HOST_BYTES)?.to_vec(),
        ended: Vec::new(),
        since: None,
    };
    for word in words.strip_suffix(' ')?.split(' ') {
        // Nothing follows the run that goes on.
        if runs.since.is_some() || runs.ended.len() > GuardRuns::ENDED_MAX {
            return None;
        }
        let (from, end) = word.split_once('-')?;
        let from = ServerTime::at(from.parse().ok()?);
        if end.is_empty() {
            runs.since = Some(from);
            continue;
        }
        let (to, code) = end.split_once('=')?;
        let to = ServerTime::at(to.parse().ok()?);
        let (code, asked) = code.strip_suffix('!').map_or((code, false), |code| (code, true));
        runs.ended.push(Ended { from, to, code: code.parse().ok()?, asked });
    }
    let is_sound = runs.ended.len() <= GuardRuns::ENDED_MAX
        && runs.ended.iter().all(|run| run.from.ms() >= 0 && run.from <= run.to);
    is_sound.then_some(runs)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn ended(from: i64, to: i64, code: u8, asked: bool) -> Ended {
        Ended { from: ServerTime::at(from), to: ServerTime::at(to), code, asked }
    }

    #[test]
    fn what_a_guard_writes_is_read_again() {
        let three = vec![ended(1, 2, 1, false), ended(3, 3, 143, true), ended(4, 9, 0, false)];
        for (runs, written) in [
            ((vec![], Some(7)), "7- host=web 1"),
            ((three.clone(), None), "1-2=1 3-3=143! 4-9=0 host=web 1"),
            ((three, Some(10)), "1-2=1 3-3=143! 4-9=0 10- host=web 1"),
        ] {
            let runs = GuardRuns {
                instance: b"A".to_vec(),
                host: b"web 1".to_vec(),
                ended: runs.0,
                since: runs.1.map(ServerTime::at),
            };
            let (field, value) = runs_claim(&runs);
            assert_eq!((&*field, &*value), (&b"runs:A"[..], written.as_bytes()));
            assert_eq!(instance(&field), Some(&b"A"[..]));
            assert_eq!(read(b"A".to_vec(), &value), Some(runs));
        }
    }

    #[test]
    fn what_is_half_written_or_foreign_is_not_read() {
        let whole = "1-2=1 3-4=143! 10- host=";
        assert!(read(Vec::new(), whole.as_bytes()).is_some());
        for length in 0..whole.len() {
            let half = whole.get(..length).unwrap();
            assert_eq!(read(Vec::new(), half.as_bytes()), None, "{half:?}");
        }
        for foreign in [
            "host=a",
            " host=a",
            "12 host=a",
            "7- 1-2=1 host=a",
            "7- 8- host=a",
            "2-1=1 host=a",
            "-1-1=1 host=a",
            "1-2=256 host=a",
            "1-2=1!! host=a",
            "1-2=1  3-4=1 host=a",
            "1-2=1 1-2=1 1-2=1 1-2=1 host=a",
            "99999999999999999999-2=1 host=a",
        ] {
            assert_eq!(read(Vec::new(), foreign.as_bytes()), None, "{foreign:?}");
        }
        assert_eq!(read(Vec::new(), b"1-2=1 host=\xff"), None);
        let long = format!("1-2=1 host={}", "a".repeat(HOST_BYTES + 1));
        assert_eq!(read(Vec::new(), long.as_bytes()), None);
    }

    #[test]
    fn what_is_older_than_an_hour_is_outdated() {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let pairs = [
            ("runs:A", "1-2=1 host=a"),
            ("runs:B", "1-2=1 500- host=b"),
            ("runs:C", "no run"),
            ("D", "1-2=1 host=d"),
        ];
        let items = pairs.iter().flat_map(|(field, value)| [text(field), text(value)]).collect();
        let scanned = Reply::Array(vec![text("0"), Reply::Array(items)]);
        let outdated = |now| outdated_runs(&scanned, ServerTime::at(now));
        assert_eq!(outdated(OUTDATED_MS), [b""; 0]);
        assert_eq!(outdated(OUTDATED_MS + 3), [b"runs:A"]);
        assert_eq!(outdated(OUTDATED_MS + 501), [b"runs:A", b"runs:B"]);
    }
}
