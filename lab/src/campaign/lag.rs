//! Measures how late this process runs: without a core it could not inject, forward or observe
//! anything in time.

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::clock::{Micros, now, wall_ahead};
use super::log::Log;

const FILE: &str = "lag.log";
const TICK: Duration = Duration::from_millis(20);
/// Minimum delay that is logged, in microseconds.
const NOTABLE: Micros = 50_000;

/// The measurement; it runs until it is stopped.
#[derive(Debug)]
pub(super) struct Lag(JoinHandle<()>);

/// Starts to measure.
pub(super) fn start(folder: &Path) -> anyhow::Result<Lag> {
    let log = Log::open(folder, FILE)?;
    log.line(format_args!("begin {} {}", now(), wall_ahead()));
    Ok(Lag(tokio::spawn(async move {
        loop {
            let before = now();
            sleep(TICK).await;
            let late = now() - before;
            if late > NOTABLE {
                log.line(format_args!("late {before} {}", now()));
            }
        }
    })))
}

impl Lag {
    /// Stops and logs the instant, and the wall clock at it.
    pub(super) fn stop(self, folder: &Path) -> anyhow::Result<()> {
        self.0.abort();
        Log::open(folder, FILE)?.line(format_args!("end {} {}", now(), wall_ahead()));
        Ok(())
    }
}
