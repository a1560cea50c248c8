//! Renews a hold every third of its lease until it is stopped, and reports when the hold is lost.

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Acquired, Lock};

/// Number of renewals per lease. Redisson's watchdog uses the same number.
const RENEWALS: u32 = 3;

/// Renews a hold in the background until it is stopped or dropped, or until the hold is lost.
pub struct Watchdog {
    task: JoinHandle<Option<Lost>>,
    stop: CancellationToken,
}

/// Why a hold counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Redis reports that this holder does not hold the lock (any more).
    NotOurs,
    /// It could not be renewed before the lease ran out on the local clock.
    RanOut,
}

impl Watchdog {
    /// Starts to renew `lock`, whose acquisition returned `acquired`.
    pub fn start(lock: Lock, acquired: Acquired) -> Watchdog {
        let stop = CancellationToken::new();
        let task = tokio::spawn(renew_until_lost(lock, acquired.held_until, stop.clone()));
        Watchdog { task, stop }
    }

    /// Waits until the hold is lost: the work must then stop at once. Cancel-safe.
    pub async fn lost(&mut self) -> Lost {
        match (&mut self.task).await {
            Ok(Some(lost)) => lost,
            // `stop` needs `self`, so the task was not stopped here: it panicked or was aborted.
            Ok(None) | Err(_) => Lost::RanOut,
        }
    }

    /// Stops the renewals; when this returns, none is in flight.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if !self.task.is_finished() {
            self.lost().await;
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns `None` if it was stopped.
async fn renew_until_lost(
    lock: Lock,
    mut held_until: Instant,
    stop: CancellationToken,
) -> Option<Lost> {
    let period = lock.lease() / RENEWALS;
    loop {
        let due = (Instant::now() + period).min(held_until);
        tokio::select! {
            () = stop.cancelled() => return None,
            () = sleep_until(due) => {}
        }
        let sent = Instant::now();
        match timeout_at(held_until, lock.renew()).await {
            Ok(Ok(true)) => held_until = sent + lock.lease(),
            Ok(Ok(false)) => return Some(Lost::NotOurs),
            Ok(Err(error)) if Instant::now() < held_until => {
                tracing::warn!(%error, "a renewal failed, to be tried again")
            }
            Ok(Err(_)) | Err(_) => return Some(Lost::RanOut),
        }
    }
}
