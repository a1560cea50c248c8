//! Formats commands and replies as `redis-cli` does, without anything that could release a lock,
//! and safe for a terminal. Pure.
//!
//! Values that are not known to be harmless are replaced by their length and digest. That includes
//! the replies to commands that this module does not know.

use lockwatch_judge::spec::{ProgressSource, SchemeKind, TaskSpec, WantedSource};
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::scheme;
use serde::{Deserialize, Serialize};

use super::reading::instance_label;
use crate::output::identity::{digest, escape};

/// Maximum number of items of a list that are shown.
const ITEMS_MAX: usize = 40;
/// The replacement for a holder's thread: a client that knows client id and thread can release the
/// lock.
const HIDDEN: &str = "…";
/// The replies of `TYPE`.
const TYPES: [&[u8]; 6] = [b"string", b"list", b"set", b"zset", b"hash", b"stream"];

/// A command and its reply in a form that is safe to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The command as it would be typed.
    pub command: String,
    /// The lines of the reply; empty when there was none.
    pub reply: Vec<String>,
}

/// Formats `command`, which was sent about the task `spec`, and its reply.
pub fn said(spec: &TaskSpec, command: &Command, reply: Option<&Reply>) -> Said {
    let words: Vec<&[u8]> = command.args.iter().map(Vec::as_slice).collect();
    let kind = kind(spec, &words);
    let lines = reply.map(|reply| lines(&shown(kind, spec, &words, reply))).unwrap_or_default();
    Said { command: command_line(kind, spec, &words), reply: lines }
}

/// What a command reads, which determines how its reply is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number without identity: a count, a duration or an instant.
    Number,
    /// The server's clock.
    Clock,
    /// The fields of Redisson's lock.
    Holders,
    /// Which of the readers' own keys exist; their names contain the thread.
    Readers,
    /// The counter that grows with each hold.
    FencingToken,
    /// The number of subscribers that wait for a release.
    Listeners,
    /// Text that users write for display: a switch, a pause.
    Text,
    /// A scan of such text.
    Texts,
    /// Instances and their claims.
    Claims,
    /// Instances and their hosts.
    Hosts,
    /// The type of a key.
    Type,
    /// Arbitrary bytes under a configured key.
    Bytes,
    /// An unknown command.
    Other,
}

fn kind(spec: &TaskSpec, words: &[&[u8]]) -> Kind {
    let is_lock = |key: &[u8]| key == spec.lock().key;
    match words {
        [b"TIME"] => Kind::Clock,
        [b"PEXPIRETIME" | b"PTTL", key] if is_lock(key) => Kind::Number,
        [b"HSCAN", key, ..] => scan_kind(spec, key),
        [b"SSCAN", key, ..]
            if !is_lock(key)
                && matches!(source(spec), Some(WantedSource::Set(set)) if set == key) =>
        {
            Kind::Texts
        }
        [b"GETRANGE", key, ..] => text_kind(spec, key),
        [b"EXISTS", key] if is_switch(spec, key) => Kind::Number,
        [b"EXISTS", ..] => Kind::Readers,
        [b"STRLEN" | b"LLEN" | b"SCARD" | b"ZCARD" | b"XLEN", _] => Kind::Number,
        [b"HGET", key, _] if is_progress(spec, key) => Kind::Bytes,
        [b"TYPE", key] if is_progress(spec, key) => Kind::Type,
        [b"PUBSUB", b"NUMSUB" | b"SHARDNUMSUB", ..] => Kind::Listeners,
        _ => Kind::Other,
    }
}

/// If a key is configured for several purposes, the most secret one counts.
fn scan_kind(spec: &TaskSpec, key: &[u8]) -> Kind {
    let wanted = matches!(source(spec), Some(WantedSource::Hash(hash)) if hash == key);
    match spec.lock().scheme {
        _ if key != spec.lock().key => {}
        SchemeKind::Redisson => return Kind::Holders,
        SchemeKind::String => return Kind::Bytes,
    }
    if spec.claims.as_ref().is_some_and(|claims| claims.key == key) {
        Kind::Claims
    } else if spec.hosts.as_deref() == Some(key) {
        Kind::Hosts
    } else if wanted {
        Kind::Texts
    } else {
        Kind::Bytes
    }
}

fn text_kind(spec: &TaskSpec, key: &[u8]) -> Kind {
    let is_text = spec.paused_until.as_deref() == Some(key) || is_switch(spec, key);
    match spec.lock().scheme {
        _ if key == spec.lock().key || is_progress(spec, key) => Kind::Bytes,
        SchemeKind::Redisson if key.starts_with(b"redisson_lock_token:") => Kind::FencingToken,
        _ if is_text => Kind::Text,
        _ => Kind::Bytes,
    }
}

fn source(spec: &TaskSpec) -> Option<&WantedSource> {
    spec.wanted.as_ref().map(|wanted| &wanted.source)
}

fn is_switch(spec: &TaskSpec, key: &[u8]) -> bool {
    match source(spec) {
        Some(WantedSource::Counter(counter)) => counter == key,
        Some(WantedSource::Keys(keys)) => keys.iter().any(|switch| switch == key),
        _ => false,
    }
}

fn is_progress(spec: &TaskSpec, key: &[u8]) -> bool {
    spec.progress.as_ref().is_some_and(|progress| match &progress.source {
        ProgressSource::HashField { key: progress, .. }
        | ProgressSource::Key(progress)
        | ProgressSource::Length(progress) => progress == key,
    })
}

fn command_line(kind: Kind, spec: &TaskSpec, words: &[&[u8]]) -> String {
    let word = |(position, word): (usize, &&[u8])| match kind {
        Kind::Readers if position > 0 => quoted(&reader_key(spec, word)),
        Kind::Other if position > 0 => weighed(word),
        _ => plain(word),
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
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

/// `{key}:<client id>:<thread>:rwlock_timeout:<n>` without the thread.
fn reader_key(spec: &TaskSpec, word: &[u8]) -> String {
    reader_parts(spec, word).unwrap_or_else(|| format!("({} bytes)", word.len()))
}

fn reader_parts(spec: &TaskSpec, word: &[u8]) -> Option<String> {
    let key = spec.lock().key.as_slice();
    let braced = [b"{".as_slice(), key, b"}"].concat();
    let rest = word.strip_prefix(braced.as_slice()).or_else(|| word.strip_prefix(key))?;
    let (stem, entry) = split_at_last_colon(rest.strip_prefix(b":")?)?;
    let field = holder_field(stem.strip_suffix(b":rwlock_timeout")?)?;
    let beginning = word.get(..word.len() - rest.len())?;
    is_number(entry)
        .then(|| format!("{}:{field}:rwlock_timeout:{}", escape(beginning), escape(entry)))
}

/// A reply in its displayed form.
enum Shown {
    Line(String),
    List { items: Vec<Shown>, more: usize },
}

fn shown(kind: Kind, spec: &TaskSpec, words: &[&[u8]], reply: &Reply) -> Shown {
    let scan = |item: &dyn Fn(usize, &Reply) -> String| {
        scanned(reply, item).unwrap_or_else(|| hidden(reply))
    };
    match (kind, reply) {
        (_, Reply::Nil) => line("(nil)"),
        // An error may quote the words of the command.
        (Kind::Readers | Kind::Other, Reply::Error(error)) => {
            Shown::Line(format!("(error) {}", escape(&error.code)))
        }
        (_, Reply::Error(error)) => Shown::Line(
            format!("(error) {} {}", escape(&error.code), escape(&error.detail))
                .trim_end()
                .to_owned(),
        ),
        (Kind::Number | Kind::Readers, Reply::Int(number)) => {
            Shown::Line(format!("(integer) {number}"))
        }
        (Kind::FencingToken, Reply::Bytes(bytes)) if is_number(bytes) || bytes.is_empty() => {
            text(bytes)
        }
        (Kind::Type, Reply::Bytes(bytes))
            if TYPES.contains(&bytes.as_slice()) || bytes == b"none" =>
        {
            text(bytes)
        }
        (Kind::Text, Reply::Bytes(bytes)) => text(bytes),
        (Kind::Clock, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Bytes(bytes) if is_number(bytes) => in_quotes(bytes),
            Reply::Int(number) => format!("(integer) {number}"),
            other => weighed_reply(other),
        }),
        (Kind::Listeners, Reply::Array(items)) => list(items, &|_, item| match item {
            Reply::Bytes(channel) if words.contains(&channel.as_slice()) => in_quotes(channel),
            Reply::Int(number) => format!("(integer) {number}"),
            other => weighed_reply(other),
        }),
        (Kind::Texts, _) => {
            scan(&|_, item| item.as_bytes().map_or_else(|| weighed_reply(item), in_quotes))
        }
        (Kind::Claims, _) => scan(&|position, item| instances(spec, position, item, &weighed)),
        (Kind::Hosts, _) => scan(&|position, item| instances(spec, position, item, &in_quotes)),
        (Kind::Holders, _) => scan(&holders),
        _ => hidden(reply),
    }
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

/// Formats the fields and values of Redisson's lock, which alternate.
fn holders(position: usize, item: &Reply) -> String {
    let Some(bytes) = item.as_bytes() else { return weighed_reply(item) };
    let is_field = position.is_multiple_of(2);
    match bytes {
        b"mode" if is_field => in_quotes(bytes),
        b"read" | b"write" if !is_field => in_quotes(bytes),
        _ if is_field => holder_field(bytes).map_or_else(|| weighed(bytes), |field| framed(&field)),
        _ if is_number(bytes) => in_quotes(bytes),
        _ => weighed(bytes),
    }
}

/// A holder's field, `<client id>:<thread>`, without the thread and what follows it; `None` if the
/// thread cannot be located.
pub(super) fn holder_field(field: &[u8]) -> Option<String> {
    let (field, suffix) = match field.strip_suffix(b":write") {
        Some(field) => (field, ":write"),
        None => (field, ""),
    };
    let (mut client, mut thread) = split_at_last_colon(field)?;
    if !is_number(thread) {
        // A transaction's lock: <client id>:<thread>:<transaction id>.
        (client, thread) = split_at_last_colon(client)?;
    }
    (!client.is_empty() && is_number(thread))
        .then(|| format!("{}:{HIDDEN}{suffix}", escape(client)))
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
            framed(&instance_label(spec, &scheme::of(spec.lock().scheme).instance(bytes)))
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

fn split_at_last_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}

fn is_number(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests;
