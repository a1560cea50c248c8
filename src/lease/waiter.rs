//! Waiting for somebody else's lock: told by its channel, or by the clock when nobody is left to
//! tell.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};
use tokio::sync::mpsc;

use super::{Access, LeaseError, scripts};

/// A subscription to a lock's channel. It ends when this is dropped.
pub struct Waiter {
    /// Never used again, but the subscription lives as long as it does.
    _connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

/// What ended a wait. The lock may be taken again already: try it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The lock was released.
    Released,
    /// The time was up.
    TimeUp,
}

impl Waiter {
    pub(super) async fn subscribe(access: &Access, key: &[u8]) -> Result<Waiter, LeaseError> {
        let (mut connection, pushes) = access.connect_for_pushes().await?;
        connection.subscribe(scripts::channel(key)).await?;
        Ok(Waiter { _connection: connection, pushes })
    }

    /// Waits until the lock is released, at most for `at_most`: what is left of the other's hold,
    /// because a holder that died tells nobody. May be cancelled; no release is missed by that.
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

    /// `None` when the connection is gone. Confirmations of the subscription are no news; any
    /// message is, whatever it says.
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
