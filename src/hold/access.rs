//! How a worker reaches Redis: with its own credentials and a timeout on every wait.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, RedisError};
use tokio::sync::mpsc;

/// A server and how to connect to it.
#[derive(Clone, Debug)]
pub struct Access {
    server: ConnectionInfo,
    timeout: Duration,
}

impl Access {
    /// Access to `server`; connecting and each reply may take up to `timeout`.
    pub fn new(server: ConnectionInfo, timeout: Duration) -> Access {
        let server = server.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Access { server, timeout }
    }

    /// A new connection for commands.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        Client::open(self.server.clone())?
            .get_multiplexed_async_connection_with_config(&self.config())
            .await
    }

    /// Opens a connection that receives pushes, for subscriptions. Needs RESP3 (Redis 6).
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub(super) async fn connect_for_pushes(
        &self,
    ) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), RedisError> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let settings = self.server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(self.server.clone().set_redis_settings(settings))?;
        let connection = client
            .get_multiplexed_async_connection_with_config(&self.config().set_push_sender(sender))
            .await?;
        Ok((connection, pushes))
    }

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout))
    }
}
