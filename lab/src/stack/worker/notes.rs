//! What a worker writes besides the lock: its claim and its progress.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::time::interval;

use crate::stack::access::connect;
use crate::stack::redis::REPLY_WITHIN;

/// How often progress is written.
const WORK_EVERY: Duration = Duration::from_millis(500);
/// How often the claim is written.
const CLAIM_EVERY: Duration = Duration::from_secs(1);

/// What a worker writes besides the lock.
#[derive(Clone)]
pub(super) struct Notes {
    redis: SocketAddr,
    connection: Option<MultiplexedConnection>,
    instance: String,
    claims: Option<String>,
    progress: Option<String>,
}

impl Notes {
    pub(super) fn new(
        redis: SocketAddr,
        instance: &str,
        progress: Option<String>,
        claims: Option<String>,
    ) -> Notes {
        Notes { redis, connection: None, instance: instance.to_owned(), claims, progress }
    }

    /// Writes repeatedly, also after Redis was unreachable.
    pub(super) async fn write(mut self, hangs: Arc<AtomicBool>) {
        let (mut work, mut claim) = (interval(WORK_EVERY), interval(CLAIM_EVERY));
        loop {
            let note = tokio::select! {
                _ = work.tick() => self.progress.clone().map(|hash| (hash, "at".to_owned())),
                _ = claim.tick() => self.claims.clone().map(|hash| (hash, self.instance.clone())),
            };
            let Some((hash, field)) = note else { continue };
            if field == self.instance || !hangs.load(Ordering::SeqCst) {
                self.set(&hash, &field).await;
            }
        }
    }

    async fn set(&mut self, hash: &str, field: &str) {
        if self.connection.is_none() {
            self.connection = connect(self.redis, REPLY_WITHIN).await.ok();
        }
        let Some(connection) = &mut self.connection else { return };
        if connection.hset(hash, field, unix_ms()).await.is_err() {
            self.connection = None;
        }
    }

    pub(super) async fn withdraw(&mut self) {
        let Some(claims) = &self.claims else { return };
        if let Ok(mut connection) = connect(self.redis, REPLY_WITHIN).await {
            let _stays_if_redis_is_away = connection.hdel(claims, &self.instance).await;
        }
    }
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}
