//! Every output of the agent: metrics, JSON and log lines. All of them read the published snapshot
//! or an event, and nothing here can reach Redis.

pub mod events;
pub mod exposition;
pub mod history;
pub mod json;
pub mod metrics;
pub mod negotiate;
mod process;
pub mod reason;
