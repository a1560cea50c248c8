//! The Redis client. Only this module uses the redis crate; all other code uses the model's
//! [`Reply`](lockwatch_watch::redis::reply::Reply).
//!
//! A connection belongs to one sampler and is never repaired: after any timeout or IO error its
//! owner drops it and dials again, so that no late reply can answer another request.

mod connect;
mod connection;
mod convert;
mod guard;
mod handshake;
mod listener;
mod resolve;
mod tracking;

use std::fmt;

use lockwatch_judge::reading::Unknown;

pub use connect::{Opened, Opening, connect, greet_over};
pub use connection::Connection;
pub use listener::Listener;
pub use tracking::{Push, Tracking};

/// Why a connection could not be made, or is no longer usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, as one of a closed list.
    pub why: Unknown,
    /// The details for the log. They hold no secret and no control character.
    pub detail: String,
}

impl Failure {
    fn new(why: Unknown, detail: impl fmt::Display) -> Failure {
        Failure { why, detail: detail.to_string().escape_debug().to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why.name(), self.detail)
    }
}

impl std::error::Error for Failure {}
