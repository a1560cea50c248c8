//! lockwatch: watches Redis locks that guard singleton tasks. The map is in ARCHITECTURE.md.

pub mod agent;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod engine;
pub mod http;
pub mod lease;
pub mod output;
pub mod published;
pub mod redis;
pub mod sampler;
pub mod telemetry;
