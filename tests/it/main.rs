//! The one integration test binary: each module tests one border of the program with real parts.

mod acl;
mod agent;
mod alert_examples;
mod alerts;
mod architecture;
mod config;
mod dashboards;
mod demo;
mod exposition;
mod failover;
mod faults;
mod http;
mod lease;
mod live;
mod outputs;
mod redisson;
mod runbooks;
mod sampler;
mod snapshots;
mod support;
mod topologies;
