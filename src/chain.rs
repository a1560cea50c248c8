//! The chain from the agent to a person: what the real Prometheus and Alertmanager answer, and what
//! stands in their configurations, as types. Nothing is worked out here that only these programs
//! know.
//!
//! What a server does not offer is `None`: rulers and stores that are compatible with Prometheus
//! have only some of its API. Text of theirs is as they sent it, so whatever shows it escapes it.

mod alertmanager;
mod answer;
pub mod config;
mod exposition;
pub mod matcher;
mod prometheus;
mod yaml;

pub use alertmanager::{
    AlertGroup, AlertStatus, Alertmanager, Named, ReceivedAlert, Sent, Silence, Status,
};
pub use answer::Dated;
pub use exposition::{Labels, Sample, samples};
pub use prometheus::{
    Alert, Alertmanagers, Group, Prometheus, Rule, Target, Targets, without_api_path,
};

pub use crate::http::client::Trouble;

#[cfg(test)]
mod tests;
