//! All scenarios, one file for each theme.

mod agents;
mod churn;
mod crash;
mod failover;
mod odd;
mod pause;
mod periodic;
mod random;
mod redis;
mod relatives;
mod reload;
mod split;
mod switches;
mod upstream;
mod work;

use super::scenario::Scenario;

/// In the order of the report.
pub(super) fn all() -> Vec<Scenario> {
    [
        crash::all(),
        switches::all(),
        work::all(),
        relatives::all(),
        periodic::all(),
        split::all(),
        pause::all(),
        odd::all(),
        redis::all(),
        failover::all(),
        upstream::all(),
        reload::all(),
        agents::all(),
        random::all(),
        churn::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
