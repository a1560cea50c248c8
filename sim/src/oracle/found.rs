//! What single readings of a task found.

use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;

use crate::truth::LockState;

/// The result of the newest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    Never,
    Failed,
    Answered,
    /// It is uncertain whether it found anything.
    Open,
}

/// The result of a reading.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) sent: Mono,
    pub(super) server: usize,
    /// The true instants between which the lock was read.
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the batch was answered; at its end the server reports what happened to its data.
    pub(super) whole: u64,
    /// All states of the lock between these instants.
    pub(super) states: Vec<LockState>,
    pub(super) clock: i64,
    /// The server's time when the whole batch was answered. It determines whether a deadline had
    /// passed.
    pub(super) clock_after: i64,
}

/// The newest pause that was read, and when it ends on the agent's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) end: Option<Mono>,
}

/// The reported or required verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing yet.
    #[default]
    Nothing,
    This(Verdict),
    /// The readings leave it open; the next snapshot counts.
    Open,
}
