//! The front end of the demo: sets the users' switches, and reads who holds the lock.

use anyhow::Context;
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;

use super::names::{HANG, HOSTS, LOCK, USERS};
use super::server::PrivateRedis;

/// The three users.
pub const EVERYBODY: [&str; 3] = ["anna", "ben", "chris"];

/// A connection to the demo's data.
#[derive(Clone)]
pub struct Board(MultiplexedConnection);

impl Board {
    /// Connects.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn connect(redis: &PrivateRedis) -> anyhow::Result<Board> {
        Ok(Board(redis.connect().await.context("cannot connect to the demo's Redis")?))
    }

    /// Sets a user's switch.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn switch(&mut self, user: &str, position: Position) -> anyhow::Result<()> {
        self.0.hset(USERS, user, position.text()).await?;
        Ok(())
    }

    /// Whether anybody's switch is on.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn wanted(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.hvals(USERS).await?.iter().any(|value| value == Position::On.text()))
    }

    /// The host of the worker that holds the lock.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn holder_host(&mut self) -> anyhow::Result<Option<String>> {
        let Some(field) = self.0.hkeys(LOCK).await?.into_iter().next() else { return Ok(None) };
        let instance = field.split(':').next().unwrap_or_default();
        Ok(self.0.hget(HOSTS, instance).await?)
    }

    /// Makes the script of `worker` die silently, now or when it runs next.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn hang(&mut self, worker: &str) -> anyhow::Result<()> {
        self.0.set(HANG, worker).await?;
        Ok(())
    }
}

/// The position of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The user wants the task to run.
    On,
    /// The user does not want the task to run.
    Off,
}

impl Position {
    /// The value in Redis.
    pub(super) fn text(self) -> &'static str {
        match self {
            Position::On => "on",
            Position::Off => "off",
        }
    }
}
