//! The replies about sorted sets.

use lockwatch_judge::spec::Unit;
use lockwatch_watch::redis::reply::Reply;

use super::values::{bytes, wrong_type};
use crate::server::{Server, Value};

impl Server {
    /// The reply to a command about the sorted set `key`.
    pub(super) fn scores(&self, name: &[u8], key: &[u8], words: &[Vec<u8>], now: u64) -> Reply {
        let (members, unit) = match self.get(key, now).map(|entry| &entry.value) {
            Some(Value::Scores(members, unit)) => (members.as_slice(), Some(*unit)),
            None => (&[][..], None),
            Some(_) => return wrong_type(),
        };
        let word = |at: usize| words.get(at).map(Vec::as_slice).unwrap_or_default();
        let score_of = |due: i64| unit.map_or(Vec::new(), |unit| score(due, unit));
        let place = |id: &[u8]| {
            let found = members.iter().find(|(member, _)| member == id);
            found.map_or(Reply::Nil, |(_, due)| Reply::Bytes(score_of(*due)))
        };
        let count = |number: usize| Reply::Int(i64::try_from(number).unwrap_or(i64::MAX));
        match name {
            b"ZCARD" => count(members.len()),
            b"ZRANGE" => {
                let last = std::str::from_utf8(word(3)).ok().and_then(|last| last.parse().ok());
                let listed = members.iter().take(last.map_or(0, |last: usize| last + 1));
                Reply::Array(
                    listed
                        .flat_map(|(id, due)| [bytes(id), Reply::Bytes(score_of(*due))])
                        .collect(),
                )
            }
            b"ZCOUNT" => {
                let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<f64>().ok();
                let most = number(word(3)).unwrap_or(f64::MAX);
                let is_due = |due: i64| number(&score_of(due)).is_some_and(|due| due <= most);
                count(members.iter().filter(|(_, due)| is_due(*due)).count())
            }
            b"ZSCORE" => place(word(2)),
            _ => Reply::Array(words.iter().skip(2).map(|id| place(id)).collect()),
        }
    }
}

/// A score as a server prints it.
fn score(due: i64, unit: Unit) -> Vec<u8> {
    match unit {
        Unit::Milliseconds => due.to_string(),
        Unit::Seconds => format!("{}.{:03}", due.div_euclid(1_000), due.rem_euclid(1_000)),
    }
    .into_bytes()
}
