//! Connections to a Redis without a password.

use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};

/// A connection to database 0. Connecting and each reply may take up to `timeout`.
///
/// # Errors
/// When it cannot be made.
pub(crate) async fn connect(
    address: SocketAddr,
    timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    let client = redis::Client::open(format!("redis://{address}/0"))?;
    client.get_multiplexed_async_connection_with_config(&config).await
}
