//! lockwatch: watches Redis locks that guard singleton tasks. The map is in ARCHITECTURE.md.

pub mod agent;
pub mod clock;
pub mod cli;
pub mod config;
pub mod engine;
pub mod http;
pub mod output;
pub mod demo;
pub mod lease;
pub mod published;
pub mod redis;
pub mod sampler;
