//! Small configurations for the targets, selected by a byte.

use std::sync::Arc;

use lockwatch_judge::spec::{
    ClaimsSpec, Codec, LockSpec, ProgressSource, ProgressSpec, StoreIndex, TaskSpec, ValuePath,
    WantedSource, WantedSpec,
};
use lockwatch_watch::redis::accept::{Caps, RoleCheck};
use lockwatch_watch::redis::libraries;

/// The password of every session.
pub(crate) const PASSWORD: &str = "p4ssw0rd-of-nobody";

/// A task with every optional setting; the byte selects the variants.
pub(crate) fn task(choice: u8) -> TaskSpec {
    let library = if choice & 1 == 0 { "redisson" } else { "string" };
    let lock = libraries::lock(b"outbound:lock", library);
    // Only a string may be a field, or name a host.
    let is_field = choice & 0x21 == 0x21;
    let field = is_field.then(|| b"f".to_vec());
    let host = is_field.then(|| ValuePath::Regex("^(.+):".into()));
    let source = match choice >> 1 & 3 {
        0 => WantedSource::Hash(b"users".to_vec()),
        1 => WantedSource::Set(b"users".to_vec()),
        2 => WantedSource::Counter(b"count".to_vec()),
        _ => WantedSource::Keys(vec![b"anna".to_vec(), b"bert".to_vec()]),
    };
    let progress = match (choice >> 3 & 3, choice & 0x80 == 0) {
        (0, true) => {
            Some(ProgressSource::HashField { key: b"stats".to_vec(), field: b"run".to_vec() })
        }
        (0, false) => Some(ProgressSource::Score { key: b"beats".to_vec(), member: b"w".to_vec() }),
        (1, _) => Some(ProgressSource::Key(b"beat".to_vec())),
        (2, true) => Some(ProgressSource::Length(b"queue".to_vec())),
        (2, false) => Some(ProgressSource::Stream(b"log".to_vec())),
        _ => None,
    };
    let codec = Codec::ALL[usize::from(choice >> 5 & 3)];
    TaskSpec {
        wanted: Some(WantedSpec { source, codec }),
        progress: progress
            .map(|source| ProgressSpec { source, moves: None, stale_after_ms: 60_000 }.into()),
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        hosts: Some(b"hosts".to_vec()),
        paused_until: Some(b"pause".to_vec()),
        max_hold_ms: Some(3_600_000),
        ..TaskSpec::new(
            "outbound",
            StoreIndex(0),
            LockSpec { field, host: host.map(Box::new), ..lock },
        )
    }
}

/// A task with only a lock.
pub(crate) fn bare_task(library: &str) -> Arc<TaskSpec> {
    Arc::new(TaskSpec::new("bare", StoreIndex(0), libraries::lock(b"bare:lock", library)))
}

/// The capabilities of a server, selected by the byte.
pub(crate) fn caps(choice: u8) -> Caps {
    let role = match choice >> 1 & 3 {
        0 | 1 => RoleCheck::Role,
        2 => RoleCheck::Info,
        _ => RoleCheck::Assumed,
    };
    Caps {
        pexpiretime: choice & 1 == 0,
        hpexpiretime: false,
        role,
        info: choice & 8 == 0,
        sharded: choice & 16 != 0,
    }
}
