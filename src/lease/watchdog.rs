//! Renewing a hold every third of its lease, for as long as it is wanted, and noticing when it is
//! lost.

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Acquired, Lock};

/// Renewals per lease.
const RENEWALS: u32 = 3;

/// Renews a hold in the background until it is stopped or dropped, or the hold is lost.
pub struct Watchdog {
    task: JoinHandle<Option<Lost>>,
    stop: CancellationToken,
}

/// Why a hold must be regarded as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Redis says that it is not ours (any more).
    NotOurs,
    /// It could not be renewed before the lease ran out on our own clock.
    RanOut,
}

impl Watchdog {
    /// Starts to renew `lock`, which was taken as `acquired` says.
    pub fn start(lock: Lock, acquired: Acquired) -> Watchdog {
        let stop = CancellationToken::new();
        let task = tokio::spawn(renew_until_lost(lock, acquired.held_until, stop.clone()));
        Watchdog { task, stop }
    }

    /// Waits until the hold is lost: then the work must stop at once. May be cancelled.
    pub async fn lost(&mut self) -> Lost {
        match (&mut self.task).await {
            Ok(Some(lost)) => lost,
            // It was not stopped, for that needs `self`; so its task ended in a way that nobody
            // foresaw.
            Ok(None) | Err(_) => Lost::RanOut,
        }
    }

    /// Ends the renewals; when this returns, none is under way.
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

/// `None`: it was stopped.
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
