//! The HTML page in a real browser, with the real agent and a real Redis.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod crowd;
mod filter;
mod foreign;
mod hostile;
mod knowing;
mod live;
mod refill;
mod support;
mod switch;
