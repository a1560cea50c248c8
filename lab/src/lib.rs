//! Trials of lockwatch with real parts. Nothing of lockwatch depends on this. The map is in
//! ARCHITECTURE.md.
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

pub mod bench;
pub mod campaign;
pub mod churn;
pub mod hostile;
mod numbers;
pub mod page;
pub mod pager;
mod report;
pub mod sabotage;
pub mod simulate;
pub mod soak;
pub mod stack;
mod visitor;
