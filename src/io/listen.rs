//! A connection on which a server announces something: changed keys (`CLIENT TRACKING … BCAST`,
//! RESP3), or messages on a channel. Announcements are not evidence: each one only means that a
//! read is worthwhile now. They are not stored.

mod wire;

use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::{self, Dial, Dialled, Failure, LinkId, Manner, Now, Push};
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use self::wire::{BUFFER_BYTES, Item, Scanner};
use super::connection::no_reply;
use super::login::{auth, mask, newer, password};
use super::stream::Stream;
use super::{connect, convert};
use crate::clock::Clock;
use crate::config::{Endpoint, Login, Secret, Tls, ms};

/// Maximum size of what the server may send before the greeting is complete, in bytes. The replies
/// are short, but announcements may already be among them.
const GREETING_BYTES: usize = 1 << 20;

/// An open connection.
#[derive(Debug)]
pub struct Listening<S = Stream> {
    stream: S,
    scanner: Scanner,
    buffer: Vec<u8>,
    timeout: Duration,
}

/// Opens a connection that listens, and sends the first commands over it, as [`connect::open`]
/// does.
///
/// # Errors
/// Why the server was not reached.
pub(super) async fn open(
    dial: &Dial,
    login: &Login,
    tls: Option<&Tls>,
    clock: Clock,
) -> Result<(Dialled, Option<Listening>), Failure> {
    let password = password(login.password.as_ref()).await?;
    let stream = connect::dial(dial, tls).await?;
    let opened = listen_over(stream, dial, login, password.as_ref(), clock).await;
    let Some(newer) = newer(login, password.as_ref(), &opened.0).await else { return Ok(opened) };
    let stream = connect::dial(dial, tls).await?;
    Ok(listen_over(stream, dial, login, Some(&newer), clock).await)
}

/// Connects to `endpoint` and sends `commands`, which make it announce something. It speaks RESP3.
///
/// # Errors
/// Why the server was not reached, or what it refuses.
pub async fn listen(endpoint: &Endpoint, commands: Vec<Command>) -> Result<Listening, Failure> {
    let dial = Dial {
        link: LinkId(0),
        to: endpoint.at.clone(),
        login: driver::Login::Store,
        manner: Manner::Listen,
        commands: [vec![Command::new(["HELLO", "3"])], commands].concat(),
        alone: 0,
        attempt: 0,
        timeout_ms: ms(endpoint.timeout),
    };
    let tls = endpoint.tls.as_ref();
    let (dialled, listening) = open(&dial, &endpoint.login, tls, Clock::start()).await?;
    let refused = dialled.replies.iter().chain(&dialled.auth).find_map(|reply| match reply {
        Reply::Error(error) => Some(error),
        _ => None,
    });
    match (refused, listening, dialled.ended) {
        (None, Some(listening), None) => Ok(listening),
        (Some(error), ..) => {
            let said = [&error.code[..], b" ", &error.detail[..]].concat();
            Err(Failure::new(Unknown::ServerError, said.escape_ascii()))
        }
        (None, _, ended) => {
            Err(ended.unwrap_or_else(|| Failure::new(Unknown::Closed, "no greeting")))
        }
    }
}

/// Sends the first commands of a dial over an open stream; the fuzz target `tracking` also begins
/// here. Without a connection, [`Dialled::ended`] is the reason.
pub async fn listen_over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    dial: &Dial,
    login: &Login,
    password: Option<&Secret>,
    clock: Clock,
) -> (Dialled, Option<Listening<S>>) {
    let limit = Duration::from_millis(dial.timeout_ms);
    let mut listening = Listening {
        stream,
        scanner: Scanner::default(),
        buffer: Vec::with_capacity(BUFFER_BYTES),
        timeout: limit,
    };
    let auth = auth(login, password);
    let commands: Vec<&Command> = auth.iter().chain(&dial.commands).collect();
    let (mono, wall) = clock.both();
    let mut replies = Vec::new();
    let greeted = timeout(limit, listening.greet(&commands, &mut replies)).await;
    let ended = greeted.unwrap_or_else(|_| Err(no_reply(limit))).err();
    mask(&mut replies, password);
    let auth = auth.filter(|_| !replies.is_empty()).map(|_| replies.remove(0));
    let listening = ended.is_none().then_some(listening);
    let sent = Now { mono, wall };
    (Dialled { sent, received: clock.now(), auth, replies, ended }, listening)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Listening<S> {
    /// Sends the first commands and waits for the reply to each.
    async fn greet(
        &mut self,
        commands: &[&Command],
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failure> {
        let packed = commands.iter().flat_map(|command| redis::pack_command(&command.args));
        self.write(&packed.collect::<Vec<u8>>()).await?;
        let mut bytes = 0;
        while replies.len() < commands.len() {
            bytes += self.fill().await?;
            if bytes > GREETING_BYTES {
                let what = "it sends too much before it answers the greeting";
                return Err(Failure::new(Unknown::Protocol, what));
            }
            self.scan(|item| match item {
                // Announcements during the greeting are ignored: everything is read after it
                // anyway.
                Item::Changed(_) | Item::AllChanged | Item::Other => {}
                Item::Subscribed => replies.push(Reply::Array(vec![text("subscribe")])),
                Item::Pong => replies.push(text("PONG")),
                Item::Error(error) => replies.push(convert::reply(Value::ServerError(error))),
                Item::Reply(value) => replies.push(convert::reply(value)),
            })?;
        }
        Ok(())
    }

    /// Sends `commands`; what is answered is read as announcements are.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send(&mut self, commands: &[Command]) -> Result<(), Failure> {
        let packed = commands.iter().flat_map(|command| redis::pack_command(&command.args));
        let packed: Vec<u8> = packed.collect();
        let sent = timeout(self.timeout, self.write(&packed)).await;
        sent.map_err(|_| Failure::new(Unknown::Timeout, "cannot send"))?
    }

    /// Waits for data; returns its size in bytes. Cancel-safe. [`Listening::take`] then reads it.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn fill(&mut self) -> Result<usize, Failure> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Failure::new(Unknown::Closed, "the peer closed the connection")),
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(error
                .downcast::<Failure>()
                .unwrap_or_else(|error| Failure::new(Unknown::Closed, error))),
        }
    }

    /// The announcements in the received data, in order.
    ///
    /// # Errors
    /// The connection is no longer usable.
    pub fn take(&mut self) -> Result<Vec<Push>, Failure> {
        let mut pushes = Vec::new();
        self.scan(|item| match item {
            Item::Changed(keys) => pushes.extend(keys.into_iter().filter_map(|key| match key {
                Value::BulkString(key) => Some(Push::Changed(key)),
                _ => None,
            })),
            Item::AllChanged => pushes.push(Push::AllChanged),
            Item::Pong if pushes.last() != Some(&Push::Alive) => pushes.push(Push::Alive),
            Item::Error(error) => {
                if let Reply::Error(error) = convert::reply(Value::ServerError(error)) {
                    pushes.push(Push::Refused(error));
                }
            }
            Item::Subscribed | Item::Other | Item::Reply(_)
                if pushes.last() != Some(&Push::Other) =>
            {
                pushes.push(Push::Other);
            }
            // One stands for all: a server may say the same without end.
            Item::Pong | Item::Subscribed | Item::Other | Item::Reply(_) => {}
        })?;
        Ok(pushes)
    }

    /// Passes complete items to `each`.
    fn scan(&mut self, each: impl FnMut(Item)) -> Result<(), Failure> {
        let scanned = self.scanner.scan(&self.buffer, each);
        self.buffer.clear();
        scanned
    }

    async fn write(&mut self, request: &[u8]) -> Result<(), Failure> {
        let written = connect::write(&mut self.stream, request).await;
        written.map_err(|error| Failure::new(Unknown::Closed, error))
    }
}

fn text(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}
