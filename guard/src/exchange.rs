//! What goes into the machine, and what comes out of it.

use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;

use crate::hold::Overrun;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Whether users want the task, as of the newest reading. `Unknown` changes nothing.
    Wanted(Wanted),
    /// The store answered the oldest request in flight, or did not.
    Replied(Reply),
    /// Something about the lock changed in the store.
    Changed,
    /// The script and all that came of it are gone. `code`: how the script ended; `None` if its
    /// keeper killed it.
    Gone {
        /// Its exit code; 128 and more for a signal.
        code: Option<u8>,
        /// When the last of its processes was gone.
        at: Mono,
    },
    /// The guard is to end.
    Stop,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This guard has the lock.
    Taken {
        /// The fencing token.
        token: u64,
    },
    /// Another client has it.
    Busy {
        /// What is left of that hold; `None`: it has no end.
        left_ms: Option<u64>,
    },
    /// The lease began again.
    Renewed,
    /// This guard still has the lock.
    Held,
    /// This guard does not have the lock.
    NotOurs,
    /// The lock was given back, or left to itself.
    Released,
    /// No answer, or a refusal: nothing is known.
    Failed,
}

/// What is to be done. [`Action::Take`], [`Action::Renew`], [`Action::Look`], [`Action::Release`]
/// and [`Action::Leave`] are requests: they are sent one after the other, each when the one before
/// is answered, and for each comes an [`Input::Replied`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try to get the lock. Poll right before sending.
    Take,
    /// Renew the lease. Poll right before sending.
    Renew,
    /// Look whether the lock is still held.
    Look,
    /// Give the lock back.
    Release,
    /// Shorten the lease to this and never renew it again: then the lock is free by itself.
    Leave {
        /// What is left of the lease.
        left_ms: u64,
    },
    /// Start the script.
    Start {
        /// The fencing token.
        token: u64,
        /// When it must be dead at the latest, unless that is extended.
        dead_by: Mono,
    },
    /// The script may run until then.
    Extend {
        /// When it must be dead at the latest.
        dead_by: Mono,
    },
    /// Ask the script to end.
    Terminate(Why),
    /// Kill all that came of the script.
    Kill(Why),
    /// Tell that the script ran on when it should not.
    Report(Overrun),
    /// The guard has ended.
    End(End),
}

/// Why a script is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nobody wants the task any more.
    Unwanted,
    /// The guard is to end.
    Asked,
    /// The lease could not be renewed in time.
    NotRenewed,
    /// The lock belongs to somebody else, or to nobody.
    Lost,
}

/// The end of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// What became of it.
    pub outcome: Outcome,
    /// The exit code of the script that ran last, if any ran.
    pub code: Option<u8>,
}

/// What became of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The script ended by itself, and is not started again.
    Done,
    /// It was asked to end.
    Stopped,
    /// It lost the lock, and the script is not started again.
    Lost,
    /// Another client had the lock for all the time that it was to wait.
    NotTaken,
    /// Nobody wanted the task for all that time.
    NotWanted,
    /// The store did not answer for all that time.
    NoStore,
}
