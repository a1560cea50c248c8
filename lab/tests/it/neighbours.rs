//! A short run of the lab's command `hostile`, which runs longer and is stricter.

use std::time::Duration;

use lockwatch_lab::hostile::{self, HostileArgs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_of_every_kind_keep_nobody_from_scraping() {
    // A loaded machine may be slow, but no client may be refused and nothing may grow.
    assert!(hostile::run(HostileArgs::short(Duration::from_secs(8))).await.unwrap());
}
