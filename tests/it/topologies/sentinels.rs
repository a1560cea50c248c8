//! Sentinel: who is master after which fault, and what is lost.

use crate::support::sentinels::{SentinelOptions, Sentinels};

fn start(test: &str) -> Option<Sentinels> {
    Sentinels::start(&format!("topologies::sentinels::{test}"), &SentinelOptions::default())
}

#[test]
fn an_orderly_failover_promotes_another() {
    let Some(sentinels) = start("an_orderly_failover_promotes_another") else { return };
    assert_eq!(sentinels.master(), Some(0));
    let new = sentinels.failover();
    assert_ne!(new, 0);
    sentinels.wait_settled();
    assert_eq!(sentinels.master(), Some(new));
}
