//! The simulator runs the real watcher and the real state against virtual servers, workers, users,
//! networks and clocks. A seed determines all of them. An oracle knows what is true and checks what
//! the agent says.
//!
//! ```text
//! seed ──> plan (world, steps) ──> world (servers, workers, users) <──> agent (schedule, read, accept, state) ──> snapshot
//!                                        └────────> truth ────────────────> oracle <───────────────────────────────┘
//! ```
//!
//! Time jumps from one event to the next. Nothing here reads a clock, or a random number that does
//! not come from the seed.

mod agent;
mod coverage;
mod ensemble;
mod event;
mod minimise;
mod oracle;
mod peers;
mod plan;
mod queue;
mod replies;
mod request;
mod rng;
mod run;
mod serve;
mod server;
mod truth;
mod world;
pub use coverage::Coverage;
pub use ensemble::{EnsembleCoverage, EnsembleOutcome, EnsemblePlan, run_ensemble};
pub use minimise::minimise;
pub use oracle::Violation;
pub use plan::{Act, Plan, QueueAct, RunsAct, Shape, Step, TurnAct};
pub use run::{Outcome, run};
