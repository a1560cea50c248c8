//! The connection of a sampler to one server, in one of three states: connected, dialling, or
//! waiting to dial.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::reply::Command;
use tokio_util::task::AbortOnDropHandle;

use super::pace::Pace;
use crate::config::{Endpoint, ms};
use crate::redis;

/// How long a server may report that it cannot serve until it is dialled again, in milliseconds:
/// its name may resolve to another server by now.
const PATIENCE_MS: u64 = 30_000;
/// Maximum idle time of a connection. Servers may close idle connections, after one second at the
/// earliest (`timeout`).
const IDLE: Duration = Duration::from_secs(1);

/// The result of a dial.
pub(super) type Dialled = Result<(redis::Connection, Option<redis::Opened>), redis::Failure>;

pub(super) struct Link {
    state: State,
    pace: Pace,
}

enum State {
    Waiting {
        until: Mono,
    },
    Dialling(AbortOnDropHandle<Dialled>),
    Up {
        connection: Arc<redis::Connection>,
        useful_at: Mono,
        is_believed: bool,
        _alive: Option<AbortOnDropHandle<()>>,
    },
}

impl Link {
    /// A link that is due to dial at once.
    pub(super) fn new(now: Mono) -> Link {
        Link { state: State::Waiting { until: now }, pace: Pace::default() }
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<Arc<redis::Connection>> {
        match &self.state {
            State::Up { connection, .. } => Some(Arc::clone(connection)),
            State::Waiting { .. } | State::Dialling(_) => None,
        }
    }

    /// When to dial; `None` while there is a connection or a dial.
    pub(super) fn next_dial(&self) -> Option<Mono> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Dialling(_) | State::Up { .. } => None,
        }
    }

    /// Whether it is time to dial.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.next_dial().is_some_and(|at| at <= now)
    }

    /// Starts to dial.
    pub(super) fn dial(&mut self, endpoint: &Endpoint, opening: Option<redis::Opening>, now: Mono) {
        let endpoint = endpoint.clone();
        let in_vain = self.pace.in_vain();
        self.pace.dialled(now);
        let dial = tokio::spawn(async move { redis::connect(&endpoint, opening, in_vain).await });
        self.state = State::Dialling(AbortOnDropHandle::new(dial));
    }

    /// Whether the dial has ended, if there is one. Pass its result to [`Link::made`] or
    /// [`Link::give_up`].
    pub(super) fn poll_dialled(&mut self, context: &mut Context<'_>) -> Poll<Dialled> {
        match &mut self.state {
            State::Dialling(dial) => Pin::new(dial).poll(context).map(|ended| match ended {
                Ok(dialled) => dialled,
                Err(error) => {
                    Err(redis::Failure { why: Unknown::Connect, detail: error.to_string() })
                }
            }),
            State::Waiting { .. } | State::Up { .. } => Poll::Pending,
        }
    }

    /// The dial made a connection, on which a batch is sent each `interval_ms`.
    pub(super) fn made(&mut self, connection: redis::Connection, interval_ms: u64, now: Mono) {
        let connection = Arc::new(connection);
        let idles = interval_ms > ms(IDLE);
        let alive = idles
            .then(|| AbortOnDropHandle::new(tokio::spawn(keep_alive(Arc::clone(&connection)))));
        self.state = State::Up { connection, useful_at: now, is_believed: false, _alive: alive };
    }

    /// A batch was accepted.
    pub(super) fn succeeded(&mut self, now: Mono) {
        self.pace.succeeded();
        if let State::Up { useful_at, is_believed, .. } = &mut self.state {
            *useful_at = now;
            *is_believed = true;
        }
    }

    /// Whether a batch was accepted on the current connection.
    pub(super) fn is_believed(&self) -> bool {
        matches!(self.state, State::Up { is_believed: true, .. })
    }

    /// Whether a batch that failed with `why` leaves the connection in order: the server answered
    /// everything in time, but says that it cannot serve at present.
    pub(super) fn survives(&self, why: Unknown, now: Mono) -> bool {
        let State::Up { useful_at, .. } = self.state else { return false };
        matches!(why, Unknown::Loading | Unknown::Busy | Unknown::NotMaster)
            && now.since_ms(useful_at) < PATIENCE_MS
    }

    /// Closes the connection, or ends the dial; it is dialled again when the pace allows.
    pub(super) fn give_up(&mut self, now: Mono) {
        self.state = State::Waiting { until: self.pace.next_dial(now, fastrand::f64()) };
    }
}

/// Sends an `ECHO` after each [`IDLE`] until the connection breaks; the next batch then fails.
async fn keep_alive(connection: Arc<redis::Connection>) {
    let nothing = [Command::new(["ECHO", ""])];
    loop {
        tokio::time::sleep(IDLE).await;
        if connection.exec(&nothing).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::config::{HostPort, Login};

    async fn connection() -> redis::Connection {
        let endpoint = Endpoint {
            at: HostPort { host: "main".to_owned(), port: 6379 },
            db: 0,
            login: Login::default(),
            timeout: Duration::from_secs(1),
            assume_master: false,
            readonly: false,
        };
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
        let greeting = format!("+OK\r\n+OK\r\n{role}-NOPERM no\r\n-NOPERM no\r\n:-2\r\n");
        there.write_all(greeting.as_bytes()).await.unwrap();
        redis::greet_over(here, &endpoint, None, None).await.unwrap().0
    }

    /// Behind the address of a managed Redis there may be a new master by now.
    #[tokio::test]
    async fn a_server_that_cannot_serve_for_long_is_dialled_anew() {
        let _rule = crate::truth::rule("3 connection");
        for why in [Unknown::Loading, Unknown::Busy, Unknown::NotMaster] {
            let mut link = Link::new(Mono(0));
            assert!(!link.survives(why, Mono(0)), "there is no connection");
            link.made(connection().await, 1_000, Mono(1_000));
            assert!(link.survives(why, Mono(30_999)), "{why:?}");
            assert!(!link.survives(why, Mono(31_000)), "{why:?}");
            link.succeeded(Mono(20_000));
            assert!(link.survives(why, Mono(49_999)), "{why:?}");
            assert!(!link.survives(why, Mono(50_000)), "{why:?}");
            assert!(!link.survives(Unknown::Timeout, Mono(20_001)));
        }
    }
}
