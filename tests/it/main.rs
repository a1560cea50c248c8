//! The one integration test binary: each module tests one border of the program with real parts.

mod acl;
mod architecture;
mod config;
mod demo;
mod exposition;
mod lease;
mod redisson;
mod skip;
mod snapshots;
mod support;
