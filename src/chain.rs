//! The chain from the agent to a person: what Prometheus and Alertmanager say of themselves.
//! Nothing is worked out here that only these programs know.

pub mod config;
pub mod matcher;
mod yaml;
