//! What the engine publishes and every output reads.

use std::time::Instant;

use lockwatch_model::snapshot::Snapshot;
use lockwatch_model::time::{AgentWall, Mono};
use tokio::sync::oneshot;

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

/// How the configuration was last loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadStatus {
    /// Whether the last attempt succeeded.
    pub successful: bool,
    /// When the configuration in force was loaded.
    pub success_at: AgentWall,
}

/// Asks for a reload of the configuration; the answer is sent back: why it failed, in words for a person.
pub type ReloadRequest = oneshot::Sender<Result<(), String>>;
