//! Turns and queues in a cluster: read where they lie, and nothing happens to them while their
//! slots move.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::support::PATIENCE;

const TURNS: &str = "{alternate}:turns";
const QUEUE: &str = "{delayed}:tasks";
const DUE: usize = 40;
const EXECUTING: usize = 10;

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn lock(id: usize) -> String {
    format!("{{delayed}}:lock:{id:02}")
}

/// A turn, and a queue with members that are executed, due and future.
fn lay_out(cluster: &Cluster) {
    let now = now_s();
    cluster.cli(TURNS, &["hset", TURNS, "a", &format!("{now}000")]);
    for id in 0..DUE {
        cluster.cli(QUEUE, &["zadd", QUEUE, &(now - 5).to_string(), &format!("{id:02}")]);
    }
    cluster.cli(QUEUE, &["zadd", QUEUE, &(now + 3_600).to_string(), "later"]);
    for id in 0..EXECUTING {
        let lock = lock(id);
        cluster.cli(&lock, &["set", &lock, "0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b", "px", "600000"]);
    }
}

#[test]
fn turns_and_queues_outlive_a_move_of_their_slots() {
    let options = direct(&[]);
    let Some(cluster) = start("turns_and_queues_outlive_a_move_of_their_slots", 0, &options) else {
        return;
    };
    lay_out(&cluster);
    let tasks = format!(
        "  - {{name: alternate, turn: {{hash: \"{TURNS}\", tasks: [a, b], max_late: 1h}}}}\n  - \
         {{name: delayed, queue: {{zset: \"{QUEUE}\", lock: \"{{delayed}}:lock:{{id}}\", max_late: \
         1h}}}}\n"
    );
    let agent = Agent::start(&config(&cluster.addresses(), "", "", &tasks));
    let is_well = |page: &Exposition| {
        page.of("alternate", "turn_fields") == Some(1.0)
            && page.of("delayed", "queue_members") == Some(41.0)
            && page.of("delayed", "queue_due") == Some(40.0)
            && page.of("delayed", "queue_executing") == Some(10.0)
    };
    agent.until(PATIENCE, "both are read", is_well);
    for key in [TURNS, QUEUE] {
        let (from, slot) = (cluster.owner(key), cluster.slot(key));
        let to = (from + 1) % SHARDS as usize;
        cluster.begin_move(slot, to);
        // Some of the keys are there already, others are not.
        cluster.move_keys(slot, to);
        agent.until(PATIENCE, "the move is seen", |page| !is_well(page));
        while cluster.move_keys(slot, to) > 0 {}
        cluster.end_move(slot, to);
        assert_eq!(cluster.owner(key), to, "{key}");
    }
    cluster.cli(TURNS, &["hset", TURNS, "b", &format!("{}000", now_s())]);
    cluster.cli(TURNS, &["hdel", TURNS, "a"]);
    let page = agent.until(PATIENCE, "both are read where they are now", |page| {
        is_well(page)
            && page.label("alternate", "turn_holder", "participant").as_deref() == Some("b")
    });
    for (task, name) in [
        ("delayed", "queue_vanished_total"),
        ("delayed", "queue_executed_again_total"),
        ("alternate", "task_splits_total"),
        ("delayed", "task_splits_total"),
    ] {
        assert_eq!(page.of(task, name), Some(0.0), "{name}\n{}", agent.log());
    }
    assert_eq!((page.verdict("alternate"), page.verdict("delayed")), ("running", "running"));
}
