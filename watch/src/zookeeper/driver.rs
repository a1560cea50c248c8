//! What a watcher asks of its driver, and what the driver reports to it. The driver owns sockets,
//! clocks and secrets; it decides nothing.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input;
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::Mono;

use super::codec::{Answer, Ask, Zxid};
use super::store::Assignment;
use crate::redis::driver::{Failure, LinkId, Note};
use crate::redis::store::HostPort;

/// What the driver is to do.
#[derive(Debug)]
pub enum Action {
    /// Open a connection and send its first frame, and after it the login, if there is one. The
    /// result is an [`Event::Reached`] or an [`Event::Failed`].
    Dial(Dial),
    /// Send these frames in one write. Every frame that comes is an [`Event::Frame`].
    Send {
        /// The connection.
        link: LinkId,
        /// Whole frames, one after the other.
        frames: Vec<u8>,
    },
    /// Close the connection once all is sent, or end the dial. Nothing that still arrives matters.
    Close(LinkId),
    /// Give this to the state.
    Evidence(input::Input),
    /// Show this to those who trace the task.
    Exchange(Box<Exchange>),
    /// Log this.
    Note(Note),
}

/// A connection to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Its number.
    pub link: LinkId,
    /// The server's address.
    pub to: HostPort,
    /// The frame to send first.
    pub greeting: Vec<u8>,
    /// Number of attempts since the last useful one: each begins with another address of the name.
    pub attempt: usize,
    /// Maximum wait for the connection, in milliseconds.
    pub timeout_ms: u64,
}

/// What happened to the watcher.
#[derive(Debug)]
pub enum Input {
    /// Something happened on a connection.
    Link(LinkId, Event),
    /// What to watch from now on.
    Assigned {
        /// The new assignment.
        assignment: Arc<Assignment>,
        /// Whether the credentials and TLS are unchanged: if not, connections are made again.
        same_logins: bool,
    },
    /// The tasks whose exchanges are wanted from now on.
    Traced(Arc<BTreeSet<TaskIndex>>),
}

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server was reached, and the first frame sent.
    Reached,
    /// A frame came, of at most [`super::codec::FRAME_BYTES_MAX`] bytes: what is in it, without its
    /// length.
    Frame(Vec<u8>),
    /// A longer frame came, and was skipped.
    TooLarge {
        /// Its first [`super::codec::HEADER_BYTES`] bytes.
        header: Vec<u8>,
        /// Its length.
        bytes: usize,
    },
    /// There is no connection, or none any more.
    Failed(Failure),
}

/// What a server was asked about one task, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The task.
    pub task: TaskIndex,
    /// The server's address, `host:port`.
    pub node: Arc<str>,
    /// When the first question was sent.
    pub sent: Mono,
    /// Time until the last answer, in milliseconds.
    pub took_ms: u64,
    /// What was asked about this task, with the answers; `None`: too large to be read.
    pub said: Vec<(Ask, Option<Answer>)>,
    /// The newest change that the server showed.
    pub zxid: Zxid,
    /// The reading, or why there is none.
    pub reading: Result<TaskReading, Unknown>,
}
