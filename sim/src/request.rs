//! A batch of an agent in transit, and what its server truly answered: data only.

use std::sync::Arc;

use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::driver::{LinkId, Now};
use lockwatch_watch::redis::reply::{Command, Reply};

use crate::truth::LockState;

/// A connection of an agent's process.
pub(crate) type Line = (usize, u32, LinkId);

/// A batch in transit.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) line: Line,
    pub(crate) server: usize,
    pub(crate) number: u64,
    pub(crate) process: u64,
    /// It is the first batch of its connection, sent at this instant.
    pub(crate) greeting: Option<Now>,
    /// The replies are read like announcements.
    pub(crate) listens: bool,
    /// It is being served.
    pub(crate) is_first: bool,
    pub(crate) commands: Vec<Command>,
    pub(crate) cursor: usize,
    /// The task of each part, and the positions of its commands.
    pub(crate) places: Vec<(usize, usize, usize)>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) truth: BatchTruth,
    /// The command before which other clients are served, and for how long.
    pub(crate) pause: Option<(usize, u64)>,
}

/// What a server did with a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchTruth {
    pub(crate) number: u64,
    pub(crate) server: usize,
    pub(crate) began_at: u64,
    pub(crate) ended_at: u64,
    /// Whether it was the master when its role was read.
    pub(crate) master: bool,
    /// Whether it answered all framing commands of the batch.
    pub(crate) whole: bool,
    /// The number of steps of its clock, and its lead over true time, at the beginning.
    pub(crate) clock_ahead_ms: i64,
    /// The time that its clock showed when it was last read, and its lead over true time then.
    pub(crate) clock_after: i64,
    pub(crate) clock_ahead_after_ms: i64,
    pub(crate) offset: u64,
    pub(crate) parts: Vec<PartTruth>,
}

/// The true data of one task when a server answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartTruth {
    pub(crate) task: usize,
    /// When the round that read the lock was sent, if it was another round.
    pub(crate) sent: Option<Mono>,
    pub(crate) began_at: u64,
    pub(crate) ended_at: u64,
    /// When the whole batch was answered.
    pub(crate) answered_at: u64,
    /// Whether the lock was requested.
    pub(crate) has_lock: bool,
    /// Whether only the lock's deadline was requested.
    pub(crate) glance: bool,
    /// Whether the parts were requested, if there are any.
    pub(crate) has_parts: bool,
    /// All states of the lock during the read; `None`: reading it was refused.
    pub(crate) lock: Option<Vec<LockState>>,
    /// The server's time at the end.
    pub(crate) clock: i64,
    /// The switches; `None`: reading them was refused.
    pub(crate) switches: Option<Option<Arc<Switches>>>,
    pub(crate) says: Says,
    /// The parts changed during the read.
    pub(crate) mixed: bool,
    /// The keys moved to another server during the read.
    pub(crate) moved: bool,
    pub(crate) progress: Option<Option<Vec<u8>>>,
    /// When that ends, if it does.
    pub(crate) progress_ends: Option<i64>,
    pub(crate) claims: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The members of a queue; `None`: it is none, or reading them was refused.
    pub(crate) members: Option<Members>,
    /// The same at the end of the read, if that changed meanwhile.
    pub(crate) members_after: Option<Members>,
    /// The server's time at the beginning.
    pub(crate) clock_began: i64,
    pub(crate) pause: Pause,
}

/// The key that says until when alerts wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pause {
    /// There is none, or reading it was refused.
    #[default]
    Unread,
    /// It said this time, in seconds, or nothing.
    Says(Option<i64>),
    /// It changed during the read, which found one or the other.
    Changed,
}

impl PartTruth {
    /// The same, with the instant at which it was requested.
    pub(crate) fn at(&self, sent: Mono) -> PartTruth {
        PartTruth { sent: Some(sent), ..self.clone() }
    }
}

/// Whether a task is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Says {
    Yes,
    #[default]
    No,
    /// A switch decodes as neither, and no other one as on.
    Unclear,
    /// There are no switches.
    Unset,
}

impl Says {
    /// Combines switches: one that is on is enough; otherwise one that is unclear makes the result
    /// unclear.
    pub(crate) fn of(switches: &[(Vec<u8>, Option<bool>)]) -> Says {
        if switches.iter().any(|(_, on)| *on == Some(true)) {
            Says::Yes
        } else if switches.iter().any(|(_, on)| on.is_none()) {
            Says::Unclear
        } else {
            Says::No
        }
    }
}

/// All existing switches: the user, and whether it is on.
pub(crate) type Switches = Vec<(Vec<u8>, Option<bool>)>;

/// A queue as a server has it: each member, its instant, and who holds its lock.
pub(crate) type Members = Vec<(Vec<u8>, i64, Option<Vec<u8>>)>;
