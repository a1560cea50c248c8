//! What is known of what guards a task: each kind has states of its own.

named! {
    /// What is known of a lock, after confirmation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LockFact {
        /// Held, or looking free for the first time after that.
        Held = "held",
        /// Free, and confirmed.
        Free = "free",
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
    }
}

named! {
    /// What is known of a turn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum TurnFact {
        /// It is somebody's turn.
        Somebody = "somebody",
        /// It is nobody's turn.
        Nobody = "nobody",
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
    }
}

named! {
    /// What is known of a queue.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum QueueFact {
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
        /// The newest attempt gave one.
        Read = "read",
    }
}

named! {
    /// What is known of the runs of a periodic task.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RunFact {
        /// None was seen yet.
        Unseen = "unseen",
        /// One goes on.
        GoesOn = "goes_on",
        /// The newest one is over.
        Over = "over",
    }
}

/// The same of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardFact {
    /// Of a lock.
    Lock(LockFact),
    /// Of a turn.
    Turn(TurnFact),
    /// Of a queue.
    Queue(QueueFact),
}

impl GuardFact {
    /// What it is a state of.
    pub fn of(self) -> &'static str {
        match self {
            GuardFact::Lock(_) => "lock",
            GuardFact::Turn(_) => "turn",
            GuardFact::Queue(_) => "queue",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            GuardFact::Lock(fact) => fact.name(),
            GuardFact::Turn(fact) => fact.name(),
            GuardFact::Queue(fact) => fact.name(),
        }
    }

    /// Whether there is no trustworthy reading.
    pub fn is_unknown(self) -> bool {
        matches!(
            self,
            GuardFact::Lock(LockFact::Unknown)
                | GuardFact::Turn(TurnFact::Unknown)
                | GuardFact::Queue(QueueFact::Unknown)
        )
    }
}
