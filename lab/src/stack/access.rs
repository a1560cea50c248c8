//! Connections to a Redis without a password, and guards' clients for locks in it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use lockwatch::config::Config;
use lockwatch::hold::store::Store;
use lockwatch::hold::{Client, Holder};
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

/// The client with which a guard takes the lock under `key` in database 0, for a program that
/// misbehaves as no guard does. Connecting and each reply may take up to `timeout`.
///
/// # Errors
/// Never in practice.
pub(crate) fn lock_client(
    address: SocketAddr,
    key: &str,
    holder: Holder,
    lease: Duration,
    timeout: Duration,
) -> anyhow::Result<Client> {
    let text = format!(
        "redis: {{main: {{url: \"redis://{address}/0\"}}}}\n\
         tasks: [{{name: lab, lock: {{key: lab}}, wanted: always}}]\n"
    );
    let config = Config::parse(&text, Path::new("lab.yml"))?;
    let redis = config.redises.into_iter().next().context("no redis is configured")?;
    let login = redis.login.clone();
    let lease_ms = u64::try_from(lease.as_millis())?;
    Ok(Client::new(Store::new(redis, login, timeout), key.into(), holder, lease_ms, false))
}
