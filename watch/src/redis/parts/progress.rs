//! A value that the work itself changes: a field of a hash, a string, or the length of a
//! collection.

use alloc::vec::Vec;

use super::Part;
use super::fingerprint::fingerprint;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::codec;
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Beside, ProgressReading, Unknown};
use lockwatch_judge::spec::{ProgressSource, TaskSpec};

/// Index of the last byte of a string that is read as progress. The limit fits a status document,
/// but not a queue in a string.
const LAST_BYTE: &str = "16383";
/// The types that have a length, each with the command that reads it.
const LENGTHS: [(&[u8], &str); 4] =
    [(b"list", "LLEN"), (b"set", "SCARD"), (b"zset", "ZCARD"), (b"stream", "XLEN")];

pub(super) struct Progress;

impl Part for Progress {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        match spec.progress.as_ref().map(|progress| &progress.source) {
            Some(ProgressSource::HashField { key, field }) => {
                let mut command = command!("HMGET", key, field);
                command.args.extend(codec::spellings(field));
                out.push(Ask::new(Class::Bytes, command));
            }
            Some(ProgressSource::Key(key)) => out.extend([
                Ask::new(Class::Number, command!("STRLEN", key)),
                Ask::new(Class::Bytes, command!("GETRANGE", key, "0", LAST_BYTE)),
            ]),
            Some(ProgressSource::Length(key)) => {
                out.push(Ask::new(Class::Type, command!("TYPE", key)));
            }
            None => {}
        }
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Beside,
    ) -> Option<Ask> {
        let (reading, later) = match &spec.progress.as_ref()?.source {
            ProgressSource::HashField { .. } => (hash_field(replies.next()), None),
            ProgressSource::Key(_) => (string(replies.next(), replies.next()), None),
            ProgressSource::Length(key) => match length_command(replies.next()) {
                Ok(command) => {
                    (ProgressReading::Unknown(Unknown::NotReadYet), Some(length(command, key)))
                }
                Err(reading) => (reading, None),
            },
        };
        into.progress = Some(reading);
        later
    }

    fn later_asks(&self, spec: &TaskSpec, out: &mut Vec<Ask>) {
        if let Some(ProgressSource::Length(key)) =
            spec.progress.as_ref().map(|progress| &progress.source)
        {
            out.extend(LENGTHS.iter().map(|(_, command)| length(command, key)));
        }
    }

    fn decode_later(&self, reply: &Reply, into: &mut Beside) {
        into.progress = Some(match reply {
            Reply::Int(length) => ProgressReading::Value(alloc::format!("{length}").into_bytes()),
            Reply::Error(error) => ProgressReading::Unknown(error.into()),
            _ => ProgressReading::Unknown(Unknown::Protocol),
        });
    }

    fn unreadable(&self, why: Unknown, into: &mut Beside) {
        into.progress = Some(ProgressReading::Unknown(why));
    }
}

fn length(command: &str, key: &[u8]) -> Ask {
    Ask::new(Class::Number, command!(command, key))
}

/// The first that is there: the field by its configured name, then as others may have written it.
fn hash_field(reply: &Reply) -> ProgressReading {
    match reply {
        Reply::Array(values) => values
            .iter()
            .find_map(Reply::as_bytes)
            .map_or(ProgressReading::Absent, |value| ProgressReading::Value(fingerprint(value))),
        Reply::Error(error) => ProgressReading::Unknown(error.into()),
        _ => ProgressReading::Unknown(Unknown::Protocol),
    }
}

fn string(length: &Reply, beginning: &Reply) -> ProgressReading {
    match (length, beginning) {
        (Reply::Int(0), Reply::Bytes(_)) => ProgressReading::Absent,
        (Reply::Int(length), Reply::Bytes(beginning)) => {
            let mut value = fingerprint(beginning);
            value.extend_from_slice(alloc::format!("+{length}").as_bytes());
            ProgressReading::Value(value)
        }
        (Reply::Error(error), _) | (_, Reply::Error(error)) => {
            ProgressReading::Unknown(error.into())
        }
        _ => ProgressReading::Unknown(Unknown::Protocol),
    }
}

/// The command that reads the length of a key of this type.
fn length_command(kind: &Reply) -> Result<&'static str, ProgressReading> {
    match kind {
        Reply::Bytes(kind) if kind == b"none" => Err(ProgressReading::Absent),
        Reply::Bytes(kind) => LENGTHS
            .iter()
            .find(|(known, _)| known == kind)
            .map(|(_, command)| *command)
            .ok_or(ProgressReading::Unknown(Unknown::WrongType)),
        Reply::Error(error) => Err(ProgressReading::Unknown(error.into())),
        _ => Err(ProgressReading::Unknown(Unknown::Protocol)),
    }
}
