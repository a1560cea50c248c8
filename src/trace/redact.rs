//! Formats commands and replies as `redis-cli` does, without anything that could release a lock,
//! and safe for a terminal. Pure.
//!
//! What a question may show is said where it is made: in its [`Class`], and by the library of the
//! lock. Of everything else only length and digest are shown.

use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::ask::{Ask, Class};
use lockwatch_watch::redis::libraries::{self, Library};
use lockwatch_watch::redis::reply::Reply;
use serde::{Deserialize, Serialize};

use super::names::{instance_label, open};
use crate::text::identity::{digest, escape};

/// Maximum number of items of a list that are shown.
const ITEMS_MAX: usize = 40;
/// The replies of `TYPE`.
const TYPES: [&[u8]; 6] = [b"string", b"list", b"set", b"zset", b"hash", b"stream"];

/// A command and its reply in a form that is safe to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedCommand"))]
pub struct Said {
    /// The command as it would be typed.
    pub command: String,
    /// The lines of the reply; empty when there was none.
    pub reply: Vec<String>,
}

/// Formats what was asked about the task `spec`, and the reply. The fuzz target `outputs` calls it
/// too.
pub fn said(spec: &TaskSpec, ask: &Ask, reply: Option<&Reply>) -> Said {
    let reply = reply.map(|reply| lines(&shown(spec, ask, reply))).unwrap_or_default();
    Said { command: command_line(spec, ask), reply }
}

fn command_line(spec: &TaskSpec, ask: &Ask) -> String {
    let library = libraries::of_task(spec);
    let word = |(position, word): (usize, &Vec<u8>)| match ask.class {
        Class::Named if position > 0 => quoted(&open(library, true, word).unwrap_or(weighed(word))),
        _ => plain(word),
    };
    ask.command.args.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// A word of a command, quoted where a shell needs it.
fn plain(word: &[u8]) -> String {
    quoted(&escape(word))
}

fn quoted(text: &str) -> String {
    let bare = |character: char| character.is_alphanumeric() || "_:.-{}/@+#%…".contains(character);
    match !text.is_empty() && text.chars().all(bare) {
        true => text.to_owned(),
        false => framed(text),
    }
}

/// A reply in its displayed form.
enum Shown {
    Line(String),
    List { items: Vec<Shown>, more: usize },
}

fn shown(spec: &TaskSpec, ask: &Ask, reply: &Reply) -> Shown {
    let library = libraries::of_task(spec);
    let is_lock = spec.lock().is_some_and(|lock| ask.key() == Some(&lock.key));
    let channels = &ask.command.args;
    let scan = |item: &dyn Fn(usize, &Reply) -> String| {
        scanned(reply, item).unwrap_or_else(|| hidden(reply))
    };
    match (ask.class, reply) {
        (_, Reply::Nil) => line("(nil)"),
        // An error may quote the words of the command.
        (Class::Named, Reply::Error(_)) => hidden(reply),
        (_, Reply::Error(error)) => Shown::Line(
            format!("(error) {} {}", escape(&error.code), escape(&error.detail))
                .trim_end()
                .to_owned(),
        ),
        (Class::Number | Class::Named, Reply::Int(number)) => {
            Shown::Line(format!("(integer) {number}"))
        }
        (Class::Number | Class::Named, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Int(number) => format!("(integer) {number}"),
            other => weighed_reply(other),
        }),
        (Class::Holders, Reply::Bytes(bytes)) => Shown::Line(value_word(library, false, bytes)),
        (Class::Holders, _) => scan(&|position, item| match item.as_bytes() {
            Some(bytes) => value_word(library, position.is_multiple_of(2), bytes),
            None => weighed_reply(item),
        }),
        (Class::Members, Reply::Array(items)) => {
            list(items, &|position, item| match (position % 2, item.as_bytes()) {
                (0, Some(member)) => value_word(library, true, member),
                (_, Some(score)) if is_score(score) => in_quotes(score),
                _ => weighed_reply(item),
            })
        }
        // The value of the lock is a secret, whatever else its key is configured for.
        _ if is_lock => hidden(reply),
        (Class::Digits, Reply::Bytes(bytes)) if is_number(bytes) || bytes.is_empty() => text(bytes),
        (Class::Type, Reply::Bytes(bytes))
            if TYPES.contains(&bytes.as_slice()) || bytes == b"none" =>
        {
            text(bytes)
        }
        (Class::Text, Reply::Bytes(bytes)) => text(bytes),
        (Class::Clock, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Bytes(bytes) if is_number(bytes) => in_quotes(bytes),
            Reply::Int(number) => format!("(integer) {number}"),
            other => weighed_reply(other),
        }),
        (Class::Listeners, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Bytes(channel) if channels.contains(channel) => in_quotes(channel),
            Reply::Int(number) => format!("(integer) {number}"),
            other => weighed_reply(other),
        }),
        (Class::Scores, Reply::Bytes(bytes)) => text(bytes),
        (Class::Scores, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Nil => "(nil)".to_owned(),
            other => other.as_bytes().map_or_else(|| weighed_reply(other), in_quotes),
        }),
        (Class::Texts, _) => {
            scan(&|_, item| item.as_bytes().map_or_else(|| weighed_reply(item), in_quotes))
        }
        (Class::Claims, _) => scan(&|position, item| instances(spec, position, item, &weighed)),
        (Class::Hosts, _) => scan(&|position, item| instances(spec, position, item, &in_quotes)),
        _ => hidden(reply),
    }
}

fn value_word(library: &dyn Library, is_name: bool, word: &[u8]) -> String {
    open(library, is_name, word).map_or_else(|| weighed(word), |open| framed(&open))
}

/// The reply to a scan: its cursor, and its items formatted by `item` with their position.
fn scanned(reply: &Reply, item: &dyn Fn(usize, &Reply) -> String) -> Option<Shown> {
    let [Reply::Bytes(cursor), Reply::Array(items)] = reply.as_array()? else { return None };
    let cursor = if is_number(cursor) { in_quotes(cursor) } else { weighed(cursor) };
    Some(Shown::List { items: vec![Shown::Line(cursor), list(items, item)], more: 0 })
}

fn list(items: &[Reply], item: &dyn Fn(usize, &Reply) -> String) -> Shown {
    let shown = items
        .iter()
        .take(ITEMS_MAX)
        .enumerate()
        .map(|(position, reply)| Shown::Line(item(position, reply)));
    Shown::List { items: shown.collect(), more: items.len().saturating_sub(ITEMS_MAX) }
}

/// Formats instances and values, which alternate.
fn instances(
    spec: &TaskSpec,
    position: usize,
    item: &Reply,
    value: &dyn Fn(&[u8]) -> String,
) -> String {
    match item.as_bytes() {
        Some(bytes) if position.is_multiple_of(2) => {
            framed(&instance_label(spec, &libraries::of_task(spec).instance(bytes)))
        }
        Some(bytes) => value(bytes),
        None => weighed_reply(item),
    }
}

fn hidden(reply: &Reply) -> Shown {
    match reply {
        Reply::Array(items) => {
            let shown = items.iter().take(ITEMS_MAX).map(hidden);
            Shown::List { items: shown.collect(), more: items.len().saturating_sub(ITEMS_MAX) }
        }
        other => Shown::Line(weighed_reply(other)),
    }
}

fn weighed_reply(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "(nil)".to_owned(),
        Reply::Int(_) => "(an integer)".to_owned(),
        Reply::Bytes(bytes) => weighed(bytes),
        Reply::Array(items) => format!("(a list of {})", items.len()),
        Reply::Error(error) => format!("(error) {}", escape(&error.code)),
    }
}

/// Length and digest of bytes that are not shown.
fn weighed(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "\"\"".to_owned(),
        1 => format!("(1 byte, digest {})", digest(bytes)),
        length => format!("({length} bytes, digest {})", digest(bytes)),
    }
}

fn in_quotes(bytes: &[u8]) -> String {
    framed(&escape(bytes))
}

fn framed(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

fn text(bytes: &[u8]) -> Shown {
    Shown::Line(in_quotes(bytes))
}

fn line(text: &str) -> Shown {
    Shown::Line(text.to_owned())
}

/// The lines of a reply, numbered as `redis-cli` does.
fn lines(shown: &Shown) -> Vec<String> {
    let (items, more) = match shown {
        Shown::Line(text) => return vec![text.clone()],
        Shown::List { items, .. } if items.is_empty() => return vec!["(empty array)".to_owned()],
        Shown::List { items, more } => (items, *more),
    };
    let width = items.len().to_string().len();
    let mut all = Vec::new();
    for (number, item) in (1..).zip(items) {
        let mut label = format!("{number:>width$}) ");
        for line in lines(item) {
            all.push(format!("{label}{line}"));
            label = " ".repeat(label.len());
        }
    }
    all.extend((more > 0).then(|| format!("… {more} more")));
    all
}

fn is_number(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit)
}

/// Whether this is a number as Redis writes scores.
fn is_score(score: &[u8]) -> bool {
    score.len() <= 24 && score.iter().all(|byte| byte.is_ascii_digit() || b"+-.e".contains(byte))
}

#[cfg(test)]
mod tests;
