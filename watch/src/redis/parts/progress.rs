//! A value that the work itself changes: a field of a hash, a string, the length of a collection,
//! a score, or what was added to a stream. When it ends is read, too, because many a heartbeat is a
//! constant value with a renewed TTL.

use alloc::vec::Vec;

use super::fingerprint::fingerprint;
use super::part::Part;
use crate::command;
use crate::redis::accept::{Caps, server_time};
use crate::redis::ask::{Ask, Class};
use crate::redis::codec;
use crate::redis::expiry::{self, Expiry};
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Deadline, Parts, ProgressReading, ProgressValue, Unknown};
use lockwatch_judge::spec::{Key, ProgressSource, TaskSpec};

/// Index of the last byte of a string that is read as progress. The limit fits a status document,
/// but not a queue in a string.
const LAST_BYTE: &str = "16383";
/// Asks for a length.
type LengthAsk = fn(&Key) -> Ask;

/// The types that have a length, each with what reads it. A stream that is kept at one length
/// counts what was ever added.
const LENGTHS: [(&[u8], LengthAsk); 4] = [
    (b"list", |key| Ask::new(Class::Number, command!("LLEN", key))),
    (b"set", |key| Ask::new(Class::Number, command!("SCARD", key))),
    (b"zset", |key| Ask::new(Class::Number, command!("ZCARD", key))),
    (b"stream", |key| Ask::within(Class::Bytes, command!("XINFO", "STREAM", key))),
];

pub(super) struct Progress;

/// The bytes of a progress; `None`: there are none.
type Bytes = Result<Option<Vec<u8>>, Unknown>;
/// When something ends, or why that cannot be read.
type Ends = Result<Deadline, Unknown>;

impl Part for Progress {
    fn asks(&self, spec: &TaskSpec, caps: Caps, out: &mut Vec<Ask>) {
        let Some(source) = spec.progress.as_ref().map(|progress| &progress.source) else { return };
        match source {
            ProgressSource::HashField { key, field } => {
                let names = names(field);
                let mut command = command!("HMGET", key);
                command.args.extend_from_slice(&names);
                out.push(Ask::new(Class::Bytes, command));
                if caps.hpexpiretime {
                    out.push(expiry::of_fields(Class::Number, key, &names));
                }
            }
            ProgressSource::Key(key) => out.extend([
                Ask::new(Class::Number, command!("STRLEN", key)),
                Ask::new(Class::Bytes, command!("GETRANGE", key, "0", LAST_BYTE)),
            ]),
            ProgressSource::Length(key) => out.push(Ask::new(Class::Type, command!("TYPE", key))),
            ProgressSource::Score { key, member } => {
                out.push(Ask::new(Class::Scores, command!("ZSCORE", key, member)));
            }
            ProgressSource::Stream(key) => {
                out.push(Ask::within(Class::Bytes, command!("XINFO", "STREAM", key)));
            }
        }
        expiry::asks(source.key(), caps, out);
        if !caps.pexpiretime {
            // Whether the server was quick enough between the clock and the remaining time.
            out.push(Ask::keyless(Class::Clock, command!("TIME")));
        }
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        let source = &spec.progress.as_ref()?.source;
        let mut own = Ok(Deadline::Never);
        let mut later = None;
        let mut bytes = match source {
            ProgressSource::HashField { .. } => hash_field(caps, replies, &mut own),
            ProgressSource::Key(_) => string(replies.next(), replies.next()),
            ProgressSource::Score { .. } => score(replies.next()),
            ProgressSource::Stream(_) => added(replies.next()),
            ProgressSource::Length(key) => length_of(replies.next()).map(|ask| {
                later = ask.map(|ask| ask(key));
                // Until the length is read.
                later.as_ref().map(|_| Vec::new())
            }),
        };
        let ends = take_ends(caps, replies);
        let mut whole = ends.map(Expiry::deadline);
        if matches!(source, ProgressSource::Key(_)) {
            own = core::mem::replace(&mut whole, Ok(Deadline::Never));
            // An empty string is there, too.
            if bytes == Ok(None) && ends.is_ok_and(|ends| ends != Expiry::Absent) {
                bytes = Ok(Some(Vec::new()));
            }
        }
        into.progress = Some(match bytes {
            Ok(Some(bytes)) => {
                // By itself it shows no movement, so that no right is needed to read it.
                let whole = whole.unwrap_or(Deadline::Torn);
                ProgressReading::Value(ProgressValue { bytes, own, whole })
            }
            Ok(None) => ProgressReading::Absent,
            Err(why) => ProgressReading::Unknown(why),
        });
        later
    }

    fn later_asks(&self, spec: &TaskSpec, out: &mut Vec<Ask>) {
        if let Some(ProgressSource::Length(key)) =
            spec.progress.as_ref().map(|progress| &progress.source)
        {
            out.extend(LENGTHS.iter().map(|(_, ask)| ask(key)));
        }
    }

    fn decode_later(&self, reply: &Reply, into: &mut Parts) {
        let bytes = match reply {
            Reply::Int(length) => Ok(Some(alloc::format!("{length}").into_bytes())),
            reply => added(reply),
        };
        match (bytes, &mut into.progress) {
            (Ok(Some(bytes)), Some(ProgressReading::Value(value))) => value.bytes = bytes,
            (Ok(_), reading) => *reading = Some(ProgressReading::Absent),
            (Err(why), reading) => *reading = Some(ProgressReading::Unknown(why)),
        }
    }

    fn unreadable(&self, why: Unknown, into: &mut Parts) {
        into.progress = Some(ProgressReading::Unknown(why));
    }
}

/// The field by its configured name, then as others may have written it.
fn names(field: &[u8]) -> Vec<Vec<u8>> {
    core::iter::once(field.to_vec()).chain(codec::spellings(field)).collect()
}

/// The first that is there, and when it ends by itself.
fn hash_field(caps: Caps, replies: &mut Replies<'_>, own: &mut Ends) -> Bytes {
    let found = match replies.next() {
        Reply::Array(values) => Ok(values
            .iter()
            .enumerate()
            .find_map(|(name, value)| Some((name, fingerprint(value.as_bytes()?))))),
        Reply::Error(error) => Err(error.into()),
        _ => Err(Unknown::Protocol),
    };
    if caps.hpexpiretime {
        let ends = expiry::take_fields(replies.next());
        let of = |name: usize| {
            let ends = ends.as_ref().map_err(|why| *why)?;
            ends.get(name).copied().map(Expiry::deadline).ok_or(Unknown::Protocol)
        };
        if let Ok(Some((name, _))) = &found {
            *own = of(*name);
        }
    }
    Ok(found?.map(|(_, bytes)| bytes))
}

fn string(length: &Reply, beginning: &Reply) -> Bytes {
    match (length, beginning) {
        (Reply::Int(0), Reply::Bytes(_)) => Ok(None),
        (Reply::Int(length), Reply::Bytes(beginning)) => {
            let mut value = fingerprint(beginning);
            value.extend_from_slice(alloc::format!("+{length}").as_bytes());
            Ok(Some(value))
        }
        (Reply::Error(error), _) | (_, Reply::Error(error)) => Err(error.into()),
        _ => Err(Unknown::Protocol),
    }
}

fn score(reply: &Reply) -> Bytes {
    match reply {
        Reply::Nil => Ok(None),
        Reply::Bytes(score) => Ok(Some(score.clone())),
        Reply::Error(error) => Err(error.into()),
        _ => Err(Unknown::Protocol),
    }
}

/// How many entries were ever added to a stream. Before Redis 7.0 the newest id says the same.
fn added(reply: &Reply) -> Bytes {
    let items = match reply {
        Reply::Array(items) => items,
        Reply::Error(error) if error.detail.starts_with(b"no such key") => return Ok(None),
        Reply::Error(error) => return Err(error.into()),
        _ => return Err(Unknown::Protocol),
    };
    let value = |name: &[u8]| {
        let pair =
            items.chunks(2).find(|pair| pair.first().and_then(Reply::as_bytes) == Some(name));
        match pair?.get(1)? {
            Reply::Int(number) => Some(alloc::format!("{number}").into_bytes()),
            other => other.as_bytes().map(<[u8]>::to_vec),
        }
    };
    let bytes = value(b"entries-added").or_else(|| value(b"last-generated-id"));
    bytes.map(Some).ok_or(Unknown::Protocol)
}

/// What reads the length of a key of this type; `None`: there is no key.
fn length_of(kind: &Reply) -> Result<Option<LengthAsk>, Unknown> {
    match kind {
        Reply::Bytes(kind) if kind == b"none" => Ok(None),
        Reply::Bytes(kind) => {
            let ask = LENGTHS.iter().find(|(known, _)| known == kind);
            ask.map(|(_, ask)| Some(*ask)).ok_or(Unknown::WrongType)
        }
        Reply::Error(error) => Err(error.into()),
        _ => Err(Unknown::Protocol),
    }
}

/// When the key ends.
fn take_ends(caps: Caps, replies: &mut Replies<'_>) -> Result<Expiry, Unknown> {
    let ends = expiry::take(caps, replies);
    match caps.pexpiretime {
        true => ends,
        false => server_time(replies.next()).and_then(|later| Ok(ends?.by(later))),
    }
}
