//! Reads what a deploy script says that it installed: a string key. It is for display.

use alloc::vec::Vec;

use super::part::Part;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::{Parts, Unknown};
use lockwatch_judge::spec::TaskSpec;

pub(super) struct Deployed;

impl Part for Deployed {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        let ask = |key| Ask::new(Class::Text, command!("GETRANGE", key, "0", "63"));
        out.extend(spec.deployed.as_ref().map(ask));
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        spec.deployed.as_ref()?;
        into.deployed = Some(match replies.next() {
            Reply::Bytes(text) => Ok(text.clone()),
            Reply::Error(error) => Err(error.into()),
            _ => Err(Unknown::Protocol),
        });
        None
    }

    /// What was read last stays.
    fn unreadable(&self, _why: Unknown, _into: &mut Parts) {}

    fn is_extra(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::spec::{LockSpec, StoreIndex};

    use super::*;
    use crate::redis::reply::ServerError;

    #[test]
    fn what_was_installed_is_read_if_it_is_configured() {
        let plain = TaskSpec::new("task", StoreIndex(0), LockSpec::new(b"lock", "redisson"));
        let spec = TaskSpec { deployed: Some(b"deployed".to_vec()), ..plain.clone() };
        let mut asks = Vec::new();
        Deployed.asks(&plain, Caps::LEAST, &mut asks);
        assert!(asks.is_empty());
        Deployed.asks(&spec, Caps::LEAST, &mut asks);
        assert_eq!(asks[0].command, command!("GETRANGE", "deployed", "0", "63"));
        let read = |reply| {
            let mut parts = Parts::default();
            Deployed.decode(&spec, Caps::LEAST, &mut Replies::new(&[reply]), &mut parts);
            parts.deployed
        };
        assert_eq!(read(Reply::Bytes(b"v2".to_vec())), Some(Ok(b"v2".to_vec())));
        let refused = ServerError { code: b"NOPERM".to_vec(), detail: Vec::new() };
        assert_eq!(read(Reply::Error(refused)), Some(Err(Unknown::NoPermission)));
        assert_eq!(read(Reply::Int(1)), Some(Err(Unknown::Protocol)));
    }
}
