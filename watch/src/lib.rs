//! How evidence is won from a store: what is asked when, over which connection, and what the
//! replies mean.
//!
//! This crate is `no_std` and does no I/O. It cannot name a clock, a socket, a file or a random
//! number, so every run can be repeated exactly. What it finds goes to `lockwatch_judge` as
//! evidence.
#![no_std]
// A watcher that panics over unexpected bytes misses an alert.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod redis;
mod remedy;
pub mod zookeeper;

pub use remedy::remedy;

#[cfg(test)]
#[path = "../../judge/tests/truth/mod.rs"]
mod truth;
