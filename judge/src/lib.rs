//! The pure core of lockwatch.
//!
//! Evidence goes in; verdicts, durations and events come out. This crate is `no_std` and has
//! no dependency. It cannot name a clock, a socket, a file or a random number, so every run can be
//! repeated exactly. The feature `serde` only adds the serialised form of inputs, for recordings.
//!
//! The data flow, in one direction:
//!
//! ```text
//! input (what was read, and from which server) ──> state::State::step ──> snapshot, event
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

#[cfg(feature = "serde")]
mod bytes;
mod continuity;
pub mod event;
mod evidence;
mod grounds;
pub mod histogram;
pub mod input;
mod kinds;
pub mod limit;
pub mod problems;
pub mod reading;
pub mod seldom;
mod shared;
pub mod snapshot;
pub mod spec;
pub mod state;
mod step;
mod store;
mod task;
pub mod time;
mod totals;
pub mod verdict;

pub use reading::clients_meet;
pub use shared::splits::PHANTOM_MS;

#[cfg(test)]
#[path = "../tests/truth/mod.rs"]
mod truth;
