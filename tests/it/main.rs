//! The one integration test binary: each module tests one border of the program with real parts.

mod acl;
mod architecture;
mod config;
mod exposition;
mod redisson;
mod snapshots;
mod support;
