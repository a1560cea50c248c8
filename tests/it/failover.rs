//! The whole program beside real Sentinels, clusters and replicas that fail over: what it says meanwhile, and afterwards.

mod cluster;
mod sentinel;

use std::time::Duration;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::sentinels::{MASTER, Sentinels};

const TASK: &str = "outbound";
const LOCK: &str = "outbound:lock";
const USERS: &str = "outbound:users";

/// A configuration for Sentinels; `more`: further fields of the redis block.
fn sentinel_config(sentinels: &Sentinels, interval: &str, more: &str, tasks: &str) -> String {
    let nodes = sentinels.addresses().iter().map(|at| format!("\"{at}\"")).collect::<Vec<_>>().join(", ");
    format!(
        "redis:\n  main: {{sentinel: {{master: {MASTER}, nodes: [{nodes}]}}, interval: {interval}, timeout: 1s{more}}}\ntasks:\n{tasks}"
    )
}

/// The block of one task guarded by a string lock; `more`: further fields.
fn one_task(more: &str) -> String {
    format!("  - {{name: {TASK}, lock: {{key: \"{LOCK}\", scheme: string}}, wanted: {{hash: \"{USERS}\"}}{more}}}\n")
}
