//! Finds locks that are subscriptions to a channel: portalocker's `RedisLock`, which has no key.

use lockwatch_watch::command;
use lockwatch_watch::redis::libraries::shape::ends_as_a_lock;
use lockwatch_watch::redis::reply::Reply;

use super::findings::Findings;
use super::name::yaml;
use super::print::Relative;
use super::server::Server;
use crate::config::KEY_BYTES_MAX;
use crate::io::{Connection, Failure};

/// Maximum number of channels of a server whose channels are listed.
const CHANNELS_MAX: u64 = 1_000;
/// Of many channels only some are locks: maximum number that is proposed.
const PROPOSED_MAX: usize = 20;

/// The channels that are named like locks, and that somebody listens to.
pub(super) async fn look(
    connection: &Connection,
    server: &Server,
    findings: &Findings,
) -> Result<Vec<Relative>, Failure> {
    // A channel of a cluster is at home on no server, so lockwatch reads none.
    let are_few = server.channels.is_some_and(|count| (1..=CHANNELS_MAX).contains(&count));
    if !are_few || server.in_cluster {
        return Ok(Vec::new());
    }
    let replies = connection.exec(&[command!("PUBSUB", "CHANNELS")]).await?;
    // Who may not list channels does without.
    let channels = replies.first().and_then(Reply::as_array).unwrap_or_default();
    let mut named: Vec<&[u8]> = channels.iter().filter_map(Reply::as_bytes).collect();
    named.retain(|channel| may_be_a_lock(channel, findings));
    named.sort_unstable();
    named.truncate(PROPOSED_MAX);
    Ok(named.into_iter().map(relative).collect())
}

/// Other libraries announce by a channel that a lock was released, whose key is there then.
fn may_be_a_lock(channel: &[u8], findings: &Findings) -> bool {
    let contains = |key: &[u8]| !key.is_empty() && channel.windows(key.len()).any(|at| at == key);
    (1..=KEY_BYTES_MAX).contains(&channel.len())
        && ends_as_a_lock(channel)
        && !findings.examples().any(contains)
}

fn relative(channel: &[u8]) -> Relative {
    let block = format!("lock: {{key: {}, library: channel}}", yaml(channel));
    let text = "A channel that somebody listens to. It is a lock of portalocker if each listener \
                holds it, and none if it only announces something."
        .to_owned();
    Relative { key: channel.to_vec(), block, text, locks: Vec::new() }
}
