//! What the Redis user of a guard must be allowed to do.

use lockwatch_judge::spec::{ProgressSource, TaskSpec};
use lockwatch_watch::redis::switches_asks;

use crate::commands::rule::pattern;
use crate::hold::Rights;

/// The connections: login, name, role; announcements of changes.
const CONNECTIONS: [&str; 7] =
    ["auth", "client|setname", "client|tracking", "hello", "role", "subscribe", "unsubscribe"];

/// What a guard of this task does, and `lockwatch fence` in its script. `reports`: whether the
/// guard writes the task's progress.
pub(in crate::commands) fn rights(spec: &TaskSpec, reports: bool, is_cluster: bool) -> Rights {
    let mut rights = Rights::of_lock(spec.kind.key(), is_cluster);
    // Who has it, for the last line of a guard that gives up.
    rights.add(&["hscan"], spec.kind.key());
    rights.commands.extend(CONNECTIONS.map(str::to_owned));
    for ask in switches_asks(spec) {
        rights.add(&[&ask.name()], ask.key().unwrap_or_default());
    }
    if let Some(hosts) = &spec.hosts {
        rights.add(&["hget", "hset"], hosts);
    }
    if let Some(claims) = &spec.claims {
        rights.add(&["hset", "hdel", "hscan", "time"], &claims.key);
    }
    match spec.progress.as_ref().filter(|_| reports).map(|progress| &progress.source) {
        Some(ProgressSource::HashField { key, .. }) => rights.add(&["hset"], key),
        Some(ProgressSource::Key(key)) => rights.add(&["set"], key),
        Some(
            ProgressSource::Length(_) | ProgressSource::Score { .. } | ProgressSource::Stream(_),
        )
        | None => {}
    }
    rights
}

/// The words of an ACL rule for them, and whether a pattern matches more than its key or channel.
pub(in crate::commands) fn words(rights: &Rights) -> (Vec<Vec<u8>>, bool) {
    let mut widened = false;
    let mut of = |sign: &str, name: &[u8]| {
        let (pattern, matches_more) = pattern(name);
        widened |= matches_more;
        [sign.as_bytes(), &pattern].concat()
    };
    let keys: Vec<_> = rights.keys.iter().map(|key| of("~", key)).collect();
    let channels: Vec<_> = rights.channels.iter().map(|channel| of("&", channel)).collect();
    let commands = rights.commands.iter().map(|command| format!("+{command}").into_bytes());
    (commands.chain(keys).chain(channels).collect(), widened)
}
