//! Hostile neighbours and churn, in short: the commands `hostile`, `churn` and `soak` of the lab
//! take longer and are stricter.

use std::time::Duration;

use lockwatch_lab::churn::{self, ChurnArgs};
use lockwatch_lab::hostile::{self, HostileArgs};
use tokio::sync::Mutex;

/// Both need all of the machine.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_of_every_kind_keep_nobody_from_scraping() {
    let _alone = ALONE.lock().await;
    // A machine that does much else is slow; but nobody may be refused, and nothing may grow.
    assert!(hostile::run(HostileArgs::short(Duration::from_secs(8))).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_holder_is_shown_with_anothers_deadline() {
    let _alone = ALONE.lock().await;
    assert!(churn::run(ChurnArgs::lasting(Duration::from_secs(12))).await.unwrap());
}
