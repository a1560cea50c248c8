//! Follows a value path: finds in a value of foreign bytes the text that names a holder or an id.
//!
//! What is found is bounded, and so is the work, whatever the value contains. A path that finds
//! nothing says nothing about the value: neither that nobody is named, nor who.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use lockwatch_judge::reading::{Held, HostsReading, Unknown};
use lockwatch_judge::spec::{Claimants, KindSpec, LockSpec, TaskSpec, ValuePath};
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

use super::ask::{Ask, Class};
use super::libraries;
use super::reply::Reply;
use crate::command;

/// Maximum length of a value that is searched, in bytes.
pub const VALUE_BYTES_MAX: usize = 16_384;
/// Index of the last byte that is asked for: one more than is searched, to notice a longer value.
pub(super) const LAST_BYTE: &str = "16384";
/// Maximum length of a path in bytes.
const PATH_BYTES_MAX: usize = 256;
/// Maximum size of a pattern after it was compiled, in bytes. It bounds the time of a search.
const PATTERN_SIZE_MAX: usize = 16_384;
/// Maximum number of groups within each other in a pattern.
const PATTERN_DEPTH_MAX: u32 = 32;

/// A value path, ready to be followed.
pub struct Finder(Kind);

enum Kind {
    Json(String),
    Regex(Regex),
}

impl Finder {
    /// Prepares a path.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn new(path: &ValuePath) -> Result<Finder, String> {
        let (_, text) = path.parts();
        if text.len() > PATH_BYTES_MAX {
            return Err(format!("is {} bytes long; use at most {PATH_BYTES_MAX}", text.len()));
        }
        let kind = match path {
            ValuePath::Json(pointer) => Kind::Json(pointer_of(pointer)?),
            ValuePath::Regex(pattern) => Kind::Regex(pattern_of(pattern)?),
        };
        Ok(Finder(kind))
    }

    /// The text that the path names in a value.
    ///
    /// # Errors
    /// What was found instead, in words that quote nothing of the value.
    pub fn find(&self, value: &[u8]) -> Result<Vec<u8>, &'static str> {
        if value.len() > VALUE_BYTES_MAX {
            return Err("the value is longer than 16384 bytes");
        }
        let found = match &self.0 {
            Kind::Json(pointer) => in_json(pointer, value)?,
            Kind::Regex(pattern) => in_text(pattern, value)?,
        };
        if found.is_empty() { Err("there is an empty text") } else { Ok(found) }
    }
}

/// Reads the value of a lock whose holder a path names.
pub(super) fn holder_ask(key: &[u8]) -> Ask {
    Ask::new(Class::Holders, command!("GETRANGE", key, "0", LAST_BYTE))
}

/// Decodes the reply to [`holder_ask`].
pub(super) fn holder(path: &ValuePath, reply: &Reply, exists: bool) -> libraries::Value {
    libraries::held_by(reply, exists, |value| {
        let name = find(path, value).map_err(|_| Unknown::ValuePath)?;
        Ok(Claimants::Named.holder(&name))
    })
}

/// The host of the lock's only holder, and that holder's id, if the reply to `ask` has the value
/// that names it.
pub(super) fn host(spec: &LockSpec, held: &Held, ask: &Ask, reply: &Reply) -> Option<HostsReading> {
    let (path, [holder]) = (spec.host.as_ref()?, held.holders.as_slice()) else { return None };
    let value = reply.as_bytes().filter(|_| ask.class == Class::Holders)?;
    let host = find(path, value).map_err(|_| Unknown::ValuePath);
    Some(host.map(|host| Vec::from([(holder.client.clone(), host)])))
}

/// What the path of a task found instead of a name, if the reply to `ask` has such a value. In
/// words that quote nothing of the value.
pub(super) fn complaint(spec: &TaskSpec, ask: &Ask, reply: &Reply) -> Option<&'static str> {
    let path = match &spec.kind {
        KindSpec::Lock(lock) => lock.holder.as_ref()?,
        KindSpec::Queue(queue) => queue.id.as_ref()?,
        KindSpec::Turn(_) => return None,
    };
    let of = |value: &Reply| find(path, value.as_bytes()?).err();
    match (ask.class, reply) {
        (Class::Holders, Reply::Bytes(value)) if !value.is_empty() && spec.lock().is_some() => {
            of(reply)
        }
        (Class::Scores, Reply::Array(listed)) if ask.key() == Some(spec.kind.key()) => {
            listed.iter().step_by(2).find_map(of)
        }
        _ => None,
    }
}

/// What a path names in a value. The configuration was checked, so each path can be followed.
pub(crate) fn find(path: &ValuePath, value: &[u8]) -> Result<Vec<u8>, &'static str> {
    Finder::new(path).map_err(|_| "the path cannot be followed")?.find(value)
}

fn pointer_of(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err("is no JSON Pointer; begin it with `/`: \"/owner\"".to_string());
    }
    let mut escapes = text.split('~').skip(1);
    match escapes.all(|rest| rest.starts_with(['0', '1'])) {
        true => Ok(text.to_string()),
        false => {
            Err("has a `~` that is no escape; write `~0` for `~` and `~1` for `/`".to_string())
        }
    }
}

fn pattern_of(text: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(text)
        .size_limit(PATTERN_SIZE_MAX)
        .nest_limit(PATTERN_DEPTH_MAX)
        .build()
        .map_err(|error| format!("is no pattern: {error}; write one such as \"^[0-9]+:(.*)$\""))?;
    match compiled.captures_len() {
        2 => Ok(compiled),
        1 => Err("has no group; put `(…)` around the part that is meant".to_string()),
        more => Err(format!(
            "has {} groups; keep the one that is meant, and write the others as `(?:…)`",
            more - 1
        )),
    }
}

fn in_json(pointer: &str, value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let json: Value = serde_json::from_slice(value).map_err(|_| "the value is no JSON")?;
    match json.pointer(pointer) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        // Of other numbers, different ones may have the same text.
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
            Ok(number.to_string().into_bytes())
        }
        Some(Value::Number(_)) => Err("there is a number that is not whole, or too large"),
        Some(Value::Null) => Err("there is null"),
        Some(Value::Bool(_)) => Err("there is true or false"),
        Some(Value::Array(_)) => Err("there is a list"),
        Some(Value::Object(_)) => Err("there is an object"),
        None if json.is_object() => Err("the value is a JSON object without it"),
        None => Err("the value is JSON, but no object that has it"),
    }
}

fn in_text(pattern: &Regex, value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let text = core::str::from_utf8(value).map_err(|_| "the value is no text")?;
    let found = pattern.captures(text).ok_or("the pattern does not fit the value")?;
    let group = found.get(1).ok_or("the pattern fits the value without its group")?;
    Ok(group.as_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(pointer: &str) -> ValuePath {
        ValuePath::Json(pointer.into())
    }

    fn regex(pattern: &str) -> ValuePath {
        ValuePath::Regex(pattern.into())
    }

    #[test]
    fn a_path_names_a_text_or_a_whole_number() {
        let value =
            r#"{"owner":"web-1","n":-7,"big":18446744073709551615,"a":[{"b/c":{"~":"x"}}]}"#;
        for (pointer, expected) in [
            ("/owner", "web-1"),
            ("/n", "-7"),
            ("/big", "18446744073709551615"),
            ("/a/0/b~1c/~0", "x"),
        ] {
            assert_eq!(find(&json(pointer), value.as_bytes()), Ok(expected.into()), "{pointer}");
        }
        for (pattern, value, expected) in [
            ("^[0-9]+:(.*)$", "17:web-1:4711", "web-1:4711"),
            ("(?:a|b)=([^,]*)", "x,b=7,a=8", "7"),
            ("host-(\\S+)", "…EURAhost-1 host-é", "1"),
        ] {
            let found = find(&regex(pattern), value.as_bytes());
            assert_eq!(found, Ok(expected.into()), "{pattern}");
        }
    }

    /// What is no answer is unknown, never "nobody".
    #[test]
    fn anything_else_says_what_was_found() {
        let _rule = crate::truth::rule("14 hostile bytes");
        for (pointer, value, expected) in [
            ("/owner", "", "no JSON"),
            ("/owner", "web-1", "no JSON"),
            ("/owner", r#"{"owner":"web-1""#, "no JSON"),
            ("/owner", r#"{"owner":"web-1"} "#, ""),
            ("/owner", "{\"owner\":\"\\ud83d\"}", "no JSON"),
            ("/owner", r#"{"Owner":"web-1"}"#, "without it"),
            ("/owner", r#"["web-1"]"#, "no object"),
            ("/owner", "1", "no object"),
            ("/owner", r#"{"owner":""}"#, "empty"),
            ("/owner", r#"{"owner":null}"#, "null"),
            ("/owner", r#"{"owner":true}"#, "true or false"),
            ("/owner", r#"{"owner":1.5}"#, "not whole"),
            ("/owner", r#"{"owner":123456789012345678901}"#, "too large"),
            ("/owner", r#"{"owner":[]}"#, "a list"),
            ("/owner", r#"{"owner":{"x":1}}"#, "an object"),
        ] {
            match find(&json(pointer), value.as_bytes()) {
                Ok(found) => assert_eq!((expected, &*found), ("", &b"web-1"[..]), "{value}"),
                Err(words) => {
                    assert!(!expected.is_empty() && words.contains(expected), "{value}: {words}");
                }
            }
        }
        let deep = [&b"["[..]; 5_000].concat();
        assert_eq!(find(&json("/0"), &deep), Err("the value is no JSON"));
        let find_text = |pattern: &str, value: &[u8]| find(&regex(pattern), value).unwrap_err();
        assert!(find_text("^(a+)$", b"b").contains("does not fit"));
        assert!(find_text("^(a)?b", b"b").contains("without its group"));
        assert!(find_text("^(a*)b", b"b").contains("empty"));
        assert!(find_text("(.*)", b"\xff").contains("no text"));
        let long = [b'a'; VALUE_BYTES_MAX + 1];
        assert!(find_text("(a*)", &long).contains("longer"));
        assert!(find(&json("/a"), &long).unwrap_err().contains("longer"));
        assert_eq!(LAST_BYTE.parse(), Ok(VALUE_BYTES_MAX), "one byte more is read than searched");
    }

    #[test]
    fn paths_that_cannot_be_meant_are_refused() {
        for (path, expected) in [
            (json("owner"), "begin it with `/`"),
            (json(""), "begin it with `/`"),
            (json("/a~2"), "no escape"),
            (json("/a~"), "no escape"),
            (json(&["/"; 257].concat()), "at most 256"),
            (regex("^.*$"), "no group"),
            (regex("(?:a)"), "no group"),
            (regex("(a)(b)"), "2 groups"),
            (regex("(a"), "no pattern"),
            (regex("((((a{200}){200}){200}))"), "no pattern"),
            (regex(&["(?:a"; 64].concat()), "no pattern"),
        ] {
            let mistake = Finder::new(&path).err().unwrap();
            assert!(mistake.contains(expected), "{path:?}: {mistake}");
        }
    }
}
