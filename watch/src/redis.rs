//! Redis: standalone, replicated, with Sentinels, or a cluster.
//!
//! ```text
//! spec ──> read (what is asked, of libraries and parts) ──> accept (may these replies be believed?)
//!      ──> read (what they say)
//! ```

pub mod accept;
pub mod ask;
pub mod codec;
pub mod libraries;
mod parts;
pub mod read;
mod replies;
pub mod reply;
pub mod schedule;
pub mod topology;
pub mod wake_ups;
