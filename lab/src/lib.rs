//! Tests of lockwatch with real servers, networks and browsers. lockwatch does not depend on this
//! crate. ARCHITECTURE.md has the overview.
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
pub mod demo;
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
