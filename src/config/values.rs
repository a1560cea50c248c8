//! Parses single values of the document. Each error says what is wrong and what to write instead;
//! none repeats a value that could be a secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use lockwatch_judge::spec::Key;
use serde_yaml::Value;

use super::schema::BYTES;
use crate::text::durations::{EXAMPLES, duration_text, parse_duration_ms};

/// Maximum length of the name of a task, Redis store or user, and of the value of a label, in
/// bytes.
pub(super) const NAME_BYTES_MAX: usize = 200;

/// Maximum length of a key in bytes. Every batch carries each key several times.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// Maximum duration in milliseconds: longer than any sensible threshold, and short enough that no
/// sum overflows.
pub(super) const DURATION_MS_MAX: u64 = 366 * 86_400_000;

/// The type of this value, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a block",
        Value::Tagged(_) => "a value with a YAML tag",
    }
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Err(format!("is {}; put it in quotes", kind(value))),
        _ => Err(format!("is {}; write text", kind(value))),
    }
}

/// A name that appears in labels, logs and pages: not empty, not too long, no control characters.
pub(super) fn name(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    match name_mistake(&text) {
        Some(mistake) => Err(mistake),
        None => Ok(text),
    }
}

pub(super) fn name_mistake(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("is empty; give it a name".to_owned());
    }
    if text.len() > NAME_BYTES_MAX {
        return Some(format!("is {} bytes long; use at most {NAME_BYTES_MAX}", text.len()));
    }
    let hostile = text.chars().any(char::is_control);
    hostile.then(|| "has control characters in it; use printable text".to_owned())
}

/// The value of a per-task label. It may be empty.
pub(super) fn label_value(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    if text.is_empty() { Ok(text) } else { name(value) }
}

pub(super) fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("is {}; write true or false", kind(value)))
}

pub(super) fn count(value: &Value, max: usize) -> Result<usize, String> {
    let wrong = || format!("is not a whole number from 1 to {max}");
    value
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| (1..=max).contains(n))
        .ok_or_else(wrong)
}

/// A duration in milliseconds, at least `min_ms`.
pub(super) fn duration_ms(min_ms: u64) -> impl Fn(&Value) -> Result<u64, String> {
    move |value| {
        let ms = match value {
            Value::String(text) => parse_duration_ms(text)?,
            Value::Number(_) => return Err(format!("has no unit; {EXAMPLES}")),
            _ => return Err(format!("is {}; {EXAMPLES}", kind(value))),
        };
        if ms < min_ms {
            return Err(format!("is too short; use at least {}", duration_text(min_ms)));
        }
        if ms > DURATION_MS_MAX {
            return Err(format!("is too long; use at most {}", duration_text(DURATION_MS_MAX)));
        }
        Ok(ms)
    }
}

pub(super) fn duration(min: Duration) -> impl Fn(&Value) -> Result<Duration, String> {
    let read_ms = duration_ms(u64::try_from(min.as_millis()).unwrap_or(u64::MAX));
    move |value| read_ms(value).map(Duration::from_millis)
}

/// A Redis key: any bytes, at least one and at most [`KEY_BYTES_MAX`].
pub(super) fn key(value: &Value) -> Result<Key, String> {
    let key = bytes(value)?;
    match key.len() {
        0 => Err("is an empty key; name the key".to_owned()),
        1..=KEY_BYTES_MAX => Ok(key),
        length => Err(format!("is a key of {length} bytes; at most {KEY_BYTES_MAX} are accepted")),
    }
}

/// The path of a node in ZooKeeper, as its servers accept them.
pub(super) fn node(value: &Value) -> Result<Key, String> {
    const SHAPE: &str = "write the whole path, for example /locks/outbound";
    let path = text(value)?;
    let is_refused = |c: char| {
        c.is_control()
            || ('\u{e000}'..='\u{f8ff}').contains(&c)
            || ('\u{fff0}'..='\u{ffff}').contains(&c)
    };
    let mut segments = path.split('/').skip(1);
    let wrong = match path.as_str() {
        "" => "is an empty path".to_owned(),
        "/" => "is the root of all nodes".to_owned(),
        path if !path.starts_with('/') => "does not begin with `/`".to_owned(),
        path if path.ends_with('/') => "ends with `/`".to_owned(),
        path if path.len() > KEY_BYTES_MAX => {
            format!("is a path of {} bytes, and at most {KEY_BYTES_MAX} are accepted", path.len())
        }
        path if path.contains(is_refused) => "has characters that no node has".to_owned(),
        _ if segments.any(|segment| ["", ".", ".."].contains(&segment)) => {
            "has `//`, `.` or `..` in it".to_owned()
        }
        _ => return Ok(path.into_bytes()),
    };
    Err(format!("{wrong}; {SHAPE}"))
}

/// Bytes: text, `{hex: …}` or `{base64: …}`.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    const SHAPE: &str = "write text, {hex: …} or {base64: …}";
    let map = match value {
        Value::String(text) => return Ok(text.clone().into_bytes()),
        Value::Mapping(map) => map,
        Value::Number(_) | Value::Bool(_) => {
            return Err(format!("is {}; put it in quotes", kind(value)));
        }
        _ => return Err(format!("is {}; {SHAPE}", kind(value))),
    };
    let mut fields = map.iter();
    let (Some((Value::String(encoding), value)), None) = (fields.next(), fields.next()) else {
        return Err(format!("is not bytes; {SHAPE}"));
    };
    if !BYTES.fields.contains(&encoding.as_str()) {
        return Err(format!("is not bytes; {SHAPE}"));
    }
    let text = text(value).map_err(|message| format!("`{encoding}` {message}"))?;
    let decoded = if encoding == "hex" { hex::decode(&text).ok() } else { from_base64(&text) };
    decoded.ok_or_else(|| {
        format!("`{encoding}` is not valid {encoding}; check its letters and its length")
    })
}

/// Standard alphabet, with or without padding. Nonzero bits after the last byte are refused, so
/// that each value has only one spelling.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_yaml::from_str(text).unwrap()
    }

    #[test]
    fn bytes_have_three_spellings() {
        for (text, expected) in [
            ("outbound:lock", b"outbound:lock".as_slice()),
            ("\"a\\0\\xe9\"", "a\0é".as_bytes()),
            ("{hex: '00fF10'}", &[0, 255, 16]),
            ("{hex: ''}", &[]),
            ("{base64: ''}", &[]),
            ("{base64: AA==}", &[0]),
            ("{base64: AP8}", &[0, 255]),
            ("{base64: AP8=}", &[0, 255]),
            ("{base64: /+7d}", &[255, 238, 221]),
            ("{base64: bG9ja3dhdGNo}", b"lockwatch"),
        ] {
            assert_eq!(bytes(&yaml(text)).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for text in [
            "12",
            "true",
            "",
            "[a]",
            "{}",
            "{hex: '00', base64: AA==}",
            "{octal: '7'}",
            "{hex: 0}",
            "{hex: '0'}",
            "{hex: 0g}",
            "{hex: 'é'}",
            "{base64: A}",
            "{base64: AB}",
            "{base64: AA=}",
            "{base64: A===}",
            "{base64: '===='}",
            "{base64: A A=}",
            "{base64: AA==AA==}",
            "{base64: _-8}",
        ] {
            assert!(bytes(&yaml(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_those_that_zookeeper_accepts() {
        for path in ["/a", "/locks/outbound 1", "/a/..b/c.", "/wärme/{x}", "/zookeeper/config"] {
            assert_eq!(node(&Value::from(path)).as_deref(), Ok(path.as_bytes()), "{path}");
        }
        let long = format!("/{}", "x".repeat(1024));
        for path in [
            "",
            "/",
            "a",
            "a/b",
            "/a/",
            "//a",
            "/a//b",
            "/.",
            "/a/./b",
            "/a/..",
            "/a\u{0}",
            "/a\nb",
            "/\u{7f}",
            "/\u{e000}",
            "/\u{fff0}",
            &long,
        ] {
            assert!(node(&Value::from(path)).is_err(), "{path:?}");
        }
        assert!(node(&yaml("7")).is_err() && node(&yaml("{hex: '2f61'}")).is_err());
    }

    #[test]
    fn names_are_printable_and_short() {
        assert!(name(&yaml("\"wärme 1\"")).is_ok());
        assert!(name(&yaml(&"x".repeat(200))).is_ok());
        for wrong in ["''", "\"a\\nb\"", "\"\\x7f\"", "\"\\u0085\"", &"x".repeat(201), "7", "true"]
        {
            assert!(name(&yaml(wrong)).is_err(), "{wrong}");
        }
    }
}
