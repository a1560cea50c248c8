//! Several servers: the agent listens to those that decide.

use super::*;
use crate::support::PATIENCE;
use crate::support::cluster::Cluster;
use crate::support::network::{Options, Wiring};
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels};

/// The addresses of the servers that announce changes.
fn telling(page: &Exposition) -> Vec<String> {
    let series = page.series("lockwatch_store_wake_ups", &[]);
    series
        .into_iter()
        .filter(|(_, value)| *value == 1.0)
        .map(|(labels, _)| labels["server"].clone())
        .collect()
}

#[test]
fn after_a_failover_the_new_master_is_listened_to() {
    let test = "wake_ups::after_a_failover_the_new_master_is_listened_to";
    let Some(sentinels) = Sentinels::start(test, &SentinelOptions::default()) else { return };
    let nodes =
        sentinels.addresses().iter().map(|at| format!("\"{at}\"")).collect::<Vec<_>>().join(", ");
    let agent = Agent::start(&format!(
        "redis:\n  main: {{sentinel: {{master: {MASTER}, nodes: [{nodes}]}}, interval: 1s, \
         timeout: 1s}}\n\
         tasks:\n  - {{name: one, lock: {{key: lock, library: string}}}}\n"
    ));
    let old = sentinels.members[0].announced();
    agent.until(PATIENCE, "the master tells", |page| telling(page) == [old.clone()]);
    sentinels.wait_settled();
    let new = sentinels.failover();
    let address = sentinels.members[new].announced();
    let page = agent
        .until(PATIENCE * 2, "the new master tells", |page| telling(page) == [address.clone()]);
    let read = |page: &Exposition| {
        page.get(
            "lockwatch_store_hints_total",
            &[("server", address.as_str()), ("outcome", "read")],
        )
        .unwrap_or(0.0)
    };
    let before = read(&page);
    sentinels.server(new).cli(&["set", "lock", "token", "px", "600000"]);
    until_held(&agent, "one", true);
    agent.until(PATIENCE, "by a hint", |page| read(page) > before);
}

/// Each master announces its own keys; a change of switches wakes the lock that lives on another
/// one.
#[test]
fn in_a_cluster_every_master_tells() {
    let options = Options { wiring: Wiring::Direct, ..Options::default() };
    let Some(cluster) = Cluster::start("wake_ups::in_a_cluster_every_master_tells", 0, &options)
    else {
        return;
    };
    let key_at = |node: usize, beginning: &str| {
        let keys = (0..).map(|number| format!("{beginning}:{number}"));
        keys.into_iter().find(|key| cluster.owner(key) == node).unwrap()
    };
    let (first, second, users) = (key_at(0, "lock"), key_at(1, "lock"), key_at(2, "users"));
    let nodes = cluster
        .addresses()
        .iter()
        .map(|at| format!("\"redis://{at}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let agent = Agent::start(&format!(
        "redis:\n  main: {{cluster: {{nodes: [{nodes}]}}, interval: {NEVER}, timeout: 1s}}\n\
         tasks:\n  \
         - {{name: one, lock: {{key: \"{first}\", library: string}}, {BLIND}}}\n  \
         - {{name: two, lock: {{key: \"{second}\", library: string}}, wanted: {{hash: \
         \"{users}\"}}, {BLIND}}}\n"
    ));
    agent.until(PATIENCE, "all masters tell", |page| telling(page).len() == 3);
    cluster.cli(&first, &["set", &first, "token", "px", "600000"]);
    until_held(&agent, "one", true);
    cluster.cli(&second, &["set", &second, "token", "px", "600000"]);
    until_held(&agent, "two", true);
    cluster.cli(&users, &["hset", &users, "anna", "1"]);
    agent.until(PATIENCE, "the switch", |page| page.of("two", "task_wanted") == Some(1.0));
}
