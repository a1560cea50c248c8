//! Tracks a queue of delayed tasks.

/// What is known of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Number of members; `None` when unknown.
    pub members: Option<u64>,
    /// Number of members that are due; `None` when unknown.
    pub due: Option<u64>,
    /// How long a member has been due that nobody executes, in milliseconds, once that is too long;
    /// otherwise 0.
    pub late_ms: u64,
}
