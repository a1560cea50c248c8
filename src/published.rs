//! What the engine publishes and every output reads.
//!
//! A snapshot appears each second, and soon after each event. What it shows of a task to which
//! nothing happened was right when somebody last [looked](Snapshots::everything): to make that anew
//! for thousands of locks that nobody looks at would be a good part of all that watching them
//! costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwatch_model::snapshot::Snapshot;
use lockwatch_model::time::{AgentWall, Mono};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant as TokioInstant, timeout, timeout_at};

/// Looks that may wait for the engine.
const LOOKS: usize = 64;
/// Who waits for something that is no event looks again so soon.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A snapshot, with what is needed to show its instants to people.
#[derive(Clone, Debug)]
pub struct Published {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The agent's wall clock at `snapshot.at`.
    pub wall: AgentWall,
    /// When it was made, to notice an engine that stopped.
    pub made: Instant,
}

impl Published {
    /// The agent's wall clock at `instant`, for people to read.
    pub fn wall_at(&self, instant: Mono) -> AgentWall {
        let ago_ms = self.snapshot.at.since_ms(instant);
        AgentWall(self.wall.0 - i64::try_from(ago_ms).unwrap_or(i64::MAX))
    }
}

/// Where snapshots appear, and the way to ask for what they shall show anew.
#[derive(Clone, Debug)]
pub struct Snapshots {
    newest: watch::Receiver<Arc<Published>>,
    /// `None`: all that appear show everything anew.
    looks: Option<mpsc::Sender<Look>>,
}

/// Somebody looks, and waits until it was published.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: LookAt,
    pub(crate) answer: oneshot::Sender<()>,
}

/// What somebody looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookAt {
    Everything,
    /// The task of this name.
    Task(String),
}

/// Whoever publishes did not answer, or not as was hoped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

impl Snapshots {
    /// What appears in `newest`, and where it is told that somebody looks.
    pub(crate) fn new(
        newest: watch::Receiver<Arc<Published>>,
    ) -> (Snapshots, mpsc::Receiver<Look>) {
        let (looks, receiver) = mpsc::channel(LOOKS);
        (Snapshots { newest, looks: Some(looks) }, receiver)
    }

    /// The newest one: right about redises, and about each task as of the last event that happened
    /// to it, or later.
    pub fn newest(&self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow())
    }

    /// The same, and noted as seen.
    pub(crate) fn see(&mut self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow_and_update())
    }

    /// Returns when there is one that was not seen.
    ///
    /// # Errors
    /// There will be none.
    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.newest.changed().await
    }

    /// One that shows everything as it is known now, but for figures of a second at most.
    ///
    /// # Errors
    /// There was no answer in `patience`.
    pub async fn everything(&self, patience: Duration) -> Result<Arc<Published>, Unanswered> {
        self.look(LookAt::Everything, patience).await
    }

    /// One that shows the task called `name` as it is known now.
    ///
    /// # Errors
    /// There was no answer in `patience`.
    pub async fn task(&self, name: &str, patience: Duration) -> Result<Arc<Published>, Unanswered> {
        self.look(LookAt::Task(name.to_owned()), patience).await
    }

    /// Has one made that shows everything, without waiting for it; with too many others who want
    /// that it is left out.
    pub(crate) fn ask_for_everything(&self) {
        if let Some(looks) = &self.looks {
            let _others_ask =
                looks.try_send(Look { at: LookAt::Everything, answer: oneshot::channel().0 });
        }
    }

    /// The first one that shows everything so that it `fits`.
    ///
    /// # Errors
    /// There was none in `patience`.
    pub async fn everything_that(
        &self,
        patience: Duration,
        fits: impl Fn(&Published) -> bool,
    ) -> Result<Arc<Published>, Unanswered> {
        self.look_until(LookAt::Everything, patience, fits).await
    }

    /// The same of the task called `name`.
    pub(crate) async fn task_that(
        &self,
        name: &str,
        patience: Duration,
        fits: impl Fn(&Published) -> bool,
    ) -> Result<Arc<Published>, Unanswered> {
        self.look_until(LookAt::Task(name.to_owned()), patience, fits).await
    }

    async fn look_until(
        &self,
        at: LookAt,
        patience: Duration,
        fits: impl Fn(&Published) -> bool,
    ) -> Result<Arc<Published>, Unanswered> {
        let until = TokioInstant::now() + patience;
        let mut newest = self.newest.clone();
        loop {
            let left = until.saturating_duration_since(TokioInstant::now());
            let shown = self.look(at.clone(), left).await?;
            if fits(&shown) {
                return Ok(shown);
            }
            if left.is_zero() {
                return Err(Unanswered);
            }
            newest.mark_unchanged();
            let again = (TokioInstant::now() + LOOK_AGAIN).min(until);
            let _woken_or_not = timeout_at(again, newest.changed()).await;
        }
    }

    async fn look(&self, at: LookAt, patience: Duration) -> Result<Arc<Published>, Unanswered> {
        if let Some(looks) = &self.looks {
            let (answer, answered) = oneshot::channel();
            let asked = async {
                looks.send(Look { at, answer }).await.map_err(|_| Unanswered)?;
                answered.await.map_err(|_| Unanswered)
            };
            timeout(patience, asked).await.unwrap_or(Err(Unanswered))?;
        }
        Ok(self.newest())
    }
}

/// Of somebody who shows everything anew each time.
impl From<watch::Receiver<Arc<Published>>> for Snapshots {
    fn from(newest: watch::Receiver<Arc<Published>>) -> Snapshots {
        Snapshots { newest, looks: None }
    }
}

/// How the configuration was last loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadStatus {
    /// Whether the last attempt succeeded.
    pub successful: bool,
    /// When the configuration in force was loaded.
    pub success_at: AgentWall,
}

/// Asks for a reload of the configuration; the answer is sent back: why it failed, in words for a
/// person.
pub type ReloadRequest = oneshot::Sender<Result<(), String>>;
