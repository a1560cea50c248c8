//! A server that plays a script: bytes that it sends unchanged, and marks between them.
//!
//! | mark | what the server does |
//! |---|---|
//! | `<a>` | answers the next command honestly |
//! | `<A>` | answers all commands up to and with the next `ECHO`, or all that were sent so far where there is none |
//! | `<s>` | takes the next command and says nothing |
//! | `<n>` | sends the nonce: the argument of the next `ECHO` that waits, and takes it |
//! | `<p>` | sends the password |
//! | `<w>` | waits for 100 ms |
//! | `<h>` | says nothing any more, and keeps the connection open |
//!
//! At the end of the script the server closes the connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::{honest, wire};

/// The bytes that a server has sent so far, for the oracle.
pub(crate) type Said = Arc<Mutex<Vec<u8>>>;

/// Plays a script.
pub(crate) struct Server {
    stream: DuplexStream,
    received: Vec<u8>,
    waiting: VecDeque<Vec<Vec<u8>>>,
    said: Said,
}

impl Server {
    /// A server at its end of a stream, which records what it sends.
    pub(crate) fn new(stream: DuplexStream, said: Said) -> Server {
        Server { stream, received: Vec::new(), waiting: VecDeque::new(), said }
    }

    /// Plays `script` and closes the connection.
    pub(crate) async fn play(mut self, script: Vec<u8>, password: &'static str) {
        // The client closed the connection, so the rest of the script does not matter.
        let _ended = self.perform(&script, password).await;
    }

    async fn perform(&mut self, mut script: &[u8], password: &str) -> Option<()> {
        while !script.is_empty() {
            let (mark, length) = match script {
                [b'<', mark @ (b'a' | b'A' | b's' | b'n' | b'p' | b'w' | b'h'), b'>', ..] => {
                    (Some(*mark), 3)
                }
                _ => (
                    None,
                    1 + script[1..]
                        .iter()
                        .position(|byte| *byte == b'<')
                        .unwrap_or(script.len() - 1),
                ),
            };
            match mark {
                None => self.say(&script[..length]).await?,
                Some(b'a') => self.answer().await.map(drop)?,
                Some(b'A') => self.answer_all().await?,
                Some(b's') => drop(self.next().await?),
                Some(b'n') => self.nonce().await?,
                Some(b'p') => self.say(password.as_bytes()).await?,
                Some(b'w') => tokio::time::sleep(Duration::from_millis(100)).await,
                Some(_) => std::future::pending().await,
            }
            script = &script[length..];
        }
        Some(())
    }

    async fn say(&mut self, bytes: &[u8]) -> Option<()> {
        self.said.lock().unwrap().extend_from_slice(bytes);
        self.stream.write_all(bytes).await.ok()
    }

    /// Answers one command; returns whether it was an `ECHO`.
    async fn answer(&mut self) -> Option<bool> {
        let words = self.next().await?;
        let mut bytes = Vec::new();
        wire::write(&honest::answer(&words), &mut bytes);
        self.say(&bytes).await?;
        Some(words.first().is_some_and(|word| word == b"ECHO"))
    }

    async fn answer_all(&mut self) -> Option<()> {
        loop {
            let echo = self.answer().await?;
            self.parse();
            if echo || self.waiting.is_empty() {
                return Some(());
            }
        }
    }

    async fn nonce(&mut self) -> Option<()> {
        loop {
            let words = self.next().await?;
            if let [name, nonce] = words.as_slice()
                && name == b"ECHO"
            {
                return self.say(&nonce.clone()).await;
            }
        }
    }

    /// Waits for the next command.
    async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            self.parse();
            if let Some(words) = self.waiting.pop_front() {
                return Some(words);
            }
            if self.stream.read_buf(&mut self.received).await.ok()? == 0 {
                return None;
            }
        }
    }

    fn parse(&mut self) {
        while let Some((words, length)) = wire::command(&self.received) {
            self.received.drain(..length);
            self.waiting.push_back(words);
        }
    }
}
