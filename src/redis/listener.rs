//! A connection that subscribes to one channel. Messages are not parsed, because they are not
//! evidence: each one only means that a read is worthwhile now.

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::reply::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failure;
use super::connect::{dial, password};
use crate::config::{Endpoint, Secret};

/// Size of the read buffer in bytes.
const CHUNK_BYTES: usize = 4 << 10;

/// A subscription to one channel.
#[derive(Debug)]
pub struct Listener {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Listener {
    /// Connects, logs in, and subscribes to `channel`.
    ///
    /// # Errors
    /// Why the subscription failed.
    pub async fn subscribe(endpoint: &Endpoint, channel: &str) -> Result<Listener, Failure> {
        let password = password(endpoint.login.password.as_ref()).await?;
        let mut stream = dial(endpoint, 0).await?;
        let mut request = Vec::new();
        let (username, password) =
            (endpoint.login.username.as_deref(), password.as_ref().map(Secret::expose));
        let mut replies = 1;
        match (username, password) {
            (Some(username), password) => {
                request.extend(packed(&["AUTH", username, password.unwrap_or_default()]));
            }
            (None, Some(password)) => request.extend(packed(&["AUTH", password])),
            (None, None) => replies = 0,
        }
        request.extend(packed(&["SUBSCRIBE", channel]));
        let closed = |error: std::io::Error| Failure::new(Unknown::Closed, error);
        stream.write_all(&request).await.map_err(closed)?;
        let mut listener = Listener { stream, buffer: Vec::with_capacity(CHUNK_BYTES) };
        let greeting = listener.greeting(replies);
        timeout(endpoint.timeout, greeting)
            .await
            .map_err(|_| Failure::new(Unknown::Timeout, "no reply"))??;
        Ok(listener)
    }

    /// Waits for `statuses` status replies and then for the confirmation of the subscription.
    async fn greeting(&mut self, statuses: usize) -> Result<(), Failure> {
        loop {
            let lines = self.buffer.split(|byte| *byte == b'\n');
            // Errors are never logged verbatim: they may quote what we sent.
            if lines.clone().any(|line| line.starts_with(b"-")) {
                return Err(Failure::new(
                    Unknown::NoPermission,
                    "the login or the channel was refused",
                ));
            }
            if lines.skip(statuses).any(|line| line.starts_with(b"*")) {
                return Ok(());
            }
            if self.buffer.len() >= CHUNK_BYTES {
                return Err(Failure::new(
                    Unknown::Protocol,
                    "this is no confirmation of a subscription",
                ));
            }
            self.read().await?;
        }
    }

    /// Waits for data on the channel.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn heard(&mut self) -> Result<(), Failure> {
        self.buffer.clear();
        self.read().await
    }

    async fn read(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Failure::new(Unknown::Closed, "the peer closed the connection")),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(Unknown::Closed, error)),
        }
    }
}

fn packed(words: &[&str]) -> Vec<u8> {
    redis::pack_command(&Command::new(words).args)
}
