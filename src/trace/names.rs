//! The names of holders and instances inside replies, without what a lock could be released with.

use std::borrow::Cow;

use lockwatch_judge::spec::{SchemeKind, TaskSpec};

use crate::text::identity::{digest, escape};

/// The replacement for a holder's thread: a client that knows client id and thread can release the
/// lock.
const HIDDEN: &str = "…";

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

/// The display name of an instance in the claims or the hosts. If the lock's value is a secret, an
/// instance may use it as its name.
pub(super) fn instance_label<'a>(spec: &TaskSpec, instance: &'a [u8]) -> Cow<'a, str> {
    match spec.lock.scheme {
        SchemeKind::String => Cow::Owned(digest(instance)),
        SchemeKind::Redisson => holder_field(instance).map_or_else(|| escape(instance), Cow::Owned),
    }
}

pub(super) fn split_at_last_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    Some((bytes.get(..colon)?, bytes.get(colon + 1..)?))
}

pub(super) fn is_number(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit)
}
