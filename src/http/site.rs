//! Everything that the routes answer from: the snapshots, and what bounds the work for clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::age::stopped;
use super::context::HttpContext;
use super::live::Feed;
use crate::outputs::exposition::{KEPT_FOR, Readers};
use crate::published::{Published, Unanswered};

/// Everything that is served.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) context: HttpContext,
    /// Cancelled on shutdown: streams must end.
    pub(super) shutdown: CancellationToken,
    pub(super) feed: Feed,
    /// Permits for further streams.
    pub(super) streams: Arc<Semaphore>,
    /// Permits for further explanations.
    pub(super) explanations: Semaphore,
    pub(super) readers: Readers,
}

impl Site {
    pub(super) fn new(context: HttpContext, shutdown: CancellationToken) -> Site {
        let feed = Feed::new(&context, shutdown.clone());
        let limits = context.limits;
        Site {
            context,
            shutdown,
            feed,
            streams: Arc::new(Semaphore::new(limits.streams)),
            explanations: Semaphore::new(limits.explanations),
            readers: Readers::new(KEPT_FOR),
        }
    }

    /// The newest snapshot. Its Redis stores and events are at most one second old.
    pub(super) fn newest(&self) -> Arc<Published> {
        self.context.snapshots.newest()
    }

    /// A snapshot in which everything is current, and the reason if it must not be taken as
    /// current.
    pub(super) async fn everything(&self) -> (Arc<Published>, Option<String>) {
        let looked = self.context.snapshots.everything(self.patience()).await;
        self.looked(looked)
    }

    /// The same for one task.
    pub(super) async fn look_at(&self, task: &str) -> (Arc<Published>, Option<String>) {
        let looked = self.context.snapshots.task(task, self.patience()).await;
        self.looked(looked)
    }

    fn looked(
        &self,
        looked: Result<Arc<Published>, Unanswered>,
    ) -> (Arc<Published>, Option<String>) {
        let silent = || {
            "The agent's engine does not answer: see its log, or it is being stopped.".to_owned()
        };
        let unanswered = looked.is_err().then(silent);
        let published = looked.unwrap_or_else(|Unanswered| self.newest());
        let stopped = self.stopped(&published).or(unanswered);
        (published, stopped)
    }

    /// How long the engine may take to answer: until it counts as stopped.
    fn patience(&self) -> Duration {
        self.context.limits.snapshot_age.saturating_sub(self.newest().made.elapsed())
    }

    /// Why the snapshot must not be taken as current, if so.
    pub(super) fn stopped(&self, published: &Published) -> Option<String> {
        stopped(published, self.context.limits.snapshot_age)
    }
}
