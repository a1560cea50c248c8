//! Whether data were kept, were lost, or belong to another history; and what that means for the
//! locks.

pub(crate) mod earlier;
pub(crate) mod failover_report;
pub(crate) mod generation;
