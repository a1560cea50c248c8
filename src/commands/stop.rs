//! Waits for the signals that end a command.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Stop([Signal; 3]);

impl Stop {
    pub(crate) fn listen() -> anyhow::Result<Stop> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Stop([
            on(SignalKind::interrupt())?,
            on(SignalKind::terminate())?,
            on(SignalKind::hangup())?,
        ]))
    }

    /// Returns when one of the signals arrives.
    pub(crate) async fn requested(&mut self) {
        let Stop([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
