//! Redis: standalone, replicated, with Sentinels, or a cluster.
//!
//! ```text
//! spec ──> read (which commands to send) ──> accept (may these replies be believed?) ──> scheme / wanted / codec (decode)
//! ```

pub mod accept;
pub mod codec;
mod kind;
mod pause;
pub mod read;
mod remedy;
pub mod reply;
pub mod schedule;
pub mod scheme;
pub mod topology;
pub mod wake_ups;
pub mod wanted;

pub use self::kind::RedisKind;
pub use self::remedy::remedy;
