//! The simulator: the real schedule, acceptance, decoding and state of the model, between virtual
//! servers, workers, users, networks and clocks that a seed decides; and an oracle that knows what
//! is really so and checks what the model says.
//!
//! ```text
//! seed ──> plan (world, steps) ──> world (servers, workers, users) <──> agent (schedule, read, accept, state) ──> snapshot
//!                                        └────────> truth ────────────────> oracle <───────────────────────────────┘
//! ```
//!
//! Time jumps from one event to the next. Nothing here reads a clock or a random number that is not
//! the seed's.

mod agent;
mod coverage;
mod minimise;
mod oracle;
mod plan;
mod queue;
mod rng;
mod run;
mod server;
mod truth;
mod world;
pub use coverage::Coverage;
pub use minimise::minimise;
pub use oracle::Violation;
pub use plan::{Act, Plan, Shape, Step};
pub use run::{Outcome, run};
