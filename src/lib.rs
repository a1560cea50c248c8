//! lockwatch: watches Redis locks that guard singleton tasks. The map is in ARCHITECTURE.md.
// A watcher that panics over foreign bytes is a missed page.
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

pub mod alerts;
pub mod api;
pub mod blocking;
pub mod chain;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod drill;
pub mod engine;
pub mod exit;
pub mod hold;
pub mod http;
pub mod io;
pub mod keeper;
pub mod outputs;
pub mod paths;
pub mod patterns;
mod pem;
pub mod published;
pub mod record;
pub mod seek;
pub mod telemetry;
pub mod text;
pub mod trace;
pub mod want;
pub mod web;

#[cfg(test)]
#[path = "../judge/tests/truth/mod.rs"]
mod truth;
