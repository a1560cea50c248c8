//! Wake-ups by announced key changes (`CLIENT TRACKING`): their effect, their cost, and every way
//! in which they may fail. The interval is so long that polling cannot cause what these tests wait
//! for.

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

/// An interval longer than any test waits.
const NEVER: &str = "10m";
/// Makes tasks blind only after a time longer than the interval.
const BLIND: &str = "blind_after: 1h";

/// A configuration of one redis with these tasks, each `name: key` of a string lock; `more`:
/// further fields of the redis block.
fn config(port: u16, interval: &str, more: &str, tasks: &[(&str, &str)]) -> String {
    let task = |(name, key): &(&str, &str)| {
        format!("  - {{name: {name}, lock: {{key: \"{key}\", library: string}}, {BLIND}}}\n")
    };
    let tasks: String = tasks.iter().map(task).collect();
    format!(
        "redis:\n  main: {{url: \"redis://127.0.0.1:{port}\", interval: {interval}, timeout: \
         2s{more}}}\ntasks:\n{tasks}"
    )
}

/// `lockwatch_store_wake_ups` of the only server that announces changes.
#[track_caller]
fn wakes(page: &Exposition) -> Option<f64> {
    page.get("lockwatch_store_wake_ups", &[])
}

/// `lockwatch_store_hints_total`, summed over all servers.
fn hints(page: &Exposition, outcome: &str) -> f64 {
    page.series("lockwatch_store_hints_total", &[("outcome", outcome)]).into_values().sum()
}

/// Waits until the server announces changes.
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

/// How often a server received this command.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let [count] = calls_of(server, [command]);
    count
}

/// How often a server received each of these commands, all at the same moment.
fn calls_of<const N: usize>(server: &RedisServer, commands: [&str; N]) -> [u64; N] {
    let stats = server.cli(&["info", "commandstats"]);
    commands.map(|command| {
        let line = stats
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()).map_or(0, |count| count.parse().unwrap())
    })
}

/// The line of the tracking connection in `CLIENT LIST`.
fn listener(server: &RedisServer) -> Option<String> {
    let clients = server.cli(&["client", "list"]);
    clients.lines().find(|line| line.contains("name=lockwatch-wake-ups")).map(str::to_owned)
}
