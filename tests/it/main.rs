//! The integration tests, one binary.

mod acl;
mod config;
