//! The one integration test binary: each module tests one border of the program with real parts.

mod exposition;
mod http;
mod outputs;
mod snapshots;
