//! Finds the master of each Redis as a client does: the server that most Sentinels name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::guard::connect;
use super::header::RedisEntry;

/// The name of the master in the Sentinels' configuration.
pub(super) const MASTER: &str = "cell";
const ASK_EVERY: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

/// The master of a Redis, updated on each change. Without Sentinels it is the only server.
pub(super) fn follow(redis: &RedisEntry) -> watch::Receiver<Option<SocketAddr>> {
    let first = redis.servers.first().map(|server| server.address);
    let (tell, master) = watch::channel(first);
    if !redis.sentinels.is_empty() {
        let sentinels: Vec<SocketAddr> =
            redis.sentinels.iter().map(|sentinel| sentinel.address).collect();
        tokio::spawn(async move {
            while !tell.is_closed() {
                if let Some(named) = majority(&sentinels).await {
                    tell.send_if_modified(|known| known.replace(named) != Some(named));
                }
                sleep(ASK_EVERY).await;
            }
        });
    }
    master
}

/// The server that more than half of these Sentinels name.
pub(super) async fn majority(sentinels: &[SocketAddr]) -> Option<SocketAddr> {
    let mut votes: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    for sentinel in sentinels {
        if let Ok(Some(named)) = timeout(ANSWER_WITHIN, vote(*sentinel)).await {
            *votes.entry(named).or_default() += 1;
        }
    }
    votes.into_iter().find(|(_, count)| *count * 2 > sentinels.len()).map(|(named, _)| named)
}

async fn vote(sentinel: SocketAddr) -> Option<SocketAddr> {
    let mut connection = connect(sentinel).await.ok()?;
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER);
    let (host, port): (String, u16) = ask.query_async(&mut connection).await.ok()?;
    format!("{host}:{port}").parse().ok()
}
