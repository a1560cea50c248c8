//! What outputs show of periodic runs.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::event::{End, Party};
use crate::time::{Mono, ServerTime};
use crate::verdict::RunFact;

/// What is known of the runs of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsView {
    /// Whether one goes on.
    pub fact: RunFact,
    /// The run that goes on.
    pub present: Option<Arc<PeriodicRun>>,
    /// The newest run whose work is over.
    pub last: Option<Arc<PeriodicRun>>,
    /// When the newest run began whose beginning this process saw.
    pub began: Option<Mono>,
    /// The newest time in which no run can have come and gone unseen, up to the next reading if
    /// that is soon.
    pub watched: Option<Range<Mono>>,
    /// How long the next run has been awaited, since then, or since this process began to watch.
    pub awaited_ms: u64,
    /// For how long it has been due; 0 if it is not.
    pub late_ms: u64,
    /// It may have come and gone unseen: there were no readings around the time when it was due,
    /// so it is expected a period later.
    pub may_have_run: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodicRun {
    /// Its holders, with their hosts if known; empty: only the progress showed the run.
    pub by: Vec<Party>,
    /// When it began; `None`: before this process began to watch.
    pub began: Option<Mono>,
    /// The same, on the server's clock.
    pub began_at: Option<ServerTime>,
    /// Its work is over.
    pub over: Option<Over>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// How its hold ended; `None`: its holder still keeps the lock, for as long as it set.
    pub end: Option<End>,
    /// How long the work took, if its beginning and its end were seen. In milliseconds.
    pub lasted_ms: Option<u64>,
}
