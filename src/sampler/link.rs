//! The sampler's one connection: there, being dialled, or waiting to be dialled.

use std::sync::Arc;

use lockwatch_model::reading::Unknown;
use lockwatch_model::reply::Command;
use lockwatch_model::time::Mono;
use tokio_util::task::AbortOnDropHandle;

use super::Landing;
use super::pace::Pace;
use crate::clock::Clock;
use crate::config::RedisConfig;
use crate::redis::{self, Connection, Failure};

/// A server that says for so long that it cannot serve is dialled anew: its name may mean another server by now.
const PATIENCE_MS: u64 = 30_000;

pub(super) struct Link {
    state: State,
    pace: Pace,
}

enum State {
    Waiting { until: Mono },
    Dialling(AbortOnDropHandle<Result<Dial, Failure>>),
    Up { connection: Arc<Connection>, useful_at: Mono },
}

/// A connection that was just made, and the replies to what was asked together with the greeting.
pub(super) struct Dial {
    pub(super) connection: Connection,
    pub(super) opening: Landing,
}

async fn dial(config: RedisConfig, opening: Vec<Command>, clock: Clock) -> Result<Dial, Failure> {
    let dialled = redis::dial(&config).await?;
    let (sent_wall, sent) = (clock.wall(), clock.now());
    let (connection, replies) = dialled.greet(&config, &opening).await?;
    Ok(Dial { connection, opening: Landing { sent, sent_wall, received: clock.now(), replies: Ok(replies) } })
}

impl Link {
    /// To be dialled at once.
    pub(super) fn new(now: Mono) -> Link {
        Link { state: State::Waiting { until: now }, pace: Pace::default() }
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
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
    pub(super) fn dial_is_due(&self, now: Mono) -> bool {
        self.next_dial().is_some_and(|at| at <= now)
    }

    /// Begins to dial; `opening` is asked together with the greeting.
    pub(super) fn dial(&mut self, config: &RedisConfig, opening: Vec<Command>, clock: Clock) {
        self.pace.dialled(clock.now());
        let dial = tokio::spawn(dial(config.clone(), opening, clock));
        self.state = State::Dialling(AbortOnDropHandle::new(dial));
    }

    /// Waits for the dial to end; for ever if there is none.
    pub(super) async fn dialled(&mut self) -> Result<Dial, Failure> {
        match &mut self.state {
            State::Dialling(dial) => match dial.await {
                Ok(dialled) => dialled,
                Err(error) => Err(Failure { why: Unknown::Connect, detail: error.to_string() }),
            },
            State::Waiting { .. } | State::Up { .. } => std::future::pending().await,
        }
    }

    /// The dial made a connection.
    pub(super) fn made(&mut self, connection: Connection, now: Mono) {
        self.state = State::Up { connection: Arc::new(connection), useful_at: now };
    }

    /// A batch was believed.
    pub(super) fn succeeded(&mut self, now: Mono) {
        self.pace.succeeded();
        if let State::Up { useful_at, .. } = &mut self.state {
            *useful_at = now;
        }
    }

    /// Whether a batch that failed with `why` leaves the connection in order: the server answered everything in time, but
    /// says that it cannot serve at present.
    pub(super) fn survives(&self, why: Unknown, now: Mono) -> bool {
        let State::Up { useful_at, .. } = self.state else { return false };
        matches!(why, Unknown::Loading | Unknown::Busy | Unknown::NotMaster) && now.since_ms(useful_at) < PATIENCE_MS
    }

    /// Closes the connection, or ends the dial; it is dialled again when the pace allows.
    pub(super) fn give_up(&mut self, now: Mono) {
        self.state = State::Waiting { until: self.pace.next_dial(now, fastrand::f64()) };
    }
}

/// Whether a connection made for one configuration serves the other too.
pub(super) fn same(a: &RedisConfig, b: &RedisConfig) -> bool {
    let RedisConfig { name: _, host, port, db, username, password, interval: _, timeout, assume_master } = a;
    (host, port, db, username, password, timeout, assume_master)
        == (&b.host, &b.port, &b.db, &b.username, &b.password, &b.timeout, &b.assume_master)
}
