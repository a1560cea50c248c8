//! Text as people may see it: hostile bytes made harmless, secrets left out, instants,
//! durations, similar names, and what fits on a terminal. Whoever shows anything uses this room; it uses no other.

pub mod durations;
pub mod identity;
pub mod instants;
pub mod marks;
pub mod nearest;
pub mod numbers;
pub mod terminal;
