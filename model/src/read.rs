//! How one task is read in one sweep: which commands, in which order, and what their replies say.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::accept::Caps;
use crate::reading::TaskReading;
use crate::reply::{Command, Reply};
use crate::spec::TaskSpec;

/// One task's part of a sweep. Most are done after one round; a torn bracket or the readers of a read lock need another.
#[derive(Clone, Debug)]
pub struct TaskRead {
    spec: Arc<TaskSpec>,
    caps: Caps,
    with_extras: bool,
}

/// What a round of replies led to.
#[derive(Clone, Debug)]
pub enum Round {
    /// The reading is complete.
    Done(TaskReading),
    /// More must be asked, in a batch of its own (with its own header and footer); at most two more rounds follow.
    Again(TaskRead),
}

impl TaskRead {
    /// The first round for `spec`.
    pub fn new(spec: Arc<TaskSpec>, caps: Caps, with_extras: bool) -> TaskRead {
        TaskRead { spec, caps, with_extras }
    }

    /// Appends this round's commands.
    pub fn commands(&self, out: &mut Vec<Command>) {
        let _ = (&self.spec, self.caps, self.with_extras, out);
    }

    /// Reads this round's replies: exactly as many as [`TaskRead::commands`] appended.
    pub fn decode(self, replies: &[Reply]) -> Round {
        let _ = replies;
        Round::Again(self)
    }
}
