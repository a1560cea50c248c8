//! Holding a lock under Redisson's `RLock` protocol: same key, field, count and channel, so that
//! Java services and these workers can contend for one lock. This writes to Redis; nothing of the
//! agent uses it.

mod access;
mod holder;
mod scripts;
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
pub use holder::Holder;
pub use waiter::{Waiter, Woken};
pub use watchdog::{Lost, Watchdog};

/// A lease cannot be shorter: its third, the watchdog's period, would be nothing.
const SHORTEST_LEASE: Duration = Duration::from_millis(3);

/// Why something could not be done with a lock.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Redis could not be reached, or it refused. After an acquisition that failed so, the lock may
    /// still have been taken: then it stays until its lease runs out.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
    /// The subscription to the lock's channel ended.
    #[error("the subscription to the lock's channel ended: the connection was lost")]
    SubscriptionEnded,
}

/// One lock as one holder sees it. Clones share the holder and the connection.
#[derive(Clone)]
pub struct Lock {
    access: Access,
    key: Arc<[u8]>,
    holder: Holder,
    lease: Duration,
    /// Dialled when first needed, and again after any failure: no late reply may ever match another
    /// question.
    connection: Arc<Mutex<Option<MultiplexedConnection>>>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({} of {:?})", self.key.escape_ascii(), self.holder)
    }
}

/// The answer to an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The lock is ours.
    Acquired(Acquired),
    /// Somebody else holds it.
    Busy {
        /// What is left of that hold, unless it is renewed; `None`: it has no TTL.
        ttl_ms: Option<u64>,
    },
}

/// A lock that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// How often this holder has taken it and not yet released it, this time included.
    pub entries: u64,
    /// Until when it is certainly held, unless somebody deletes it: counted from before the request
    /// was sent.
    pub held_until: Instant,
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock is free now, and waiters were told.
    Freed,
    /// It was taken several times; so many releases are still due.
    StillHeld {
        /// Entries that are left, at least 1.
        entries: u64,
    },
    /// It was not ours (any more).
    NotOurs,
}

impl Lock {
    /// The lock under `key`, to be held by `holder` for `lease` from each acquisition or renewal
    /// on. Sends nothing yet. A lease below 3 ms counts as 3 ms.
    pub fn new(access: Access, key: &[u8], holder: Holder, lease: Duration) -> Lock {
        Lock {
            access,
            key: key.into(),
            holder,
            lease: lease.max(SHORTEST_LEASE),
            connection: Arc::default(),
        }
    }

    /// The full lifetime of a hold.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Takes the lock if it is free or already ours, and starts its lease anew.
    ///
    /// Not to be cancelled half-way: the lock may then have been taken without anybody knowing,
    /// until its lease runs out.
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn acquire(&self) -> Result<Attempt, LeaseError> {
        let sent = Instant::now();
        let (taken, number): (bool, i64) =
            self.ask(&scripts::acquire(&self.key, &self.holder, self.lease)).await?;
        // Taken: the number of entries, at least 1. Not taken: its PTTL, where a negative one means
        // that there is none.
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

    /// Starts the lease anew; `false` if the lock is not ours (any more), and then nothing was
    /// changed.
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn renew(&self) -> Result<bool, LeaseError> {
        self.ask(&scripts::renew(&self.key, &self.holder, self.lease)).await
    }

    /// Takes back one acquisition; the last one frees the lock and wakes whoever waits for it.
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

    /// Subscribes to the lock's channel, to be told of its release. Try the lock once more before
    /// waiting: it may have been released just before the subscription.
    ///
    /// # Errors
    /// [`LeaseError::Redis`].
    pub async fn waiter(&self) -> Result<Waiter, LeaseError> {
        Waiter::subscribe(&self.access, &self.key).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LeaseError> {
        let mut slot = self.connection.lock().await;
        // Taken out, so that a failure or a cancellation leaves no connection behind that still
        // owes a reply.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.access.connect().await?,
        };
        let reply = command.query_async(&mut connection).await?;
        *slot = Some(connection);
        Ok(reply)
    }
}
