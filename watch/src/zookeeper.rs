//! Locks and turns in ZooKeeper: what is asked of an ensemble, when, over which session, and what
//! the answers mean.

pub mod codec;
pub mod driver;
mod kept;
mod line;
mod proving;
mod read;
pub mod recipes;
mod schedule;
mod session;
pub mod store;
mod tree;
pub mod watcher;

pub use read::nodes;
pub use tree::join;
