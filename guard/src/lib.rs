//! Decides when a script may run under a lock, and when it must be dead. No IO, no clock: instants
//! and what happened go in, actions come out, so that tests and the simulator drive the real thing.
//!
//! The one promise: the script is dead before the lease could end, whatever the store does, as long
//! as the clocks of this host and of the store advance alike within the margin. All instants are of
//! a clock that also advances while the machine is suspended.
#![no_std]
#![forbid(unsafe_code)]
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

mod exchange;
mod hold;
mod machine;
mod runs;
mod terms;

pub use exchange::{Action, End, Input, Outcome, Reply, Why};
pub use hold::Overrun;
pub use machine::Guard;
pub use runs::{Run, Runs};
pub use terms::{Restart, Terms, TooShort};
