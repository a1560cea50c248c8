//! What is read beside a lock: one file per part, and one line each in [`ALL`].

use alloc::vec::Vec;

use crate::redis::ask::Ask;
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use lockwatch_judge::reading::SwitchesReading;
use lockwatch_judge::spec::TaskSpec;

mod claims;
mod fingerprint;
mod hosts;
mod part;
mod pause;
mod progress;
mod runs;
mod switches;

pub use claims::overrun_claim;
pub(crate) use part::Part;
pub use runs::{claims_scan, outdated_runs, runs_claim};
pub(crate) use switches::fields_to_follow;

/// All parts, in the order in which they are read. The switches come first, right after the lock.
pub(crate) static ALL: [&dyn Part; 5] =
    [&switches::Switches, &progress::Progress, &claims::Claims, &pause::Pause, &hosts::Hosts];

/// What is asked for the switches of a task alone; nothing if there are none to read.
pub fn switches_asks(spec: &TaskSpec) -> Vec<Ask> {
    let mut asks = Vec::new();
    switches::values_asks(spec, &mut asks);
    asks
}

/// What the replies to [`switches_asks`] say.
pub fn read_switches(spec: &TaskSpec, replies: &[Reply]) -> Option<SwitchesReading> {
    switches::read_values(spec, &mut Replies::new(replies))
}
