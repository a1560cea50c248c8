//! Locks as Redisson writes them, for holders that do not exist: a thousand workers would be a
//! thousand processes.

use std::time::Duration;

use anyhow::Context;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, ToSingleRedisArg, pipe};

use crate::stack::Redis;

/// Writes to one server.
#[derive(Clone, Debug)]
pub struct Hand {
    connection: MultiplexedConnection,
}

impl Hand {
    /// A hand for this server.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn at(redis: &Redis) -> anyhow::Result<Hand> {
        Ok(Hand { connection: redis.connect().await? })
    }

    /// The lock `key` is held by `holder` (`<instance>:<thread>`) from now on for `lease`, whoever
    /// held it before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn hold(&self, key: &[u8], holder: &[u8], lease: Duration) -> anyhow::Result<()> {
        let mut commands = pipe();
        commands.atomic().del(key).hset(key, holder, 1);
        self.send(commands.pexpire(key, milliseconds(lease)?)).await
    }

    /// Its lease begins anew.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn renew(&self, key: &[u8], lease: Duration) -> anyhow::Result<()> {
        self.send(pipe().pexpire(key, milliseconds(lease)?)).await
    }

    /// The key does not exist any more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn delete(&self, key: &[u8]) -> anyhow::Result<()> {
        self.send(pipe().del(key)).await
    }

    /// A field of a hash: a switch, a progress, a claim, a host.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn set(
        &self,
        hash: &[u8],
        field: &[u8],
        value: impl ToSingleRedisArg,
    ) -> anyhow::Result<()> {
        self.send(pipe().hset(hash, field, value)).await
    }

    /// Whatever else.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn send(&self, commands: &mut Pipeline) -> anyhow::Result<()> {
        commands.exec_async(&mut self.connection.clone()).await.context("cannot write to redis")
    }
}

fn milliseconds(lease: Duration) -> anyhow::Result<i64> {
    i64::try_from(lease.as_millis()).context("a lease of an eternity")
}
