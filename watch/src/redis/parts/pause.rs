//! Reads the time until which a deploy script wants alerts to wait: Unix seconds or an RFC 3339
//! time in a string key.

use alloc::vec::Vec;

use super::part::Part;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::instant;
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Parts, PauseReading, Unknown};
use lockwatch_judge::spec::TaskSpec;

pub(super) struct Pause;

impl Part for Pause {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        let ask = |key| Ask::new(Class::Text, command!("GETRANGE", key, "0", "63"));
        out.extend(spec.paused_until.as_ref().map(ask));
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        spec.paused_until.as_ref()?;
        into.pause = Some(decode(replies.next()));
        None
    }

    fn unreadable(&self, why: Unknown, into: &mut Parts) {
        into.pause = Some(PauseReading::Unknown(why));
    }

    fn is_watched(&self) -> bool {
        true
    }
}

/// Decodes the key's value.
fn decode(reply: &Reply) -> PauseReading {
    match reply {
        Reply::Bytes(text) if text.is_empty() => PauseReading::None,
        Reply::Bytes(text) => match instant::seconds_or_rfc3339(text.trim_ascii()) {
            Some(until) => PauseReading::Until(until),
            None => PauseReading::Undecodable,
        },
        Reply::Error(error) => PauseReading::Unknown(error.into()),
        _ => PauseReading::Unknown(Unknown::Protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_pauses_nothing() {
        assert_eq!(decode(&Reply::Bytes(b"soon".to_vec())), PauseReading::Undecodable);
        assert_eq!(decode(&Reply::Bytes(Vec::new())), PauseReading::None);
        let refused = Reply::Error(crate::redis::reply::ServerError {
            code: b"NOPERM".to_vec(),
            detail: Vec::new(),
        });
        assert_eq!(decode(&refused), PauseReading::Unknown(Unknown::NoPermission));
        assert_eq!(decode(&Reply::Int(1)), PauseReading::Unknown(Unknown::Protocol));
    }
}
