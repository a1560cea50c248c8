//! Clients that replace holders without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use redis::aio::MultiplexedConnection;
use redis::pipe;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::hold::{deadline_ms, instance};
use crate::stack::Redis;

/// Pause of a writer, so that other stages on the machine have their share of it.
const PAUSE: Duration = Duration::from_millis(1);

/// The writers; they end when dropped.
#[derive(Debug)]
pub(super) struct Writers {
    writing: JoinSet<anyhow::Result<()>>,
    written: Arc<AtomicU64>,
}

/// An action of a writer on a lock.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Another holder at once, as after a release and an acquisition between two readings.
    Replace,
    /// Free for a moment, then another holder.
    ReleaseAndTake,
    /// The deadline changes, the holder stays.
    Renew,
}

const ACTS: [Act; 6] =
    [Act::Replace, Act::Replace, Act::Replace, Act::Replace, Act::ReleaseAndTake, Act::Renew];

impl Writers {
    /// Starts `count` writers, each with locks of its own. Every lock is held when this returns.
    pub(super) async fn start(
        redis: &Redis,
        locks: Vec<String>,
        writers: usize,
    ) -> anyhow::Result<Writers> {
        let (written, numbers) = (Arc::<AtomicU64>::default(), Arc::<AtomicI64>::default());
        let mut writing = JoinSet::new();
        for writer in 0..writers.max(1) {
            let mut connection = redis.connect().await?;
            let own = locks.iter().skip(writer).step_by(writers.max(1));
            let mut own: Vec<(String, i64)> = own.map(|key| (key.clone(), 0)).collect();
            for (key, number) in &mut own {
                *number = act(&mut connection, key, *number, Act::Replace, &numbers).await?;
            }
            let (written, numbers) = (Arc::clone(&written), Arc::clone(&numbers));
            writing.spawn(async move {
                loop {
                    for (key, number) in &mut own {
                        let what = fastrand::choice(ACTS).context("nothing to do")?;
                        *number = act(&mut connection, key, *number, what, &numbers).await?;
                        written.fetch_add(1, Ordering::Relaxed);
                        sleep(PAUSE).await;
                    }
                }
            });
        }
        Ok(Writers { writing, written })
    }

    /// Stops them; returns the number of writes.
    pub(super) fn stop(mut self) -> u64 {
        self.writing.abort_all();
        self.written.load(Ordering::Relaxed)
    }
}

/// Performs the action; returns the number of the resulting hold.
async fn act(
    connection: &mut MultiplexedConnection,
    key: &str,
    held: i64,
    what: Act,
    numbers: &AtomicI64,
) -> anyhow::Result<i64> {
    let now_ms = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    if matches!(what, Act::Renew) {
        pipe().pexpire_at(key, deadline_ms(held, now_ms)).exec_async(connection).await?;
        return Ok(held);
    }
    if matches!(what, Act::ReleaseAndTake) {
        pipe().del(key).exec_async(connection).await?;
    }
    let number = numbers.fetch_add(1, Ordering::Relaxed);
    let mut commands = pipe();
    commands.atomic().del(key).hset(key, format!("{}:1", instance(number)), 1);
    commands.pexpire_at(key, deadline_ms(number, now_ms)).exec_async(connection).await?;
    Ok(number)
}
