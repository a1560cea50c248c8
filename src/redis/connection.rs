//! One connection: sends batches and returns their replies in order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::accept::Caps;
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::aio::MultiplexedConnection;
use tokio_util::task::AbortOnDropHandle;

use super::guard::{Fault, Ledger};
use super::{Failure, convert};

/// A connection after its greeting. Dropping it closes it at once, whatever is in flight.
#[derive(Debug)]
pub struct Connection {
    inner: MultiplexedConnection,
    ledger: Arc<Ledger>,
    timeout: Duration,
    caps: Caps,
    version: Option<Arc<str>>,
    role: Option<Role>,
    _driver: AbortOnDropHandle<()>,
}

/// What a server reported in its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) caps: Caps,
    pub(super) version: Option<Arc<str>>,
    pub(super) role: Option<Role>,
}

impl Connection {
    pub(super) fn new(
        inner: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        ledger: Arc<Ledger>,
        timeout: Duration,
        greeting: Greeting,
    ) -> Connection {
        let Greeting { caps, version, role } = greeting;
        // The crate's driver would wait for replies that never come, so it must end with the
        // connection.
        let driver = AbortOnDropHandle::new(tokio::spawn(driver));
        Connection { inner, ledger, timeout, caps, version, role, _driver: driver }
    }

    /// What the server can do and lets this user do.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// The server's version, if it reports one.
    pub fn version(&self) -> Option<&Arc<str>> {
        self.version.as_ref()
    }

    /// The server's role at the greeting, if it reports one.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Sends `commands` in one write and waits for exactly as many replies, in order. Several
    /// batches may be in flight. A command that the server refuses yields a [`Reply::Error`].
    ///
    /// # Errors
    /// Why there are no replies. The connection is then unusable: drop it.
    pub async fn exec(&self, commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let pipeline = convert::pipeline(commands);
        let mut inner = self.inner.clone();
        self.ledger.expect(commands.len());
        let replies = inner.send_packed_commands(&pipeline, 0, commands.len());
        match tokio::time::timeout(self.timeout, replies).await {
            Err(_) => Err(no_reply(self.timeout)),
            Ok(Err(error)) => Err(broken(self.ledger.fault(), &error)),
            Ok(Ok(values)) if values.len() != commands.len() => Err(Failure::new(
                Unknown::Protocol,
                "the number of replies is not the number of commands",
            )),
            Ok(Ok(values)) => Ok(values.into_iter().map(convert::reply).collect()),
        }
    }
}

/// The failure for replies that are missing at the timeout.
pub(super) fn no_reply(timeout: Duration) -> Failure {
    Failure::new(Unknown::Timeout, format_args!("no complete reply within {timeout:?}"))
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
