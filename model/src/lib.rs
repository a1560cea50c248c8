//! The pure core of lockwatch.
//!
//! Readings of Redis go in; verdicts, durations and events come out. This crate is `no_std` and has
//! no dependency. It cannot name a clock, a socket, a file or a random number, so every run can be
//! repeated exactly. The feature `serde` only adds the serialised form of inputs, for recordings.
//!
//! The data flow, in one direction:
//!
//! ```text
//! spec ──> read (which commands to send) ──> accept (may these replies be believed?) ──> scheme / wanted / codec (decode)
//!      ──> reading ──> state::State::step ──> snapshot, event
//! ```
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

// Must come before the modules that use its macro.
#[macro_use]
mod named;

pub mod accept;
#[cfg(feature = "serde")]
mod bytes;
mod clocks;
pub mod codec;
mod earlier;
pub mod event;
mod evidence;
mod failover_report;
mod generation;
pub mod histogram;
pub mod input;
mod lock;
mod lost;
mod node;
mod pause;
pub mod read;
pub mod reading;
mod redis;
mod renewal;
pub mod reply;
pub mod schedule;
pub mod scheme;
pub mod snapshot;
pub mod spec;
mod split;
pub mod state;
mod switches;
mod task;
pub mod time;
pub mod topology;
pub mod verdict;
pub mod wake_ups;
pub mod wanted;
mod witness;

#[cfg(test)]
#[path = "../tests/truth/mod.rs"]
mod truth;
