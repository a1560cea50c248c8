//! The tests that need a real Redis or the built program.

mod demo;
mod lease;
mod skip;
