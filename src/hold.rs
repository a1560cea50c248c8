//! Takes and holds a lock under Redisson's `RLock` protocol: same key, field, count and channel, so
//! that Java services and these workers can contend for one lock. This module writes to Redis; the
//! agent does not use it.

mod access;
mod client;
mod holder;
mod rights;
mod scripts;
pub mod store;
mod waiter;
mod watchdog;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisError};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use access::Access;
pub use client::{Client, Trouble};
pub use holder::Holder;
pub use rights::Rights;
pub use waiter::{Waiter, Woken};
pub use watchdog::{Lost, Watchdog};

/// The channel on which a release of the lock under `key` is announced.
pub fn unlock_channel(key: &[u8]) -> Vec<u8> {
    scripts::channel(key)
}

/// Minimum lease. The watchdog renews every third of a lease, so a shorter one would leave a period
/// of less than 1 ms.
const SHORTEST_LEASE: Duration = Duration::from_millis(3);

/// Why an operation on a lock failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Redis could not be reached, or it refused the command. If an acquisition failed this way,
    /// the lock may still have been taken: then it stays until its lease runs out.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
    /// The subscription to the lock's channel ended.
    #[error("the subscription to the lock's channel ended: the connection was lost")]
    SubscriptionEnded,
}

/// One lock from the point of view of one holder. Clones share the holder and the connection.
#[derive(Clone)]
pub struct Lock {
    access: Access,
    key: Arc<[u8]>,
    holder: Holder,
    lease: Duration,
    /// Connected on first use, and again after any failure, so that no late reply can match another
    /// request.
    connection: Arc<Mutex<Option<MultiplexedConnection>>>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({} of {:?})", self.key.escape_ascii(), self.holder)
    }
}

/// The result of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// This holder has the lock.
    Acquired(Acquired),
    /// Another holder has the lock.
    Busy {
        /// Remaining time of that hold in milliseconds, unless it is renewed; `None`: it has no
        /// TTL.
        ttl_ms: Option<u64>,
    },
}

/// A lock that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// Number of times this holder has taken the lock without releasing it, including this one.
    pub entries: u64,
    /// The lock is certainly held until this instant, unless the key is deleted. Counted from
    /// before the request was sent.
    pub held_until: Instant,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock is free, and waiters were notified.
    Freed,
    /// The lock was taken several times; more releases are due.
    StillHeld {
        /// Remaining entries, at least 1.
        entries: u64,
    },
    /// This holder does not hold the lock (any more).
    NotOurs,
}

impl Lock {
    /// Makes a handle for the lock under `key`, held by `holder` for `lease` after each acquisition
    /// or renewal. Sends nothing yet. A lease below 3 ms counts as 3 ms.
    pub fn new(access: Access, key: &[u8], holder: Holder, lease: Duration) -> Lock {
        Lock {
            access,
            key: key.into(),
            holder,
            lease: lease.max(SHORTEST_LEASE),
            connection: Arc::default(),
        }
    }

    /// The lifetime of a hold after an acquisition or renewal.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Takes the lock if it is free or already held by this holder, and restarts its lease.
    ///
    /// Do not cancel this future: the lock may then have been taken without the caller knowing,
    /// until its lease runs out.
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn acquire(&self) -> Result<Attempt, LeaseError> {
        let sent = Instant::now();
        let (taken, number): (bool, i64) =
            self.ask(&scripts::acquire(&self.key, &self.holder, self.lease)).await?;
        // Taken: the number of entries, at least 1. Not taken: the PTTL of the key, which is
        // negative if it has none.
        let number = u64::try_from(number).ok();
        Ok(if taken {
            Attempt::Acquired(Acquired {
                entries: number.unwrap_or_default(),
                held_until: sent + self.lease,
            })
        } else {
            Attempt::Busy { ttl_ms: number }
        })
    }

    /// Restarts the lease. Returns `false`, and changes nothing, if this holder does not hold the
    /// lock (any more).
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn renew(&self) -> Result<bool, LeaseError> {
        self.ask(&scripts::renew(&self.key, &self.holder, self.lease)).await
    }

    /// Undoes one acquisition; the last release frees the lock and notifies its waiters.
    ///
    /// # Errors
    /// [`LeaseError::Redis`]; the lock is then free at the latest when its lease has run out.
    pub async fn release(&self) -> Result<Release, LeaseError> {
        let left: i64 = self.ask(&scripts::release(&self.key, &self.holder, self.lease)).await?;
        Ok(match u64::try_from(left) {
            Ok(0) => Release::Freed,
            Ok(entries) => Release::StillHeld { entries },
            Err(_) => Release::NotOurs,
        })
    }

    /// Subscribes to the lock's channel to learn of its release. Try the lock once more before
    /// waiting: it may have been released just before the subscription.
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn waiter(&self) -> Result<Waiter, LeaseError> {
        Waiter::subscribe(&self.access, &self.key).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LeaseError> {
        let mut slot = self.connection.lock().await;
        // Taken out, so that a failure or a cancellation never leaves a connection behind that
        // still owes a reply.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.access.connect().await?,
        };
        let reply = command.query_async(&mut connection).await?;
        *slot = Some(connection);
        Ok(reply)
    }
}
