//! Wake-ups by a server that tells of changed keys: what they bring, what they cost, and that they
//! may fail in any way. The interval is so long that nothing that these tests wait for could have
//! been seen by polling.

mod changes;
mod floods;
mod glances;
mod hostile;
mod servers;
mod troubles;

use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;

/// No test waits so long.
const NEVER: &str = "10m";
/// Every task is blind only after this: longer than the interval.
const BLIND: &str = "blind_after: 1h";

/// A configuration of one redis with these tasks, each `name: key` of a string lock; `more`:
/// further fields of the redis block.
fn config(port: u16, interval: &str, more: &str, tasks: &[(&str, &str)]) -> String {
    let task = |(name, key): &(&str, &str)| {
        format!("  - {{name: {name}, lock: {{key: \"{key}\", scheme: string}}, {BLIND}}}\n")
    };
    let tasks: String = tasks.iter().map(task).collect();
    format!(
        "redis:\n  main: {{url: \"redis://127.0.0.1:{port}\", interval: {interval}, timeout: \
         2s{more}}}\ntasks:\n{tasks}"
    )
}

/// `lockwatch_redis_wake_ups` of the only server that is asked to tell.
#[track_caller]
fn wakes(page: &Exposition) -> Option<f64> {
    page.get("lockwatch_redis_wake_ups", &[])
}

/// `lockwatch_redis_hints_total`, all servers added up.
fn hints(page: &Exposition, outcome: &str) -> f64 {
    page.series("lockwatch_redis_hints_total", &[("outcome", outcome)]).into_values().sum()
}

/// Waits until the server tells of changes.
#[track_caller]
fn until_listening(agent: &Agent) {
    agent.until(PATIENCE, "the server tells of changes", |page| wakes(page) == Some(1.0));
}

/// Waits until the lock of a task is held, or free.
#[track_caller]
fn until_held(agent: &Agent, task: &str, held: bool) -> Exposition {
    let expected = Some(if held { 1.0 } else { 0.0 });
    agent.until(PATIENCE, &format!("{task} held: {held}"), |page| {
        page.of(task, "lock_held") == expected
    })
}

/// How often a server was sent this command.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let [count] = calls_of(server, [command]);
    count
}

/// How often a server was sent each of these commands, all as of one moment.
fn calls_of<const N: usize>(server: &RedisServer, commands: [&str; N]) -> [u64; N] {
    let stats = server.cli(&["info", "commandstats"]);
    commands.map(|command| {
        let line = stats
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()).map_or(0, |count| count.parse().unwrap())
    })
}

/// The line of the connection that listens, in `CLIENT LIST`.
fn listener(server: &RedisServer) -> Option<String> {
    let clients = server.cli(&["client", "list"]);
    clients.lines().find(|line| line.contains("name=lockwatch-wake-ups")).map(str::to_owned)
}
