//! What a watcher asks of its driver, and what the driver reports to it. The driver owns the sockets,
//! the clocks and the secrets; it decides nothing.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use lockwatch_judge::input::{self, Role};
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};

use super::ask::Ask;
use super::reply::{Command, Reply};
use super::store::HostPort;
use super::tasks::Assignment;

/// One instant on both clocks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Mono,
    /// The wall clock.
    pub wall: AgentWall,
}

/// The number of a connection. A watcher uses each number once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// What the driver is to do.
#[derive(Debug)]
pub enum Action {
    /// Open a connection; the result is an [`Event::Dialled`] or an [`Event::Failed`].
    Dial(Dial),
    /// Send a batch in one write. On a connection that talks, the result is an [`Event::Replied`]
    /// with as many replies, or an [`Event::Failed`]. Several batches may be in flight; their
    /// results come in order.
    Send {
        /// The connection.
        link: LinkId,
        /// The commands.
        commands: Vec<Command>,
    },
    /// On a connection that listens: read once more. The result is an [`Event::Pushed`] or an
    /// [`Event::Failed`].
    Hear(LinkId),
    /// Close the connection, or end the dial. Nothing that still arrives matters.
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
    /// Which credentials to log in with first, if there are any.
    pub login: Login,
    /// What is said over it.
    pub manner: Manner,
    /// The commands to send at once, after the login and in one write with it.
    pub commands: Vec<Command>,
    /// So many of them, with the login, go first and alone: the others follow once
    /// [`super::handshake::may_go_on`] permits it by the last answer. 0: all go at once.
    pub alone: usize,
    /// Number of attempts since the last useful one: each begins with another address of the name.
    pub attempt: usize,
    /// Maximum wait for the replies to `commands`, in milliseconds.
    pub timeout_ms: u64,
}

/// Whose credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Those for the servers of the store.
    Store,
    /// Those for the Sentinels.
    Sentinel,
}

/// What is said over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Requests and their replies (RESP2).
    Talk,
    /// What the server announces, besides the replies to the first commands.
    Listen,
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
    /// The server was reached.
    Dialled(Box<Dialled>),
    /// There is no connection, or none any more. All batches in flight have failed.
    Failed(Failure),
    /// The oldest batch in flight was answered.
    Replied {
        /// When the last reply was received.
        received: Mono,
        /// One reply for each command.
        replies: Vec<Reply>,
    },
    /// The server announced something.
    Pushed {
        /// The size of what was read, in bytes.
        bytes: usize,
        /// The announcements in it.
        pushes: Vec<Push>,
    },
}

/// The answers of a server that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialled {
    /// When the first commands were sent.
    pub sent: Now,
    /// When the last reply was received.
    pub received: Mono,
    /// The reply to the login; `None`: there are no credentials.
    pub auth: Option<Reply>,
    /// The replies to [`Dial::commands`], perhaps only the first ones.
    pub replies: Vec<Reply>,
    /// Why there are no more replies and no connection; `None`: it is open.
    pub ended: Option<Failure>,
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// This key changed, expired or was deleted, in any database.
    Changed(Vec<u8>),
    /// Any key may have changed: all keys were deleted.
    AllChanged,
    /// The reply to a ping.
    Alive,
    /// A command was refused.
    Refused(super::reply::ServerError),
    /// Anything else, for example a message on a channel.
    Other,
}

/// Why a connection could not be made, or is no longer usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, as one of a closed list.
    pub why: Unknown,
    /// The details for the log. They hold no secret and no control character.
    pub detail: String,
}

impl Failure {
    /// A failure with these details.
    pub fn new(why: Unknown, detail: impl fmt::Display) -> Failure {
        Failure::new_printable(why, printable(&detail.to_string()))
    }

    /// A failure with details that are printable already.
    pub(super) fn new_printable(why: Unknown, detail: String) -> Failure {
        Failure { why, detail }
    }
}

/// The text without what a terminal or a log must not get. Quotes stay as they are.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why.name(), self.detail)
    }
}

impl core::error::Error for Failure {}

/// The part of a batch about one task: what a server was asked, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The task.
    pub task: TaskIndex,
    /// The server's address, `host:port`.
    pub node: Arc<str>,
    /// Why the server was asked.
    pub asked: ReadReason,
    /// The round of the reading, from 1.
    pub round: u8,
    /// When the batch was sent.
    pub sent: Mono,
    /// Time until the answer, in milliseconds.
    pub took_ms: u64,
    /// What was asked about this task, with the replies, secrets included.
    pub said: Vec<(Ask, Option<Reply>)>,
    /// The standing of an accepted batch, or why it was rejected.
    pub outcome: Result<Acceptance, Unknown>,
}

/// The standing of an accepted batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// The role that the server reported after its answers.
    pub role: Role,
    /// Whether the server reported the role itself.
    pub role_verified: bool,
    /// The server's clock before the first answer.
    pub clock: ServerTime,
    /// The reading; `None`: another round follows.
    pub reading: Option<TaskReading>,
}

/// Why a server was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadReason {
    /// It decides about the lock.
    Decides,
    /// It has keys beside the lock, in a cluster.
    Parts,
    /// It is a witness.
    Witness,
}

impl ReadReason {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ReadReason::Decides => "decides",
            ReadReason::Parts => "beside",
            ReadReason::Witness => "witness",
        }
    }
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A server was connected.
    Connected {
        /// Its address.
        node: Arc<str>,
        /// Its version, if it reports one.
        version: Option<Arc<str>>,
        /// Its role, if it reports one.
        role: Option<Role>,
    },
    /// A server cannot be connected, for another reason than before.
    CannotConnect(Arc<str>, Failure),
    /// A batch was not answered.
    BatchFailed(Arc<str>, Failure),
    /// A server answers, but not what was asked, and these are other words than before.
    Refuses(Arc<str>, Failure),
    /// A server answers this command with an error of no known kind.
    Refused(Arc<str>, String),
    /// A Sentinel names no master, for another reason than before.
    NoMaster {
        /// The Sentinel.
        sentinel: HostPort,
        /// The reason.
        failure: Failure,
    },
    /// A Sentinel's announcements cannot be heard.
    CannotListen(HostPort, Failure),
    /// No server reports the cluster's layout, for another reason than before.
    NoLayout(Failure),
    /// A server does not report the cluster's layout.
    TellsNoLayout(HostPort, Failure),
    /// A server is announced at an address that is not allowed.
    Foreign(String),
    /// A server announces changes of keys with this many prefixes.
    Announces(Arc<str>, usize),
    /// A server does not announce changes.
    AnnouncesNothing(Arc<str>, Failure),
    /// A server announced more changes than this many each second: it is asked again after the
    /// pause in milliseconds.
    Flooded(Arc<str>, u64, u64),
}
