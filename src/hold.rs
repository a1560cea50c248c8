//! Takes and holds a lock under Redisson's `RLock` protocol: same key, field and channel, so that
//! Java services and guards can contend for one lock. This module writes to Redis; the agent does
//! not use it.

mod client;
mod holder;
mod rights;
mod scripts;
pub mod store;

pub use client::{Client, Trouble};
pub use holder::Holder;
pub use rights::Rights;

/// The channel on which a release of the lock under `key` is announced.
pub fn unlock_channel(key: &[u8]) -> Vec<u8> {
    scripts::channel(key)
}
