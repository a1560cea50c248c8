//! Values of the web file, as the reference reads them: it knows more spellings than the rest of
//! the configuration.

use std::time::Duration;

use serde_yaml::Value;

use crate::config::block::{At, Block};
use crate::config::mistake::Reported;
use crate::config::schema::BlockSpec;
use crate::config::values::kind;

/// Units of a duration, longest name first, with their nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The value of a field with its place; an empty value says nothing.
pub(super) fn set<'a>(block: &Block<'a>, field: &str) -> Option<At<'a>> {
    block.at(field).filter(|at| !at.value.is_null())
}

/// A block within another; an absent or empty one is like `nothing`, an empty mapping.
pub(super) fn child<'a>(
    block: &Block<'a>,
    field: &str,
    spec: &BlockSpec,
    nothing: &'a Value,
) -> Result<Block<'a>, Reported> {
    let mut at = block.at(field).unwrap_or_else(|| block.whole());
    if set(block, field).is_none() {
        at.value = nothing;
        at.place = block.place(field);
    }
    Block::open(at, spec)
}

/// An optional field.
pub(super) fn optional<T>(
    block: &Block<'_>,
    field: &str,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<Option<T>, Reported> {
    set(block, field).map(|at| at.read(read)).transpose()
}

/// Text; a number or a word of YAML is text as well.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(word) => Ok(word.to_string()),
        _ => Err(format!("is {}; write text", kind(value))),
    }
}

/// True or false, also in the spellings of YAML 1.1.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    let word = match value {
        Value::Bool(flag) => return Ok(*flag),
        Value::String(word) => word.as_str(),
        _ => "",
    };
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Ok(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Ok(false),
        _ => Err(format!("is {}; write true or false", kind(value))),
    }
}

/// A duration like `500ms`, `1.5s` or `1h30m`; 0 needs no unit.
pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    const SHAPE: &str = "write it like 500ms, 1s or 1m30s; 0 is no limit";
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => Ok(Duration::ZERO),
        Value::Number(_) => Err(format!("has no unit; {SHAPE}")),
        Value::String(text) => {
            parse_duration(text).ok_or_else(|| format!("is not a duration; {SHAPE}"))
        }
        _ => Err(format!("is {}; {SHAPE}", kind(value))),
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total_ns = 0.0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c))?);
        let end = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total_ns += number.parse::<f64>().ok()? * unit_ns;
        rest = after;
    }
    let is_some = !text.is_empty() && total_ns <= i64::MAX as f64;
    is_some.then(|| Duration::from_secs_f64(total_ns / 1e9))
}

/// A whole number from 0.
pub(super) fn count(value: &Value) -> Result<u32, String> {
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    count.ok_or_else(|| format!("is not a whole number from 0 to {}", u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let ms = |text: &str| parse_duration(text).map(|duration| duration.as_micros());
        let cases = [
            ("1s", Some(1_000_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1.5s", Some(1_500_000)),
            (".5s", Some(500_000)),
            ("1h30m", Some(5_400_000_000)),
            ("250ms", Some(250_000)),
            ("7us", Some(7)),
            ("7µs", Some(7)),
            ("1000ns", Some(1)),
            ("", None),
            ("5", None),
            ("-1s", None),
            ("1 s", None),
            ("1d", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("9999999999h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(ms(text), expected, "{text}");
        }
    }

    #[test]
    fn flags_have_the_spellings_of_yaml_1_1() {
        let read = |text: &str| flag(&serde_yaml::from_str(text).unwrap());
        for (text, expected) in [("true", true), ("on", true), ("Yes", true), ("no", false)] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["1", "maybe", "[true]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
