//! The one integration test binary: each module tests one interface of the program with real parts.

// `json!` of a whole task nests once for each of its fields.
#![recursion_limit = "256"]

mod acl;
mod agent;
mod alert_examples;
mod alerts;
mod api;
mod architecture;
mod causes;
mod check_config;
mod cli;
mod config;
mod contended;
mod dashboards;
mod demo;
mod diagnosis;
mod discover;
mod due;
mod explain;
mod exposition;
mod failover;
mod faults;
mod gap;
mod guard;
mod heartbeats;
mod http;
mod lease;
mod live;
mod live_feed;
mod map;
mod odd_values;
mod outputs;
mod pages;
mod passwords;
mod problems;
mod queue;
mod redisson;
mod replay;
mod runbooks;
mod secrets;
mod shedlock;
mod snapshots;
mod sockets;
mod status;
mod support;
mod tls;
mod topologies;
mod turns;
mod values;
mod versions;
mod wake_ups;
mod want;
mod watcher;
mod web;
mod workers;
