//! A master, two replicas, three Sentinels.

use super::*;
use crate::support::sentinels::SentinelOptions;

#[test]
fn an_orderly_failover_keeps_the_task_running() {
    let Some(sentinels) = Sentinels::start("failover::sentinel", &SentinelOptions::default()) else { return };
    let master = sentinels.server(0);
    master.cli(&["set", LOCK, "A", "px", "60000"]);
    master.cli(&["hset", USERS, "anna", "1"]);
    let agent = Agent::start(&sentinel_config(&sentinels, "500ms", "", &one_task("")));
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    let watch = agent.watch();
    let new = sentinels.failover();
    std::thread::sleep(Duration::from_secs(5));
    let pages = watch.stop();
    eprintln!("new master {new}\n{}", agent.log());
    eprintln!("{}", agent.view().json["redises"]);
    let verdicts: Vec<_> = pages.iter().map(|page| page.verdict(TASK).to_owned()).collect();
    assert!(verdicts.iter().all(|verdict| verdict == "running"), "{verdicts:?}");
}
