//! lockwatch: watches Redis locks that guard singleton tasks. The map is in ARCHITECTURE.md.

pub mod cli;
pub mod config;
pub mod published;
