//! The integration tests, one binary.

mod config;
