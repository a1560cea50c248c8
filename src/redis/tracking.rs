//! A connection on which a server announces changed keys (`CLIENT TRACKING … BCAST`, RESP3). The
//! announcements are not evidence: each one only means that a read is worthwhile now. They are not
//! stored.

mod wire;

use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::{ServerError, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::wire::{BUFFER_BYTES, Item, Scanner};
use super::connect::{dial, password};
use super::{Failure, convert};
use crate::config::{Endpoint, Secret};

/// A channel that is never used. A client with a subscription counts as a subscriber, so the server
/// bounds its output buffer for it (`client-output-buffer-limit pubsub`). For other clients the
/// buffer is unbounded, and would grow while the agent is paused.
const CHANNEL: &str = crate::config::WAKE_UPS_CHANNEL;

/// Maximum size of what the server may send before the greeting is complete, in bytes. The replies
/// are short, but announcements may already be among them.
const GREETING_BYTES: usize = 4 << 20;

/// One step of the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Auth,
    Hello,
    /// Sets the name that `CLIENT LIST` shows.
    Name,
    Subscribe,
    Track,
    Ping,
}

/// A message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push<'a> {
    /// This key changed, expired or was deleted, in any database.
    Changed(&'a [u8]),
    /// Any key may have changed: all keys were deleted.
    AllChanged,
    /// The reply to a ping.
    Alive,
}

/// A server that announces changed keys.
#[derive(Debug)]
pub struct Tracking<S = TcpStream> {
    stream: S,
    scanner: Scanner,
    buffer: Vec<u8>,
    timeout: Duration,
}

impl Tracking {
    /// Connects, logs in, and turns on tracking for all keys that begin with one of `prefixes`. The
    /// server announces every change from now on.
    ///
    /// # Errors
    /// Why tracking is not available. [`Unknown::NoPermission`] and [`Unknown::ServerError`] are
    /// refusals.
    pub async fn start(endpoint: &Endpoint, prefixes: &[Vec<u8>]) -> Result<Tracking, Failure> {
        let password = password(endpoint.login.password.as_ref()).await?;
        let stream = dial(endpoint, 0).await?;
        Tracking::over(stream, endpoint, password.as_ref(), prefixes).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Tracking<S> {
    /// Like [`Tracking::start`], but over an open stream and with this password.
    ///
    /// # Errors
    /// Why tracking is not available.
    pub async fn over(
        stream: S,
        endpoint: &Endpoint,
        password: Option<&Secret>,
        prefixes: &[Vec<u8>],
    ) -> Result<Tracking<S>, Failure> {
        let steps =
            greeting(endpoint.login.username.as_deref(), password.map(Secret::expose), prefixes);
        let request: Vec<u8> =
            steps.iter().flat_map(|(_, command)| redis::pack_command(&command.args)).collect();
        let mut tracking = Tracking {
            stream,
            scanner: Scanner::default(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            timeout: endpoint.timeout,
        };
        let greeted = async {
            tracking.send(&request).await?;
            tracking.greeted(steps.into_iter().map(|(step, _)| step).collect()).await
        };
        timeout(endpoint.timeout, greeted)
            .await
            .map_err(|_| Failure::new(Unknown::Timeout, "no reply"))??;
        Ok(tracking)
    }

    /// Waits for the reply to each step.
    async fn greeted(&mut self, steps: Vec<Step>) -> Result<(), Failure> {
        let mut steps = steps.into_iter();
        let mut bytes = 0;
        while !steps.as_slice().is_empty() {
            bytes += self.fill().await?;
            if bytes > GREETING_BYTES {
                return Err(Failure::new(
                    Unknown::Protocol,
                    "it tells too much before it answers the greeting",
                ));
            }
            let mut failure = None;
            self.scan(|item| {
                let answered = match item {
                    // Announcements during the greeting are ignored: the tasks are read after it
                    // anyway.
                    Item::Changed(_) | Item::AllChanged | Item::Other => return,
                    Item::Subscribed => (steps.next() == Some(Step::Subscribe)).then_some(()),
                    Item::Pong => (steps.next() == Some(Step::Ping)).then_some(()),
                    Item::Reply => steps.next().map(|_| ()),
                    Item::Error(error) => {
                        let failed = steps.next().map(|step| refused(step, error));
                        failure = failure.take().or(failed);
                        Some(())
                    }
                };
                if answered.is_none() {
                    let strange =
                        Failure::new(Unknown::Protocol, "these are no answers to the greeting");
                    failure.get_or_insert(strange);
                }
            })?;
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Sends a ping; the reply arrives as [`Push::Alive`].
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ping(&mut self) -> Result<(), Failure> {
        let ping = redis::pack_command(&Command::new(["PING"]).args);
        let sent = timeout(self.timeout, self.send(&ping)).await;
        sent.map_err(|_| Failure::new(Unknown::Timeout, "cannot send"))?
    }

    /// Waits for data, to be read with [`Tracking::take`], and returns its size in bytes.
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ready(&mut self) -> Result<usize, Failure> {
        self.fill().await
    }

    /// Passes the received messages to `each`, in order.
    ///
    /// # Errors
    /// The connection is no longer usable.
    pub fn take(&mut self, mut each: impl FnMut(Push<'_>)) -> Result<(), Failure> {
        let mut failure = None;
        self.scan(|item| match item {
            Item::Changed(keys) => {
                for key in &keys {
                    if let Value::BulkString(key) = key {
                        each(Push::Changed(key));
                    }
                }
            }
            Item::AllChanged => each(Push::AllChanged),
            Item::Pong => each(Push::Alive),
            Item::Error(error) => failure = Some(refused(Step::Ping, error)),
            Item::Subscribed | Item::Other | Item::Reply => {}
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Passes complete items to `each`.
    fn scan(&mut self, each: impl FnMut(Item)) -> Result<(), Failure> {
        let scanned = self.scanner.scan(&self.buffer, each);
        self.buffer.clear();
        scanned
    }

    async fn fill(&mut self) -> Result<usize, Failure> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Failure::new(Unknown::Closed, "the peer closed the connection")),
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(Failure::new(Unknown::Closed, error)),
        }
    }

    async fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(request).await.map_err(|error| Failure::new(Unknown::Closed, error))
    }
}

fn greeting(
    username: Option<&str>,
    password: Option<&str>,
    prefixes: &[Vec<u8>],
) -> Vec<(Step, Command)> {
    let mut steps = Vec::new();
    match (username, password) {
        (Some(username), password) => {
            steps
                .push((Step::Auth, Command::new(["AUTH", username, password.unwrap_or_default()])));
        }
        (None, Some(password)) => steps.push((Step::Auth, Command::new(["AUTH", password]))),
        (None, None) => {}
    }
    let mut track: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON", b"BCAST"];
    track.extend(prefixes.iter().flat_map(|prefix| [b"PREFIX".as_slice(), prefix]));
    steps.extend([
        (Step::Hello, Command::new(["HELLO", "3"])),
        (Step::Name, Command::new(["CLIENT", "SETNAME", "lockwatch-wake-ups"])),
        (Step::Subscribe, Command::new(["SUBSCRIBE", CHANNEL])),
        (Step::Track, Command::new(track)),
        (Step::Ping, Command::new(["PING"])),
    ]);
    steps
}

/// Why the server refused a step. Its text is not logged, because it may quote what was sent,
/// including the password.
fn refused(step: Step, error: ServerError) -> Failure {
    let why = match convert::reply(Value::ServerError(error)) {
        Reply::Error(error) => convert::refusal(&error),
        _ => Unknown::ServerError,
    };
    let why = if (step, why) == (Step::Auth, Unknown::ServerError) { Unknown::Auth } else { why };
    let what = match step {
        Step::Auth => "the login",
        Step::Hello => "HELLO 3",
        Step::Name => "CLIENT SETNAME",
        Step::Subscribe => "SUBSCRIBE",
        Step::Track => "CLIENT TRACKING",
        Step::Ping => "PING",
    };
    Failure::new(why, format_args!("{what} was refused"))
}
