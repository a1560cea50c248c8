//! Redis: standalone, replicated, with Sentinels, or a cluster.
//!
//! ```text
//! spec ──> read (which commands to send) ──> accept (may these replies be believed?) ──> libraries / wanted / codec (decode)
//! ```

pub mod accept;
pub mod codec;
pub mod libraries;
mod pause;
pub mod read;
pub mod reply;
pub mod schedule;
pub mod topology;
pub mod wake_ups;
pub mod wanted;
