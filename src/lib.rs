//! lockwatch: watches Redis locks that guard singleton tasks. The map is in ARCHITECTURE.md.

pub mod config;
pub mod demo;
pub mod lease;
pub mod published;
