//! The whole program with a real Redis and the real clients whose locks it watches.
//!
//! Leases and thresholds are short so that the tests take seconds; each test names what they scale
//! with.

mod crash;
mod kinds;
mod string;
mod switches;
mod take_over;
mod watchdog;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;
use crate::support::redisson::Redisson;

const LOCK: &str = "outbound:lock";
const TASK: &str = "outbound";
const USERS: &str = "outbound:users";

/// A Redis, the program that watches it, and a JVM with Redisson clients.
struct Scene {
    redisson: Redisson,
    agent: Agent,
    server: RedisServer,
}

impl Scene {
    /// `None`, with a message, on a machine that lacks a program. `tasks`: the list of tasks in
    /// YAML.
    fn open(test: &str, interval: &str, tasks: &str) -> Option<Scene> {
        let redisson = Redisson::start(test)?;
        let server = RedisServer::start(test)?;
        let agent = Agent::start(&config(&server, interval, tasks));
        Some(Scene { redisson, agent, server })
    }

    /// Connects a Redisson client with this watchdog timeout and returns its id.
    fn connect(&mut self, client: &str, watchdog_ms: u64) -> String {
        connect(&mut self.redisson, &self.server, client, watchdog_ms)
    }

    /// Writes a user's switch.
    fn switch(&self, user: &str, value: &str) {
        self.server.cli(&["hset", USERS, user, value]);
    }
}

fn config(server: &RedisServer, interval: &str, tasks: &str) -> String {
    let url = format!("redis://{}", server.address());
    format!("redis:\n  main: {{url: \"{url}\", interval: {interval}}}\ntasks:\n{tasks}")
}

/// The block of the one task that most tests have; `more`: further fields.
fn one_task(more: &str) -> String {
    format!(
        "  - {{name: {TASK}, lock: {{key: \"{LOCK}\"}}, wanted: {{hash: \"{USERS}\"}}, {more}}}\n"
    )
}

fn connect(
    redisson: &mut Redisson,
    server: &RedisServer,
    client: &str,
    watchdog_ms: u64,
) -> String {
    redisson.connect(client, &format!("port={} watchdog={watchdog_ms}", server.port))
}

/// Number of PEXPIREs since `config resetstat`, in scripts too.
fn pexpires(server: &RedisServer) -> u64 {
    let stats = server.cli(&["info", "commandstats"]);
    let calls = stats.split_once("cmdstat_pexpire:calls=").map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

/// The sequence of verdicts in these expositions, without repetitions.
fn verdicts(pages: &[Exposition], task: &str) -> Vec<String> {
    let mut verdicts: Vec<String> =
        pages.iter().map(|page| page.verdict(task).to_owned()).collect();
    verdicts.dedup();
    verdicts
}

/// The maximum of a series of a task.
fn greatest(pages: &[Exposition], task: &str, name: &str) -> f64 {
    pages.iter().filter_map(|page| page.of(task, name)).fold(0.0, f64::max)
}

/// Panics if these expositions have a reason to alert about this task (renewals excepted) or a
/// visible gap.
#[track_caller]
fn check_calm(agent: &Agent, pages: &[Exposition], task: &str) {
    check_calm_but_for_gaps(agent, pages, task, 0.0);
}

/// The same, with gaps of up to this many seconds permitted.
#[track_caller]
fn check_calm_but_for_gaps(
    agent: &Agent,
    pages: &[Exposition],
    task: &str,
    longest_gap_seconds: f64,
) {
    // Winding down takes a moment; up to a second of it is tolerated.
    let limits =
        [("down", longest_gap_seconds), ("split", 0.0), ("stalled", 0.0), ("unwanted", 1.0)];
    for (name, limit) in limits {
        let name = format!("task_{name}_seconds");
        let worst =
            pages.iter().find(|page| page.of(task, &name).is_none_or(|seconds| seconds > limit));
        if let Some(page) = worst {
            agent.fail(&format!("{task}: {name} is more than {limit}"), page);
        }
    }
    for verdict in ["down", "split", "stalled", "unwanted"] {
        let lines =
            agent.log_lines(&["event=verdict", &format!("task={task} "), &format!("{verdict}:")]);
        assert!(lines.is_empty(), "{lines:?}");
    }
}

/// Panics if any renewal of this task was late or overdue in these expositions.
#[track_caller]
fn check_never_late(agent: &Agent, pages: &[Exposition], task: &str) {
    // A busy machine delays the real clients; a wrong period would delay them more than this.
    for page in pages {
        let overdue = page.of(task, "lock_renewal_overdue_seconds").unwrap_or(0.0);
        agent.check(page, &format!("{task}: overdue"), overdue < 0.5);
    }
    let last = pages.last().unwrap();
    let count = last.of(task, "lock_renewal_latency_seconds_count");
    let quick = ("le", "0.5");
    let in_time =
        last.get("lockwatch_lock_renewal_latency_seconds_bucket", &[("task", task), quick]);
    agent.check(last, &format!("{task}: a late renewal"), count == in_time);
}

/// The output of `MONITOR`, line by line, since it was started.
struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Monitor {
    fn start(server: &RedisServer) -> Monitor {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        assert_eq!(first, "+OK\r\n");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        // The thread ends with the server.
        thread::spawn(move || {
            reader.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line))
        });
        Monitor { lines }
    }

    /// When Redis ran PEXPIRE on this key, in whole milliseconds since the epoch, the unit of
    /// deadlines.
    fn pexpires_ms(&self, key: &str) -> Vec<f64> {
        let lines = self.lines.lock().unwrap();
        let of_key = lines.iter().filter(|line| {
            line.to_ascii_lowercase()
                .contains(&format!("\"pexpire\" \"{}\"", key.to_ascii_lowercase()))
        });
        of_key
            .map(|line| line[1..].split_once(' ').unwrap().0.parse::<f64>().unwrap() * 1000.0)
            .map(f64::floor)
            .collect()
    }
}
