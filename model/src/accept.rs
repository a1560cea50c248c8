//! Whether replies may be believed: only a complete, timely answer from a server that says it is master, on that
//! connection, after the answers it vouches for.

use alloc::vec::Vec;

use crate::input::Vouch;
use crate::reading::Unknown;
use crate::reply::{Command, Reply};
use crate::time::{AgentWall, Mono};

/// What a server can do and lets this user do, found out when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// It has `PEXPIRETIME` (Redis 7.0).
    pub pexpiretime: bool,
    /// How it says its role.
    pub role: RoleCheck,
    /// It answers `INFO`.
    pub info: bool,
}

/// How a server's role is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleCheck {
    /// By `ROLE`.
    Role,
    /// By `INFO replication`, because `ROLE` is refused.
    Info,
    /// Not at all: both are refused and the user vouches for it.
    Assumed,
}

/// The instants around a batch.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// When the request was sent.
    pub sent: Mono,
    /// When the last reply had arrived.
    pub received: Mono,
    /// The agent's wall clock when the request was sent.
    pub sent_wall: AgentWall,
    /// A reply older than this is no evidence.
    pub timeout_ms: u64,
}

/// The commands that open each batch.
pub fn header() -> Vec<Command> {
    Vec::new()
}

/// The commands that close each batch; `nonce` must differ from batch to batch.
pub fn footer(caps: Caps, nonce: &[u8]) -> Vec<Command> {
    let _ = (caps, nonce);
    Vec::new()
}

/// Judges a batch by the replies to its [`header`] and [`footer`].
///
/// # Errors
/// Why nothing of the batch may be believed.
pub fn vouch(caps: Caps, timing: Timing, nonce: &[u8], header: &[Reply], footer: &[Reply]) -> Result<Vouch, Unknown> {
    let _ = (caps, timing, nonce, header, footer);
    Err(Unknown::Protocol)
}
