//! The whole program with real Sentinels, clusters and replicas during failovers: what it reports
//! meanwhile and afterwards.

mod campaign;
mod cluster;
mod faults;
mod replicated;
mod sentinel;
mod truth;
mod worker;

use crate::support::PATIENCE;
use std::time::Duration;

use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;
use crate::support::sentinels::{MASTER, Sentinels};
use crate::support::wait_until;
use truth::Truth;
use worker::Worker;

const TASK: &str = "outbound";
const LOCK: &str = "outbound:lock";
const USERS: &str = "outbound:users";
/// Two workers, as Redisson writes them into the lock.
const A: &str = "aaaaaaaa-8a52-4f5c-9f2e-0d3b7a1c5e42:57";
const B: &str = "bbbbbbbb-2f4a-4c6e-8a1b-9d8e7f6a5b4c:12";
/// A third one.
const C: &str = "cccccccc-55f1-4e35-9d2b-1a7c0f6e8b90:3";
const INTERVAL: Duration = Duration::from_millis(300);
/// Deadline for reporting a split once both holders are visible. However short the interval, a hold
/// proves nothing until it is older than a phantom (1.15 s). The rest is the test's own polling.
const REPORTED_WITHIN: Duration = INTERVAL.saturating_add(Duration::from_millis(1_250));
/// How long a replaced master may take to become a replica.
const RECONFIGURED: Duration = Duration::from_secs(60);

/// A configuration for Sentinels; `more`: further fields of the redis block.
fn sentinel_config(sentinels: &Sentinels, more: &str, tasks: &str) -> String {
    sentinel_config_at(&sentinels.addresses(), "", more, tasks)
}

/// The same for Sentinels at these addresses; `inner`: further fields of the sentinel block.
fn sentinel_config_at(addresses: &[String], inner: &str, more: &str, tasks: &str) -> String {
    let nodes = addresses.iter().map(|at| format!("\"{at}\"")).collect::<Vec<_>>().join(", ");
    format!(
        "redis:\n  main: {{sentinel: {{master: {MASTER}, nodes: [{nodes}]{inner}}}, interval: \
         {}ms, timeout: 1s{more}}}\n\
         tasks:\n{tasks}",
        INTERVAL.as_millis()
    )
}

/// A configuration for servers without Sentinel.
fn nodes_config(addresses: &[String], tasks: &str) -> String {
    let nodes =
        addresses.iter().map(|at| format!("\"redis://{at}\"")).collect::<Vec<_>>().join(", ");
    format!(
        "redis:\n  main: {{nodes: [{nodes}], interval: {}ms, timeout: 1s}}\ntasks:\n{tasks}",
        INTERVAL.as_millis()
    )
}

/// The block of a task; `more`: further fields.
fn task(name: &str, lock: &str, more: &str) -> String {
    format!(
        "  - {{name: {name}, lock: {{key: \"{lock}\"}}, wanted: {{hash: \"{USERS}\"}}{more}}}\n"
    )
}

/// The block of the one task.
fn one_task(more: &str) -> String {
    task(TASK, LOCK, more)
}

fn switch_on(server: &RedisServer) {
    server.cli(&["hset", USERS, "anna", "1"]);
}

/// A worker's name in the log: the instance without its thread.
fn name(holder: &str) -> &str {
    holder.split_once(':').unwrap().0
}

/// The log lines of one kind of event that contain all these pieces.
fn reported(agent: &Agent, event: &str, pieces: &[&str]) -> Vec<String> {
    let event = format!(" event={event} ");
    agent.log_lines(&[&[event.as_str()], pieces].concat())
}

/// Number of splits of this kind that the task has had.
fn splits(page: &Exposition, kind: &str) -> f64 {
    page.get("lockwatch_task_splits_by_kind_total", &[("task", TASK), ("kind", kind)]).unwrap()
}

/// Number of splits of any kind that all tasks have had.
fn all_splits(page: &Exposition) -> f64 {
    page.series("lockwatch_task_splits_by_kind_total", &[]).into_values().sum()
}

/// Number of locks with this fate after a change of generation.
fn fared(page: &Exposition, fate: &str) -> f64 {
    page.get("lockwatch_store_locks_after_change_total", &[("fate", fate)]).unwrap()
}

/// Waits for two sweeps, after which the program knows each server's write position.
fn let_it_read() {
    std::thread::sleep(INTERVAL * 2);
}

/// Waits until the newest reading of the task is from this server.
#[track_caller]
fn until_read_at(agent: &Agent, sentinels: &Sentinels, server: usize) {
    let address = sentinels.members[server].announced();
    agent.until_view(PATIENCE, "the new master is read", |view| {
        view.task(TASK)["node"] == *address && view.held(TASK).is_some()
    });
}

/// Waits until Sentinel has made this server a replica.
#[track_caller]
fn wait_demoted(server: &RedisServer) {
    wait_until(RECONFIGURED, "the old master becomes a replica", || {
        server
            .try_cli(&["role"], Duration::from_secs(1))
            .is_some_and(|role| role.starts_with("slave"))
    });
}

/// No loss, no split, and this verdict all the time.
#[track_caller]
fn assert_calm(agent: &Agent, pages: &[Exposition], verdict: &str) {
    let other = pages.iter().find(|page| page.verdict(TASK) != verdict);
    agent.check(
        other.unwrap_or(&Exposition::default()),
        &format!("always {verdict}"),
        other.is_none(),
    );
    let last = pages.last().unwrap();
    let harmless = all_splits(last) == 0.0
        && last.ends(TASK, "lost") == 0.0
        && last.of(TASK, "lock_lost_total") == Some(0.0)
        && last.time(TASK, "down") == Some(0.0);
    agent.check(last, "no split, nothing lost, no gap", harmless);
    let bad = ["split_began", "lock_lost", "gap_began", "switches_lost"];
    for event in bad {
        let mut lines = reported(agent, event, &[]);
        lines.retain(|line| !line.contains(" task=") || line.contains(&format!(" task={TASK} ")));
        agent.check(last, &format!("{event} was reported"), lines.is_empty());
    }
}
