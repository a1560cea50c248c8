//! How evidence is won: replies of real libraries, and codecs. A module for each.

mod codec;
mod foreign_layouts;
mod read;
mod redisson_layouts;
#[path = "../../../judge/tests/truth/mod.rs"]
mod truth;
mod zookeeper;
