//! What a worker reports, and what it is ordered to do: one word per line.

use lockwatch_judge::named;

named! {
    /// A report of a worker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum News {
        /// It waits for orders.
        Up = "up",
        /// It has the lock.
        Holds = "holds",
        /// It had the lock, and has it no more.
        Lost = "lost",
        /// It has given the lock back, if it had it.
        Released = "released",
        /// It has ended.
        Ended = "ended",
    }
}

named! {
    /// An order on the worker's standard input.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Order {
        /// Get the lock, and wait for it if another one has it.
        Contend = "contend",
        /// Give it back.
        Release = "release",
        /// Make no progress, and go on renewing.
        Hang = "hang",
        /// Work on after a hang.
        Work = "work",
        /// Have the lock, and renew it no more.
        StopRenewing = "stop-renewing",
    }
}

/// What a worker does when it learns that it lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Stops its work and contends again.
    GiveUp,
    /// Continues to work, as programs do that never check.
    WorkOn,
}
