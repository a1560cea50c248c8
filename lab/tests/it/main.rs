//! Trials of the lab, and of the project's other tools, with real servers and browsers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

mod chain;
mod dashboards;
mod demo;
mod drill;
mod federation;
mod neighbours;
mod page;
mod routes;
mod sabotages;
mod stack;
mod suite;
