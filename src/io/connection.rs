//! One connection: sends batches and returns their replies in order.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::accept::Caps;
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::redis::handshake::Greeting;
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::aio::MultiplexedConnection;
use tokio_util::task::AbortOnDropHandle;

use super::convert;
use super::guard::{Fault, Ledger};
use super::login::mask;
use crate::config::{Login, Secret};

/// An open connection. Dropping it closes it at once, whatever is in flight.
#[derive(Debug)]
pub struct Wire {
    inner: MultiplexedConnection,
    ledger: Arc<Ledger>,
    passwords: Passwords,
    _driver: AbortOnDropHandle<()>,
}

/// The newest passwords that were sent over a connection. A server may repeat them at any time.
#[derive(Clone, Debug, Default)]
struct Passwords(Arc<Mutex<Vec<Secret>>>);

impl Passwords {
    /// A password that was refused may be followed by the one that it replaced.
    const KEPT: usize = 2;

    fn add(&self, password: Option<&Secret>) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(password) = password.filter(|password| !sent.contains(password)) {
            sent.push(password.clone());
        }
        if sent.len() > Passwords::KEPT {
            sent.remove(0);
        }
    }

    /// Hides them in errors. Where a redirection leads is no text for people.
    fn hide_in(&self, replies: &mut [Reply]) {
        let is_for_people = |code: &[u8]| !matches!(code, b"MOVED" | b"ASK");
        let has_words =
            |reply: &&mut Reply| matches!(reply, Reply::Error(error) if is_for_people(&error.code));
        for reply in replies.iter_mut().filter(has_words) {
            let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sent.iter().for_each(|password| mask(std::slice::from_mut(reply), Some(password)));
        }
    }
}

impl Wire {
    pub(super) fn new(
        inner: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        ledger: Arc<Ledger>,
        password: Option<&Secret>,
    ) -> Wire {
        let passwords = Passwords::default();
        passwords.add(password);
        // The crate's driver would wait for replies that never come, so it must end with the
        // connection.
        Wire { inner, ledger, passwords, _driver: AbortOnDropHandle::new(tokio::spawn(driver)) }
    }

    /// Another password is sent from now on.
    pub(super) fn will_send(&self, password: Option<&Secret>) {
        self.passwords.add(password);
    }

    /// Sends `commands` in one write and waits for exactly as many replies, in order. Several
    /// batches may be in flight; they are sent in the order in which the futures are polled first.
    /// A command that the server refuses yields a [`Reply::Error`].
    ///
    /// # Errors
    /// Why there are no replies. The connection is then unusable: drop it.
    pub(super) fn ask(
        &self,
        commands: &[Command],
    ) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send + use<> {
        let (pipeline, count) = (convert::pipeline(commands), commands.len());
        let (mut inner, ledger) = (self.inner.clone(), Arc::clone(&self.ledger));
        let passwords = self.passwords.clone();
        async move {
            ledger.expect(count);
            match inner.send_packed_commands(&pipeline, 0, count).await {
                Err(error) => {
                    let failure = broken(ledger.fault(), &error);
                    let command = pipeline.cmd_iter().nth(ledger.first_unanswered(count));
                    let words = command.map(|command| {
                        command
                            .args_iter()
                            .filter_map(|word| match word {
                                redis::Arg::Simple(word) => Some(word.to_vec()),
                                _ => None,
                            })
                            .take(2)
                            .collect::<Vec<_>>()
                    });
                    Err(unanswered(failure, words.as_deref()))
                }
                Ok(values) if values.len() != count => Err(Failure::new(
                    Unknown::Protocol,
                    "the number of replies is not the number of commands",
                )),
                Ok(values) => {
                    let mut replies: Vec<Reply> = values.into_iter().map(convert::reply).collect();
                    passwords.hide_in(&mut replies);
                    Ok(replies)
                }
            }
        }
    }
}

/// A connection after its greeting, for commands that ask by themselves.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
    greeting: Greeting,
    timeout: Duration,
    since: Instant,
}

impl Connection {
    /// The connection of a server that said this in its greeting.
    pub fn new(wire: Wire, greeting: Greeting, timeout: Duration) -> Connection {
        Connection { wire, greeting, timeout, since: Instant::now() }
    }

    /// Whether its login is so old that a new connection should take its place.
    pub fn is_outdated(&self, login: &Login) -> bool {
        login.renew_after().is_some_and(|age| self.since.elapsed() >= age)
    }

    /// What the server can do and lets this user do.
    pub fn caps(&self) -> Caps {
        self.greeting.caps
    }

    /// The server's version, if it reports one.
    pub fn version(&self) -> Option<&Arc<str>> {
        self.greeting.version.as_ref()
    }

    /// The server's role at the greeting, if it reports one.
    pub fn role(&self) -> Option<Role> {
        self.greeting.role
    }

    /// Of a Sentinel: the names of its masters, if it reports them.
    pub fn masters(&self) -> Option<&[String]> {
        self.greeting.masters.as_deref()
    }

    /// Sends `commands` in one write and waits for exactly as many replies, in order.
    ///
    /// # Errors
    /// Why there are no replies. The connection is then unusable: drop it.
    pub async fn exec(&self, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let replies = tokio::time::timeout(self.timeout, self.wire.ask(commands)).await;
        replies.unwrap_or_else(|_| Err(no_reply(self.timeout)))
    }
}

/// The failure for replies that are missing at the timeout.
pub(super) fn no_reply(timeout: Duration) -> Failure {
    Failure::new(Unknown::Timeout, format_args!("no complete reply within {timeout:?}"))
}

/// Adds which command was the first without an answer, if the peer closed the connection: a proxy
/// may close it at a command that it does not know. Only its name is reported.
pub(super) fn unanswered(failure: Failure, command: Option<&[Vec<u8>]>) -> Failure {
    if failure.why != Unknown::Closed {
        return failure;
    }
    let word = |word: &Vec<u8>| String::from_utf8_lossy(word).to_uppercase();
    let name = match command {
        Some([name, sub, ..]) if name == b"CLIENT" => format!("{} {}", word(name), word(sub)),
        Some([name, ..]) => word(name),
        _ => return failure,
    };
    let detail = format!("{}; the first command without an answer was {name}", failure.detail);
    Failure { detail, ..failure }
}

/// The failure for a connection that ended: because of `fault`, if our filter ended it, else
/// because of `error`.
pub(super) fn broken(fault: Option<Fault>, error: &dyn std::fmt::Display) -> Failure {
    match fault {
        Some(Fault::NotRedis) => {
            Failure::new(Unknown::Protocol, "the peer does not speak Redis' protocol")
        }
        Some(Fault::Unasked) => {
            Failure::new(Unknown::Protocol, "a reply came that nobody had asked for")
        }
        Some(Fault::TooLarge) => {
            Failure::new(Unknown::TooLarge, "a reply is larger than lockwatch reads")
        }
        Some(Fault::Closed) => Failure::new(Unknown::Closed, "the peer closed the connection"),
        None => Failure::new(Unknown::Closed, error),
    }
}
