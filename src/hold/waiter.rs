//! Waits for a lock that another client holds: until a message on its channel, or until a timeout,
//! because a holder that died publishes nothing.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};
use tokio::sync::mpsc;

use super::{Access, LeaseError, scripts};

/// A subscription to a lock's channel. Dropping it unsubscribes.
pub struct Waiter {
    /// Kept because the subscription ends with the connection.
    _connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

/// What ended a wait. The lock may already be taken again, so try it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The lock was released.
    Released,
    /// The timeout passed.
    TimeUp,
}

impl Waiter {
    pub(super) async fn subscribe(access: &Access, key: &[u8]) -> Result<Waiter, LeaseError> {
        let (mut connection, pushes) = access.connect_for_pushes().await?;
        connection.subscribe(scripts::channel(key)).await?;
        Ok(Waiter { _connection: connection, pushes })
    }

    /// Waits until the lock is released, at most for `at_most`. Pass the remaining time of the
    /// other hold, because a holder that died publishes nothing. Cancel-safe: no release is missed.
    ///
    /// # Errors
    /// [`LeaseError::SubscriptionEnded`].
    pub async fn released(&mut self, at_most: Duration) -> Result<Woken, LeaseError> {
        match tokio::time::timeout(at_most, self.next_message()).await {
            Ok(Some(())) => Ok(Woken::Released),
            Ok(None) => Err(LeaseError::SubscriptionEnded),
            Err(_) => Ok(Woken::TimeUp),
        }
    }

    /// The next message on the channel, whatever its content; confirmations of the subscription are
    /// skipped. `None` if the connection is gone.
    async fn next_message(&mut self) -> Option<()> {
        while let Some(push) = self.pushes.recv().await {
            match push.kind {
                PushKind::Message => return Some(()),
                PushKind::Disconnection => return None,
                _ => {}
            }
        }
        None
    }
}
