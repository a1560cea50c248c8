//! Redis: standalone, replicated, with Sentinels, or a cluster.
//!
//! ```text
//! spec ──> read (which commands to send) ──> accept (may these replies be believed?) ──> scheme / wanted / codec (decode)
//! ```

pub mod accept;
mod authority;
pub mod batch;
pub mod codec;
pub mod driver;
pub mod handshake;
mod kind;
mod link;
mod node;
mod out;
mod pace;
mod pause;
mod plan;
pub mod read;
pub mod reply;
pub mod schedule;
pub mod scheme;
pub mod store;
pub mod tasks;
#[cfg(test)]
mod testing;
pub mod topology;
mod tracking;
pub mod wake_ups;
pub mod wanted;
pub mod watcher;

pub use kind::RedisKind;
pub use pace::LONGEST_MS as LONGEST_PAUSE_MS;
pub use tracking::{
    CHANNEL as WAKE_UPS_CHANNEL, greeted as wake_ups_greeted, greeting as wake_ups_greeting,
};
