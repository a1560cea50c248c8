//! When a key ends, or a field of a hash: what is asked, and what the replies say.

use alloc::vec::Vec;

use crate::command;
use crate::redis::accept::{Caps, server_time};
use crate::redis::ask::{Ask, Class};
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Deadline, Unknown};
use lockwatch_judge::time::ServerTime;

/// Maximum error of a deadline computed from `PTTL` on servers without `PEXPIRETIME`, in
/// milliseconds. The computed deadline can be too early by this much.
const PTTL_TOLERANCE_MS: i64 = 2;
/// Latest deadline that is kept: the year 292,278,994 in milliseconds. Later ones count as never,
/// and would overflow the arithmetic.
const LAST_DEADLINE_MS: i64 = 9_223_372_036_854_775;

/// When a key or a field ends, by one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It is not there.
    Absent,
    /// It has no TTL.
    Never,
    /// At this instant, in milliseconds.
    At(i64),
    /// Computed from the remaining time and the server's clock before it. It is too early by the
    /// time between the two.
    Reckoned { now: ServerTime, at: i64 },
}

impl Expiry {
    /// The common deadline of two replies around a value, if they agree.
    pub(crate) fn agreed(before: Expiry, after: Expiry) -> Option<Expiry> {
        match (before, after) {
            (Expiry::Reckoned { now, at }, Expiry::Reckoned { now: later, at: again }) => {
                // On a server that is slow with each command, both are equally wrong.
                let is_quick = is_quick(now, later);
                let is_one = at.saturating_sub(again).saturating_abs() <= PTTL_TOLERANCE_MS;
                (is_quick && is_one).then_some(Expiry::At(at.max(again)))
            }
            _ => (before == after).then_some(after),
        }
    }
    /// The same, if the server had reached only `later` when it had answered.
    pub(crate) fn by(self, later: ServerTime) -> Expiry {
        match self {
            Expiry::Reckoned { now, at } if is_quick(now, later) => Expiry::At(at),
            other => other,
        }
    }

    /// The same where the value is known to be there, to the millisecond.
    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Expiry::At(at) => Deadline::At(ServerTime::at(at)),
            Expiry::Never => Deadline::Never,
            Expiry::Absent | Expiry::Reckoned { .. } => Deadline::Torn,
        }
    }
}

fn is_quick(now: ServerTime, later: ServerTime) -> bool {
    later.since_ms(now) <= PTTL_TOLERANCE_MS
}

/// Asks when a key ends.
pub(crate) fn asks(key: &[u8], caps: Caps, out: &mut Vec<Ask>) {
    if caps.pexpiretime {
        out.push(Ask::new(Class::Number, command!("PEXPIRETIME", key)));
    } else {
        out.push(Ask::keyless(Class::Clock, command!("TIME")));
        out.push(Ask::new(Class::Number, command!("PTTL", key)));
    }
}

/// Decodes the replies to [`asks`].
///
/// # Errors
/// Why they are no answer.
pub(crate) fn take(caps: Caps, replies: &mut Replies<'_>) -> Result<Expiry, Unknown> {
    let now = match caps.pexpiretime {
        true => None,
        false => Some(server_time(replies.next())?),
    };
    match (replies.next(), now) {
        (Reply::Int(left), Some(now)) if *left >= 0 => {
            Ok(Expiry::Reckoned { now, at: now.ms().saturating_add(*left).min(LAST_DEADLINE_MS) })
        }
        (reply, _) => of(reply),
    }
}

/// Asks when fields of a hash end. Only for servers with [`Caps::hpexpiretime`]. `class`: of the
/// names of the fields.
pub(crate) fn of_fields(class: Class, key: &[u8], fields: &[Vec<u8>]) -> Ask {
    let mut command = command!("HPEXPIRETIME", key, "FIELDS", alloc::format!("{}", fields.len()));
    command.args.extend_from_slice(fields);
    Ask::new(class, command)
}

/// Decodes the reply to [`of_fields`]: as many as there were fields.
///
/// # Errors
/// Why it is no answer.
pub(crate) fn take_fields(reply: &Reply) -> Result<Vec<Expiry>, Unknown> {
    match reply {
        Reply::Error(error) => Err(error.into()),
        Reply::Array(fields) => fields.iter().map(of).collect(),
        _ => Err(Unknown::Protocol),
    }
}

fn of(reply: &Reply) -> Result<Expiry, Unknown> {
    match reply {
        Reply::Int(-2) => Ok(Expiry::Absent),
        Reply::Int(-1) => Ok(Expiry::Never),
        Reply::Int(at) => Ok(Expiry::At((*at).min(LAST_DEADLINE_MS))),
        Reply::Error(error) => Err(error.into()),
        _ => Err(Unknown::Protocol),
    }
}
