//! The sockets to the stores: dials what a watcher wants dialled, sends what it wants sent, and
//! reports to it what happened. Only this room uses the redis crate (and what writes to Redis). It puts
//! the secrets in, and decides nothing.
//!
//! A connection belongs to one watcher and is never repaired: after any doubt it is closed and
//! dialled again, so that no late reply can answer another request.

mod assign;
mod connect;
mod connection;
mod convert;
mod drive;
mod guard;
mod listen;
mod log;
mod login;
mod nodes;
mod renewal;
mod resolve;
mod scan;
mod stream;
mod tls;
mod zookeeper;

pub use assign::{Assignment, StoreAssignment, Watching};
pub use connect::{connect, connect_briefly, greet_over, talk_over};
pub use connection::{Connection, Wire};
pub use drive::run;
pub use listen::{Listening, listen, listen_over};
pub use lockwatch_watch::redis::driver::Failure;
pub(crate) use login::beside_commands;
pub use nodes::{Nodes, introduction};
pub use scan::{Pace, scan_page};
pub use tls::unusable as unusable_tls;
