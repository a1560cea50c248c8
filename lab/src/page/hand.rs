//! Writes locks as Redisson does, for simulated holders: a thousand workers would need a thousand
//! processes.

use std::time::Duration;

use anyhow::Context;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, ToSingleRedisArg, pipe};

use crate::stack::Redis;

/// A writer on one server.
#[derive(Clone, Debug)]
pub struct Hand {
    connection: MultiplexedConnection,
}

impl Hand {
    /// Connects to this server.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn at(redis: &Redis) -> anyhow::Result<Hand> {
        Ok(Hand { connection: redis.connect().await? })
    }

    /// Makes `holder` (`<instance>:<thread>`) the holder of the lock `key` for `lease`, replacing
    /// any other.
    ///
    /// # Errors
    /// When the server cannot be written.
    pub async fn hold(&self, key: &[u8], holder: &[u8], lease: Duration) -> anyhow::Result<()> {
        let mut commands = pipe();
        commands.atomic().del(key).hset(key, holder, 1);
        self.send(commands.pexpire(key, milliseconds(lease)?)).await
    }

    /// Restarts the lease of a lock.
    ///
    /// # Errors
    /// When the server cannot be written.
    pub async fn renew(&self, key: &[u8], lease: Duration) -> anyhow::Result<()> {
        self.send(pipe().pexpire(key, milliseconds(lease)?)).await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// When the server cannot be written.
    pub async fn delete(&self, key: &[u8]) -> anyhow::Result<()> {
        self.send(pipe().del(key)).await
    }

    /// Sets a field of a hash: a switch, a progress, a claim or a host.
    ///
    /// # Errors
    /// When the server cannot be written.
    pub async fn set(
        &self,
        hash: &[u8],
        field: &[u8],
        value: impl ToSingleRedisArg,
    ) -> anyhow::Result<()> {
        self.send(pipe().hset(hash, field, value)).await
    }

    /// Sends any other commands.
    ///
    /// # Errors
    /// When the server cannot be written.
    pub async fn send(&self, commands: &mut Pipeline) -> anyhow::Result<()> {
        commands.exec_async(&mut self.connection.clone()).await.context("cannot write to redis")
    }
}

fn milliseconds(lease: Duration) -> anyhow::Result<i64> {
    i64::try_from(lease.as_millis()).context("a lease of an eternity")
}
