//! The announcements of a lock's releases.

use std::net::SocketAddr;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError};
use tokio::sync::mpsc;

/// A subscription to a lock's channel. Dropping it unsubscribes.
pub(super) struct Releases {
    /// Kept because the subscription ends with the connection.
    _connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Releases {
    /// Subscribes.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(super) async fn of(redis: SocketAddr, channel: &[u8]) -> Result<Releases, RedisError> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        let client = redis::Client::open(format!("redis://{redis}/0?protocol=resp3"))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        connection.subscribe(channel).await?;
        Ok(Releases { _connection: connection, pushes })
    }

    /// Waits for the next release; `None`: the connection is gone.
    pub(super) async fn next(&mut self) -> Option<()> {
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
