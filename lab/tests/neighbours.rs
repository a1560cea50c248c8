//! Short runs of the lab's commands `hostile`, `churn` and `soak`. The commands themselves run
//! longer and are stricter.

use std::time::Duration;

use lockwatch_lab::churn::{self, ChurnArgs};
use lockwatch_lab::hostile::{self, HostileArgs};
use tokio::sync::Mutex;

/// Serializes these tests: each needs the whole machine.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attackers_of_every_kind_keep_nobody_from_scraping() {
    let _alone = ALONE.lock().await;
    // A loaded machine may be slow, but no client may be refused and nothing may grow.
    assert!(hostile::run(HostileArgs::short(Duration::from_secs(8))).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_holder_is_shown_with_anothers_deadline() {
    let _alone = ALONE.lock().await;
    assert!(churn::run(ChurnArgs::lasting(Duration::from_secs(12))).await.unwrap());
}
