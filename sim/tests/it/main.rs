//! What decides, and how evidence is won, tried together: timelines, the table of verdicts, random
//! inputs, and seeds of the simulator. A module for each.

mod ensemble_seeds;
mod ensembles;
mod evidence;
mod harness;
mod invariants;
mod random;
mod restarts;
mod rules;
mod servers;
mod simulation;
mod stores;
mod timelines;
#[path = "../../../judge/tests/truth/mod.rs"]
mod truth;
mod turns;
mod verdicts;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
