//! Trials of lockwatch with real parts. Nothing of lockwatch depends on this. The map is in ARCHITECTURE.md.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)
)]

pub mod bench;
mod numbers;
pub mod page;
pub mod pager;
pub mod stack;
