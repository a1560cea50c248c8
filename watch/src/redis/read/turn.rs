//! Reads whose turn it is: all fields of a small hash, with one command.

use alloc::vec::Vec;

use crate::redis::ask::{Ask, Class};
use crate::redis::codec::written_text;
use crate::redis::instant;
use crate::redis::replies::{Replies, scan_hash, scanned_pairs};
use lockwatch_judge::reading::{Turn, TurnReading, Unknown};
use lockwatch_judge::spec::TurnSpec;

/// What is asked.
pub(crate) fn asks(spec: &TurnSpec, out: &mut Vec<Ask>) {
    out.push(scan_hash(Class::Texts, &spec.hash));
}

/// Decodes the replies to [`asks`].
pub(crate) fn take(spec: &TurnSpec, replies: &mut Replies<'_>) -> TurnReading {
    let read = scanned_pairs(replies.next()).and_then(|pairs| {
        // More can be no passing of the turn, and would be kept in vain.
        if pairs.len() > 2 * TurnSpec::TASKS_MAX {
            return Err(Unknown::TooLarge);
        }
        let turn = |(name, value): (&[u8], &[u8])| {
            let from = instant::of_unit(&written_text(value), spec.unit).ok_or(Unknown::Layout)?;
            Ok(Turn { name: written_text(name).to_vec(), from })
        };
        pairs.into_iter().map(turn).collect::<Result<Vec<Turn>, Unknown>>()
    });
    match read {
        Ok(mut turns) => {
            turns.sort_unstable();
            TurnReading::Read(turns)
        }
        Err(why) => TurnReading::Unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::redis::reply::Reply;
    use lockwatch_judge::spec::Unit;
    use lockwatch_judge::time::ServerTime;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    fn read(unit: Unit, cursor: &str, words: &[&str]) -> TurnReading {
        let spec = TurnSpec { unit, ..TurnSpec::new(b"turns", &["a", "b"]) };
        let items = words.iter().map(|word| bytes(word)).collect();
        let replies = [Reply::Array(vec![bytes(cursor), Reply::Array(items)])];
        take(&spec, &mut Replies::new(&replies))
    }

    fn turn(name: &str, from: i64) -> Turn {
        Turn { name: name.as_bytes().to_vec(), from: ServerTime::at(from) }
    }

    #[test]
    fn the_value_is_an_instant_in_the_configured_unit() {
        let at = 1_700_000_000_000;
        let one = |from| TurnReading::Read(vec![turn("a", from)]);
        assert_eq!(read(Unit::Milliseconds, "0", &["a", "1700000000000"]), one(at));
        assert_eq!(read(Unit::Seconds, "0", &["a", "1700000000"]), one(at));
        assert_eq!(read(Unit::Seconds, "0", &["a", "1700000000.25"]), one(at + 250));
        assert_eq!(read(Unit::Seconds, "0", &["\"a\"", "\"1700000000\""]), one(at), "JSON");
        assert_eq!(read(Unit::Milliseconds, "0", &["a", "0"]), one(0));
        assert_eq!(read(Unit::Milliseconds, "0", &[]), TurnReading::Read(vec![]));
    }

    #[test]
    fn fields_are_sorted() {
        let both = TurnReading::Read(vec![turn("a", 2_000), turn("b", 1_000)]);
        assert_eq!(read(Unit::Seconds, "0", &["b", "1", "a", "2"]), both);
    }

    #[test]
    fn what_is_no_turn_is_unknown() {
        let words: Vec<_> = (0..40).map(|at| if at % 2 == 0 { "x" } else { "1" }).collect();
        let unknown = TurnReading::Unknown;
        assert_eq!(read(Unit::Seconds, "0", &words), unknown(Unknown::TooLarge));
        assert_eq!(read(Unit::Seconds, "17", &["a", "1"]), unknown(Unknown::TooLarge));
        assert_eq!(read(Unit::Seconds, "0", &["a", "soon"]), unknown(Unknown::Layout));
        assert_eq!(read(Unit::Seconds, "0", &["a"]), unknown(Unknown::Protocol));
    }
}
