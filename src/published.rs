//! The snapshots that the engine publishes and every output reads.
//!
//! A snapshot appears each second, and soon after each event. In such a snapshot, tasks without
//! events are as current as the last [full read](Snapshots::everything). Refreshing thousands of
//! locks that nobody reads would be a large part of the agent's whole cost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::drill::{Drill, Refusal};
use crate::paths::Links;
use lockwatch_judge::snapshot::{Snapshot, StoreView};
use lockwatch_judge::spec::StoreIndex;
use lockwatch_judge::time::{AgentWall, Mono};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant as TokioInstant, timeout, timeout_at};

/// Maximum number of queued requests to the engine.
const LOOKS: usize = 64;
/// Pause between two checks of a condition that no event announces.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A snapshot, with the clock readings that convert its instants for people.
#[derive(Clone, Debug)]
pub struct Published {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The agent's wall clock at `snapshot.at`.
    pub wall: AgentWall,
    /// When it was made, in order to detect that the engine has stopped.
    pub made: Instant,
    /// The patterns, in the order of the configuration.
    pub patterns: Arc<[PatternView]>,
    /// The drill that runs.
    pub drill: Option<Arc<Drill>>,
}

/// What is known of a pattern: how many keys it has, and how completely they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternView {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its store.
    pub store: Arc<str>,
    /// The glob.
    pub glob: Arc<[u8]>,
    /// The most keys that are watched.
    pub max_keys: u64,
    /// The keys that are watched.
    pub keys: u64,
    /// Keys that match and are not watched, because there are too many or their names are too long;
    /// before the first complete scan those found by now, `None` if none.
    pub left_out: Option<u64>,
    /// When the newest complete scan ended.
    pub scanned_at: Option<AgentWall>,
    /// Why the newest scan was cut short.
    pub trouble: Option<Arc<str>>,
}

impl Published {
    /// The agent's wall clock at `instant`, for people to read.
    pub fn wall_at(&self, instant: Mono) -> AgentWall {
        let ago_ms = self.snapshot.at.since_ms(instant);
        AgentWall(self.wall.0 - i64::try_from(ago_ms).unwrap_or(i64::MAX))
    }

    /// A store.
    pub fn store(&self, store: StoreIndex) -> Option<&StoreView> {
        self.snapshot.stores.get(usize::from(store.0)).map(|store| &**store)
    }

    /// The name of a store.
    pub fn store_name(&self, store: StoreIndex) -> String {
        self.store(store).map_or_else(String::new, |store| store.spec.name.to_string())
    }
}

/// Access to the newest snapshot, and to requests for a refreshed one.
#[derive(Clone, Debug)]
pub struct Snapshots {
    newest: watch::Receiver<Arc<Published>>,
    /// `None`: every published snapshot is complete.
    looks: Option<mpsc::Sender<Look>>,
}

/// The switches that users may flip on the page.
#[derive(Clone, Debug)]
pub struct Switches {
    /// The names of the tasks that have them.
    pub tasks: watch::Receiver<Arc<BTreeSet<Arc<str>>>>,
    /// Accepts requests to flip one.
    pub requests: mpsc::Sender<SwitchRequest>,
}

/// A user's request to flip the own switch.
#[derive(Debug)]
pub struct SwitchRequest {
    /// The task's name.
    pub task: String,
    /// The user that has logged in.
    pub user: String,
    /// Whether the user wants the task.
    pub on: bool,
    /// Gets what is there then as JSON, or why it was not done.
    pub answer: oneshot::Sender<Result<String, NotSwitched>>,
}

/// Why a switch was not flipped, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSwitched {
    /// Redis cannot be reached.
    Unreachable(String),
    /// It cannot be done.
    Refused(String),
}

/// Drills, where they can be requested.
#[derive(Clone, Debug)]
pub struct Drilling {
    /// Accepts requests.
    pub requests: mpsc::Sender<DrillRequest>,
    /// Whether only users that have logged in may send them.
    pub needs_login: bool,
}

/// A request about drills.
#[derive(Debug)]
pub struct DrillRequest {
    /// What is requested.
    pub kind: DrillRequestKind,
    /// Gets the drill, once it is published, or no longer.
    pub answer: oneshot::Sender<Result<Arc<Drill>, Refusal>>,
}

/// What is requested about drills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrillRequestKind {
    /// It shall begin.
    Start {
        /// The name of the task.
        task: String,
        /// Its severity, if it is another one than that of the task's critical alerts.
        severity: Option<String>,
        /// How many seconds it lasts at most.
        seconds: u64,
        /// The id of the drill that it follows.
        after: Option<String>,
        /// The user that has logged in.
        by: Option<String>,
    },
    /// The one with this id goes on.
    Renew(String),
    /// The one with this id shall end.
    Stop {
        /// Its id.
        id: String,
        /// Whether a notification was sent.
        notified: bool,
    },
}

/// A reader's request for a refreshed snapshot. It waits until that is published.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: LookAt,
    pub(crate) answer: oneshot::Sender<()>,
}

/// What a reader requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookAt {
    Everything,
    /// The task of this name.
    Task(String),
}

/// The engine did not answer in time, or no snapshot fulfilled the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

impl Snapshots {
    /// Creates a reader of `newest`, and the receiver of its requests.
    pub(crate) fn new(
        newest: watch::Receiver<Arc<Published>>,
    ) -> (Snapshots, mpsc::Receiver<Look>) {
        let (looks, receiver) = mpsc::channel(LOOKS);
        (Snapshots { newest, looks: Some(looks) }, receiver)
    }

    /// The newest snapshot. It is current for Redis stores; for each task it is at least as new as
    /// the last event of that task.
    pub fn newest(&self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow())
    }

    /// The newest snapshot, marked as seen.
    pub(crate) fn see(&mut self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow_and_update())
    }

    /// Returns when there is a snapshot that was not marked as seen.
    ///
    /// # Errors
    /// The publisher has ended.
    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.newest.changed().await
    }

    /// A snapshot in which everything is at most one second old.
    ///
    /// # Errors
    /// There was no answer within `patience`.
    pub async fn everything(&self, patience: Duration) -> Result<Arc<Published>, Unanswered> {
        self.look(LookAt::Everything, patience).await
    }

    /// A snapshot in which the task called `name` is current.
    ///
    /// # Errors
    /// There was no answer within `patience`.
    pub async fn task(&self, name: &str, patience: Duration) -> Result<Arc<Published>, Unanswered> {
        self.look(LookAt::Task(name.to_owned()), patience).await
    }

    /// Requests a complete snapshot without waiting for it. The request is dropped if too many
    /// others are queued.
    pub(crate) fn ask_for_everything(&self) {
        if let Some(looks) = &self.looks {
            let _others_ask =
                looks.try_send(Look { at: LookAt::Everything, answer: oneshot::channel().0 });
        }
    }

    /// The first complete snapshot for which `fits` returns true.
    ///
    /// # Errors
    /// There was none within `patience`.
    pub async fn everything_that(
        &self,
        patience: Duration,
        fits: impl Fn(&Published) -> bool,
    ) -> Result<Arc<Published>, Unanswered> {
        self.look_until(LookAt::Everything, patience, fits).await
    }

    /// The first snapshot with a current task called `name` for which `fits` returns true.
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

/// For a publisher whose snapshots are always complete.
impl From<watch::Receiver<Arc<Published>>> for Snapshots {
    fn from(newest: watch::Receiver<Arc<Published>>) -> Snapshots {
        Snapshots { newest, looks: None }
    }
}

/// The result of the newest load of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadStatus {
    /// Whether the last attempt succeeded.
    pub successful: bool,
    /// When the configuration in force was loaded.
    pub success_at: AgentWall,
    /// Identifies its tasks; 0 if it has none.
    pub tasks: u64,
    /// Its links.
    pub links: Links,
}

/// Requests a reload of the configuration. The reply is sent through it: the error is text for a
/// person.
pub type ReloadRequest = oneshot::Sender<Result<(), String>>;
