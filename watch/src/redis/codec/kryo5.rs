//! Kryo 5's `writeClassAndObject` of null, `String` and the boxed integers and booleans, as
//! Redisson's default codec configures it: those classes have fixed ids, and there are no
//! references.
//!
//! With references (`Kryo5Codec(allowedClasses, true)`) a mark stands before a string. It looks
//! like a leading U+0001 of an ASCII text, which users do not type. So a leading U+0001 before a
//! complete string is treated as the mark.

use alloc::vec::Vec;

use super::java_text;
use super::scalar::{Form, Scalar};

/// No object.
const NULL: u8 = 0;
/// Kryo's id of a class that every instance registers by itself, plus 2.
const INTEGER: u8 = 2;
const STRING: u8 = 3;
const BOOLEAN: u8 = 5;
const BYTE: u8 = 6;
const SHORT: u8 = 8;
const LONG: u8 = 9;

/// "An object follows, not a reference to an earlier one."
const FIRST_OCCURRENCE: u8 = 1;
/// In the first byte of a string: a length follows, else ASCII up to a byte with this bit.
const LENGTH_FOLLOWS: u8 = 0x80;
/// In the first byte of a string's length: more bytes follow.
const LENGTH_GOES_ON: u8 = 0x40;
/// In each byte of a number: more bytes follow.
const GOES_ON: u8 = 0x80;

pub(super) fn decode(bytes: &[u8]) -> Option<Scalar> {
    let (class, value) = bytes.split_first()?;
    match (*class, value) {
        (NULL, []) => Some(Scalar::Null),
        (BOOLEAN, [0]) => Some(Scalar::Bool(false)),
        (BOOLEAN, [1]) => Some(Scalar::Bool(true)),
        (BYTE, [byte]) => Some(Scalar::Int(i64::from(byte.cast_signed()))),
        (SHORT, [low, high]) => Some(Scalar::Int(i64::from(i16::from_le_bytes([*low, *high])))),
        (INTEGER, number) => {
            i32::try_from(zigzag(number, 5)?).ok().map(|number| Scalar::Int(number.into()))
        }
        (LONG, number) => zigzag(number, 9).map(Scalar::Int),
        (STRING, [FIRST_OCCURRENCE, text @ ..]) => string(text).or_else(|| string(value)),
        (STRING, text) => string(text),
        _ => None,
    }
}

pub(super) fn encode(form: Form, scalar: &Scalar) -> Option<Vec<u8>> {
    match (form, scalar) {
        // It would read as one behind a mark.
        (Form::Text, Scalar::Text(text)) if text.starts_with('\u{1}') => None,
        (Form::Text, Scalar::Text(text)) => Some(encode_text(text)),
        (Form::MarkedText, Scalar::Text(text)) => {
            let mut bytes = encode_text(text);
            bytes.insert(1, FIRST_OCCURRENCE);
            Some(bytes)
        }
        (Form::Bool, Scalar::Bool(truth)) => Some(Vec::from([BOOLEAN, u8::from(*truth)])),
        (Form::Byte, Scalar::Int(number)) => {
            let byte = i8::try_from(*number).ok()?;
            Some(Vec::from([BYTE, byte.cast_unsigned()]))
        }
        (Form::Short, Scalar::Int(number)) => {
            let [low, high] = i16::try_from(*number).ok()?.to_le_bytes();
            Some(Vec::from([SHORT, low, high]))
        }
        (Form::Int, Scalar::Int(number)) => {
            i32::try_from(*number).ok().map(|number| varied(INTEGER, number.into()))
        }
        (Form::Long, Scalar::Int(number)) => Some(varied(LONG, *number)),
        _ => None,
    }
}

/// A text: ASCII of 2 to 32 characters ends with a marked byte, others have their length before
/// them.
pub(super) fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::from([STRING]);
    if text.is_ascii() && (2..=32).contains(&text.len()) {
        bytes.extend_from_slice(text.as_bytes());
        if let Some(last) = bytes.last_mut() {
            *last |= LENGTH_FOLLOWS;
        }
        return bytes;
    }
    let count = text.encode_utf16().count() + 1;
    let mut rest = count >> 6;
    let first = u8::try_from(count & 0x3f).unwrap_or_default() | LENGTH_FOLLOWS;
    bytes.push(if rest == 0 { first } else { first | LENGTH_GOES_ON });
    while rest > 0 {
        let low = u8::try_from(rest & 0x7f).unwrap_or_default();
        rest >>= 7;
        bytes.push(if rest == 0 { low } else { low | GOES_ON });
    }
    text.encode_utf16().for_each(|unit| java_text::push_unit(&mut bytes, unit));
    bytes
}

/// A number behind the id of its class: see [`zigzag`].
fn varied(class: u8, number: i64) -> Vec<u8> {
    let mut rest = (number << 1 ^ number >> 63).cast_unsigned();
    let mut bytes = Vec::from([class]);
    while rest > 0x7f && bytes.len() < 9 {
        bytes.push(u8::try_from(rest & 0x7f).unwrap_or_default() | GOES_ON);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap_or_default());
    bytes
}

/// A signed number in at most `max_bytes` bytes, seven bits each, the lowest first; a ninth byte
/// holds eight.
fn zigzag(bytes: &[u8], max_bytes: usize) -> Option<i64> {
    let (last, before) = bytes.split_last()?;
    let last_may_go_on = bytes.len() == 9;
    let well_formed = bytes.len() <= max_bytes
        && before.iter().all(|byte| byte & GOES_ON != 0)
        && (last_may_go_on || last & GOES_ON == 0);
    if !well_formed {
        return None;
    }
    let high = u64::from(*last) << (7 * before.len());
    let value =
        before.iter().rev().fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & !GOES_ON)) | high;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn string(bytes: &[u8]) -> Option<Scalar> {
    let text = if bytes.first()? & LENGTH_FOLLOWS == 0 { ascii(bytes)? } else { counted(bytes)? };
    java_text::text(text).map(Scalar::Text)
}

/// ASCII characters, the last one marked by the high bit.
fn ascii(bytes: &[u8]) -> Option<Vec<u16>> {
    let (last, before) = bytes.split_last()?;
    let well_formed = before.is_ascii() && !last.is_ascii();
    well_formed.then(|| before.iter().copied().chain([last & 0x7f]).map(u16::from).collect())
}

/// A count of UTF-16 units plus one, then the units.
fn counted(bytes: &[u8]) -> Option<Vec<u16>> {
    let (count_plus_one, mut rest) = split_length(bytes)?;
    let count = count_plus_one.checked_sub(1)?;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let (unit, after) = java_text::split_unit(rest)?;
        units.push(unit);
        rest = after;
    }
    (u64::try_from(units.len()).ok()? == count).then_some(units)
}

/// A string's length, six bits in the first byte and seven in each other, and what follows it.
fn split_length(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let mut length = u64::from(first & 0x3f);
    let mut goes_on = first & LENGTH_GOES_ON != 0;
    let mut shift = 6;
    while goes_on {
        let (byte, after) = rest.split_first()?;
        length |= u64::from(byte & !GOES_ON) << shift;
        goes_on = byte & GOES_ON != 0;
        shift += 7;
        rest = after;
        if shift > 34 {
            return (!goes_on).then_some((length, rest));
        }
    }
    Some((length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fits_its_type() {
        assert_eq!(
            decode(&[INTEGER, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            Some(Scalar::Int(i64::from(i32::MIN)))
        );
        assert_eq!(decode(&[INTEGER, 0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(decode(&[INTEGER, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), None);
        assert_eq!(decode(&[INTEGER, 0x80]), None);
        assert_eq!(decode(&[INTEGER]), None);
        assert_eq!(
            decode(&[LONG, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Some(Scalar::Int(i64::MIN))
        );
        assert_eq!(
            decode(&[LONG, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00]),
            None
        );
    }

    #[test]
    fn a_claimed_length_must_be_the_real_one() {
        assert_eq!(decode(&[STRING, 0x83, b'o', b'n']), Some(Scalar::Text("on".into())));
        assert_eq!(decode(&[STRING, 0x82, b'o', b'n']), None);
        assert_eq!(decode(&[STRING, 0x84, b'o', b'n']), None);
        assert_eq!(decode(&[STRING, 0x80]), None, "a string that is null is written as no object");
        assert_eq!(decode(&[STRING, 0xff, 0xff, 0xff, 0xff, 0x7f, b'o', b'n']), None);
        assert_eq!(
            decode(&[STRING, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            None
        );
    }

    #[test]
    fn a_surrogate_does_not_stand_alone() {
        assert_eq!(decode(&[STRING, 0x82, 0xed, 0xa0, 0xbd]), None);
    }

    #[test]
    fn text_before_the_marked_character_is_ascii() {
        assert_eq!(decode(&[STRING, b'o', b'n' | 0x80]), Some(Scalar::Text("on".into())));
        assert_eq!(decode(&[STRING, b'o', b'f' | 0x80, b'f' | 0x80]), None);
        assert_eq!(decode(&[STRING, b'o', b'n']), None);
    }

    #[test]
    fn a_leading_mark_is_one_only_before_a_whole_string() {
        assert_eq!(
            decode(&[STRING, FIRST_OCCURRENCE, b'o', b'n' | 0x80]),
            Some(Scalar::Text("on".into()))
        );
        assert_eq!(
            decode(&[STRING, FIRST_OCCURRENCE, b'a' | 0x80]),
            Some(Scalar::Text("\u{1}a".into()))
        );
    }
}
