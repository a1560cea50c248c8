//! A real Redis Cluster: keys on different nodes, moving slots, masters that die or are cut off,
//! false layouts.

mod keys;
mod kinds;
mod layouts;
mod losses;
mod moves;

use crate::support::PATIENCE;
use lockwatch_watch::redis::topology::cluster::{SLOTS, slot};

use crate::support::agent::Agent;
use crate::support::cluster::Cluster;
use crate::support::exposition::Exposition;
use crate::support::network::{Options, Wiring};

/// Each of the first three nodes begins with a third of the slots.
const SHARDS: u16 = 3;
/// Without this, one uncovered slot makes the whole cluster refuse to serve.
const PARTLY: &str = "cluster-require-full-coverage no";

fn start(test: &str, replicas: usize, options: &Options) -> Option<Cluster> {
    Cluster::start(&format!("failover::cluster::{test}"), replicas, options)
}

fn direct(lines: &[&'static str]) -> Options {
    Options { wiring: Wiring::Direct, lines: lines.to_vec(), ..Options::default() }
}

/// The node that has this key until slots move.
fn first_home(key: &str) -> usize {
    usize::from(slot(key.as_bytes()) / SLOTS.div_ceil(SHARDS))
}

/// The first key with this prefix that lives on this node.
fn key_on(node: usize, beginning: &str) -> String {
    (0..).map(|number| format!("{beginning}:{number}")).find(|key| first_home(key) == node).unwrap()
}

/// A configuration for these nodes; `inner`: further fields of the cluster block, `more`: of the
/// redis block.
fn config(nodes: &[String], inner: &str, more: &str, tasks: &str) -> String {
    config_every("200ms", nodes, inner, more, tasks)
}

/// The same, with this interval.
fn config_every(interval: &str, nodes: &[String], inner: &str, more: &str, tasks: &str) -> String {
    let nodes = nodes.iter().map(|at| format!("\"redis://{at}\"")).collect::<Vec<_>>().join(", ");
    format!(
        "redis:\n  main: {{cluster: {{nodes: [{nodes}]{inner}}}, interval: {interval}, timeout: \
         1s{more}}}\ntasks:\n\
         {tasks}"
    )
}

/// The block of a task with a string lock; `more`: further fields.
fn task(name: &str, lock: &str, more: &str) -> String {
    format!("  - {{name: {name}, lock: {{key: \"{lock}\", library: string}}{more}}}\n")
}

/// Holds a string lock for a minute, on the node that owns it.
fn hold(cluster: &Cluster, key: &str, holder: &str) {
    assert_eq!(cluster.cli(key, &["set", key, holder, "nx", "px", "60000"]), "OK", "{key}");
}

/// The newest value of a metric of the redis.
#[track_caller]
fn of_redis(page: &Exposition, name: &str) -> f64 {
    page.get(&format!("lockwatch_store_{name}"), &[("store", "main")])
        .unwrap_or_else(|| panic!("{name} is absent"))
}

/// Waits until these tasks are running.
#[track_caller]
fn until_running(agent: &Agent, tasks: &[&str]) -> Exposition {
    agent
        .until(PATIENCE, "running", |page| tasks.iter().all(|task| page.verdict(task) == "running"))
}

/// Checks that the task was running and its lock was read all the time.
#[track_caller]
fn check_undisturbed(agent: &Agent, pages: &[Exposition], task: &str) {
    for page in pages {
        agent.check(page, &format!("{task} runs"), page.verdict(task) == "running");
        agent.check(page, &format!("{task} is held"), page.of(task, "lock_held") == Some(1.0));
    }
}

/// Number of holds of all tasks that have ended, for any reason.
fn all_ends(page: &Exposition) -> f64 {
    page.series("lockwatch_lock_ends_total", &[]).into_values().sum()
}

/// Number of splits of any kind that all tasks have had.
fn all_splits(page: &Exposition) -> f64 {
    page.series("lockwatch_task_splits_by_kind_total", &[]).into_values().sum()
}

#[test]
fn keys_are_found_where_redis_puts_them() {
    let Some(cluster) = start("keys_are_found", 0, &direct(&[])) else { return };
    for node in 0..3 {
        let key = key_on(node, "lock");
        assert_eq!(cluster.owner(&key), node, "{key}");
    }
}
