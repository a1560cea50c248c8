//! What outputs show of tasks that take turns.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::time::ServerTime;
use crate::verdict::TurnFact;

/// What is known of tasks that take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnView {
    /// Whether it is somebody's turn.
    pub fact: TurnFact,
    /// Whose turn it is; `None` if it is nobody's, or unknown.
    pub name: Option<Vec<u8>>,
    /// From when on that task may run, on the server's clock; 0: at once.
    pub from: Option<ServerTime>,
    /// Number of fields in the hash, by the newest reading.
    pub fields: Option<usize>,
    /// How long the turn has been overdue, in milliseconds: it is not taken, or lasts.
    pub late_ms: u64,
    /// How often each task had the turn and passed it on, in the order of the configuration.
    pub taken: Box<[Taken]>,
    /// Turns that came out of order; `None` if that is not judged.
    pub out_of_order: Option<u64>,
    /// Names that appeared and are not configured.
    pub unknown_names: u64,
}

/// How often a task passed the turn on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The task.
    pub name: Vec<u8>,
    /// The number.
    pub turns: u64,
}
