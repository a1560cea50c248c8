//! Locks that are taken again and again with a real Redis, watched by two agents, one of them
//! without wake-ups: which of them are down, how soon, and that none of it is withdrawn.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::support::agent::{Agent, Watch};
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;
use crate::support::truth::rule;

const GRACE_MS: u64 = 2_000;
const SETTLE_MS: u64 = 2_000;
const INTERVAL_MS: u64 = 500;
/// What check-config says of a crash loop, and time for a busy machine.
const WORST: Duration = Duration::from_millis(GRACE_MS + SETTLE_MS + 2 * INTERVAL_MS + 500 + 3_000);
/// A worker that was never later than this had its lock as planned: even the shortest hold shows
/// between two reads, and no lock was free for long enough to be confirmed free.
const LATE: Duration = Duration::from_millis(40);

/// How a lock is taken.
#[derive(Clone, Copy)]
enum Layout {
    Text,
    Redisson,
}

/// One lock that is taken again and again.
#[derive(Clone, Copy)]
struct Loop {
    task: &'static str,
    layout: Layout,
    lease_ms: u64,
    /// After how long it is released, if it is.
    released_ms: Option<u64>,
    /// From one taking to the next.
    each_ms: u64,
    is_down: bool,
}

const fn expires(task: &'static str, layout: Layout, lease_ms: u64, each_ms: u64) -> Loop {
    Loop { task, layout, lease_ms, released_ms: None, each_ms, is_down: true }
}

const fn released(task: &'static str, layout: Layout, held_ms: u64, each_ms: u64) -> Loop {
    Loop { released_ms: Some(held_ms), is_down: true, ..expires(task, layout, 30_000, each_ms) }
}

const LOOPS: [Loop; 9] = [
    expires("short", Layout::Text, 120, 1_000),
    expires("short-hash", Layout::Redisson, 120, 1_000),
    expires("often", Layout::Text, 120, 300),
    expires("long", Layout::Text, 700, 1_000),
    released("crash", Layout::Text, 1_200, 2_000),
    released("crash-hash", Layout::Redisson, 1_200, 2_000),
    Loop { is_down: false, ..released("iterates", Layout::Text, 900, 1_000) },
    Loop { is_down: false, ..released("moments", Layout::Text, 100, 200) },
    Loop { is_down: false, ..released("deploys", Layout::Redisson, 5_000, 6_000) },
];

/// A connection that only sends commands in one line, and reads a reply of one line.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(port: u16) -> Client {
        Client(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

/// Returns by how much it was late at worst, in taking or releasing the lock.
fn runs(it: Loop, port: u16, ended: Arc<AtomicBool>) -> JoinHandle<Duration> {
    thread::spawn(move || {
        let mut client = Client::new(port);
        let key = it.task;
        let begun = Instant::now();
        let mut late = Duration::ZERO;
        for round in 0_u32.. {
            let at = begun + Duration::from_millis(it.each_ms) * round;
            sleep(at.saturating_duration_since(Instant::now()));
            if ended.load(Ordering::SeqCst) {
                return late;
            }
            let lease_ms = it.lease_ms;
            match it.layout {
                Layout::Text => client.send(&format!("SET {key} token-{round} NX PX {lease_ms}")),
                Layout::Redisson => client.send(&format!(
                    "EVAL \"redis.call('hset', KEYS[1], ARGV[1], 1) return redis.call('pexpire', \
                     KEYS[1], ARGV[2])\" 1 {key} 0d6f2c1e-0000-4000-8000-{round:012}:1 {lease_ms}"
                )),
            }
            late = late.max(at.elapsed());
            if let Some(held_ms) = it.released_ms {
                let end = at + Duration::from_millis(held_ms);
                sleep(end.saturating_duration_since(Instant::now()));
                client.send(&format!("DEL {key}"));
                late = late.max(end.elapsed());
            }
        }
        late
    })
}

fn config(server: &RedisServer, more: &str) -> String {
    let tasks: String = LOOPS
        .iter()
        .map(|it| {
            let library = match it.layout {
                Layout::Text => "string",
                Layout::Redisson => "redisson",
            };
            format!(
                "  - {{name: {0}, lock: {{key: {0}, library: {library}}}, wanted: always, \
                 grace: {GRACE_MS}ms, settle: {SETTLE_MS}ms}}\n",
                it.task
            )
        })
        .collect();
    format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: {INTERVAL_MS}ms{more}}}\ntasks:\n{tasks}",
        server.address()
    )
}

fn is_down(page: &Exposition, task: &str) -> bool {
    let labels = [("task", task), ("problem", "down")];
    page.get("lockwatch_task_problem_seconds", &labels).is_some()
}

/// Every hold of some locks ends early: their tasks are down within the worst time that
/// check-config says, by both agents, and never anything else after that. A worker that locks per
/// iteration, and handovers that are further apart than `settle`, alert nobody.
#[test]
fn what_is_held_again_and_again_but_never_for_long_is_down_and_stays_so() {
    let _rule = rule("8 settling");
    let test = "gap::crash loops";
    let Some(server) = RedisServer::start(test) else { return };
    // The first deploys is held before it is watched.
    let ended = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        LOOPS.iter().map(|it| runs(*it, server.port, Arc::clone(&ended))).collect();
    sleep(Duration::from_millis(300));
    let agents = ["", ", wake_ups: false"].map(|more| Agent::start(&config(&server, more)));
    let watched = Instant::now();
    let watches: Vec<Watch> = agents.iter().map(Agent::watch).collect();
    sleep(WORST + Duration::from_secs(8));
    let explained = agents[0].text("/api/v1/tasks/short/explain");
    let seen: Vec<_> = watches.into_iter().map(Watch::stop_timed).collect();
    ended.store(true, Ordering::SeqCst);
    let lates: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();

    for (agent, pages) in agents.iter().zip(&seen) {
        for (Loop { task, is_down: expected, .. }, late) in LOOPS.into_iter().zip(&lates) {
            let first = pages.iter().position(|(_, page)| is_down(page, task));
            let Some(first) = first else {
                assert!(!expected, "{task} is never down\n{}", agent.log());
                continue;
            };
            let (at, page) = &pages[first];
            if !expected && *late > LATE {
                eprintln!("{task} was late by {late:?}, so it may have been down for a while");
                continue;
            }
            agent.check(page, &format!("{task} is not down: late by {late:?}"), expected);
            let after = at.duration_since(watched);
            agent.check(page, &format!("{task} is down in time: {after:?}"), after <= WORST);
            for (_, page) in &pages[first..] {
                agent.check(page, &format!("{task} stays down"), is_down(page, task));
                agent.check(page, &format!("{task} stays down"), page.verdict(task) == "down");
            }
        }
    }
    assert!(explained.contains("holds ended within"), "{explained}");
    assert!(explained.contains("set settle"), "{explained}");
}
