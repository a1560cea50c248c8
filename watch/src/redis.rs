//! Redis: standalone, replicated, with Sentinels, or a cluster.
//!
//! ```text
//! spec ──> read (what is asked, of libraries and parts) ──> accept (may these replies be believed?)
//!      ──> read (what they say)
//! ```

pub mod accept;
pub mod ask;
mod authority;
pub mod batch;
pub mod codec;
mod diagnosis;
pub mod driver;
mod expiry;
pub mod handshake;
mod instant;
mod kind;
pub mod libraries;
mod link;
mod node;
mod out;
mod pace;
pub(crate) mod parts;
mod plan;
pub mod read;
pub(crate) mod replies;
pub mod reply;
pub mod schedule;
pub mod store;
pub mod tasks;
#[cfg(test)]
mod testing;
pub mod topology;
mod tracking;
pub mod value;
pub mod wake_ups;
pub mod watcher;

pub use diagnosis::names_no_master;
pub use instant::{rfc3339, unit_near};
pub use kind::RedisKind;
pub use pace::LONGEST_MS as LONGEST_PAUSE_MS;
pub use parts::{
    claims_scan, outdated_runs, overrun_claim, read_switches, runs_claim, switches_asks,
};
pub use schedule::TOO_LARGE_AGAIN_MS;
pub use tracking::{
    CHANNEL as WAKE_UPS_CHANNEL, greeted as wake_ups_greeted, greeting as wake_ups_greeting,
};
