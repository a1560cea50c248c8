//! The environment for the runbooks' commands: a Redis with real holders, an agent under its
//! read-only user, a Prometheus with the shipped rules and an Alertmanager.

use crate::support::PATIENCE;
use std::process::{Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::pages::{Document, sh_blocks};
use crate::support::agent::{Agent, program};
use crate::support::exposition::Exposition as Metrics;
use crate::support::prometheus::{Alertmanager, Prometheus, programs};
use crate::support::redis::{RedisServer, Setup};
use crate::support::redisson::Redisson;
use crate::support::{skip, wait_until};

const LOCK: &str = "outbound:lock";
const SWITCHES: &str = "outbound:users";
const CLAIMS: &str = "outbound:claims";
const HOSTS: &str = "lockwatch:hosts";
const PROGRESS: &str = "outbound:stats";
const FIELD: &str = "last_run";
const TASK: &str = "outbound";
const PASSWORD: &str = "stage";
/// A queue, and the alerts that only queues have.
const QUEUE: &str = "delayed";
const QUEUE_TASKS: &str = "delayed:tasks";
const QUEUE_CLAIMS: &str = "delayed:claims";
const QUEUES: [&str; 4] =
    ["LockwatchDeadHolder", "LockwatchExecutedAgain", "LockwatchOrphanLock", "LockwatchVanished"];
/// The Sentinel's name for the master.
const MASTER: &str = "mymaster";
/// A client that no longer exists.
const GHOST: &str = "0d9c2f4e-1111-4222-8333-444455556666";
/// Longer than any lease here.
const OLD_LEASE: Duration = Duration::from_secs(60);

pub(super) struct Stage {
    redisson: Redisson,
    /// Number of clients so far.
    clients: usize,
    agent: Agent,
    prometheus: Prometheus,
    alertmanager: Alertmanager,
    pub(super) server: RedisServer,
    /// Its replica.
    other: RedisServer,
    _sentinel: RedisServer,
    _cluster: RedisServer,
    _recording: TempDir,
    preamble: String,
    /// The task of the present runbook.
    task: &'static str,
}

impl Stage {
    /// `None`, with a message, on a machine that lacks a program.
    pub(super) fn open(test: &str) -> Option<Stage> {
        if !skip::has(test, &programs()) || !skip::has(test, &["curl", "jq"]) {
            return None;
        }
        let redisson = Redisson::start(test)?;
        let server = RedisServer::start_with(test, &["--slowlog-log-slower-than", "0"])?;
        let (other, sentinel, cluster) = others(&server);
        let recording = TempDir::new().unwrap();
        let agent = Agent::start_with(&config(&server), |command| {
            command.arg("--web.enable-lifecycle").env("LOCKWATCH_PASSWORD", PASSWORD);
            command.arg("--record").arg(recording.path());
        });
        let mut acl = program();
        acl.args(["acl", "--config.file"]).arg(agent.path("lockwatch.yml")).stdout(Stdio::piped());
        let acl = acl.output().unwrap();
        let printed = String::from_utf8_lossy(&acl.stdout).replace("PASSWORD", PASSWORD);
        let rule = printed
            .lines()
            .find(|line| line.starts_with("ACL"))
            .unwrap_or_else(|| panic!("{acl:?}"));
        let words: Vec<&str> = rule.split(' ').map(|word| word.trim_matches('"')).collect();
        assert_eq!(server.cli(&words), "OK", "{rule}");

        let alertmanager = Alertmanager::start();
        let prometheus = Prometheus::start(agent.port, &alertmanager);
        let preamble = preamble(&[
            ("LOCKWATCH", format!("http://127.0.0.1:{}", agent.port)),
            ("PROMETHEUS", prometheus.url()),
            ("ALERTMANAGER", alertmanager.url()),
            ("CONFIG", agent.path("lockwatch.yml").display().to_string()),
            ("RECORDING", recording.path().display().to_string()),
            // `-e`: errors set the exit code too.
            ("REDIS_CLI", format!("redis-cli -e -p {}", server.port)),
            ("OTHER_CLI", format!("redis-cli -e -p {}", other.port)),
            ("SENTINEL_CLI", format!("redis-cli -e -p {}", sentinel.port)),
            ("MASTER", MASTER.to_owned()),
            ("CLUSTER_CLI", format!("redis-cli -e -c -p {}", cluster.port)),
        ]);
        let (_sentinel, _cluster) = (sentinel, cluster);
        let mut stage = Stage {
            redisson,
            clients: 0,
            agent,
            prometheus,
            alertmanager,
            server,
            other,
            _sentinel,
            _cluster,
            _recording: recording,
            preamble,
            task: TASK,
        };
        stage.hold();
        wait_until(PATIENCE, "Alertmanager is notified", || {
            stage.alertmanager.knows("LockwatchWatchdog")
        });
        Some(stage)
    }

    /// Runs a command of a runbook in a shell with the variables of the preamble.
    pub(super) fn run(&self, command: &str) -> Output {
        let binaries = std::path::Path::new(env!("CARGO_BIN_EXE_lockwatch")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let script = format!("set -u\n{}\nTASK={}\n{command}", self.preamble, self.task);
        let mut shell = std::process::Command::new("timeout");
        shell.args(["30", "sh", "-c", &script]).env("PATH", path).current_dir("/").output().unwrap()
    }

    /// Creates the situation of the alert as far as its commands need it; otherwise a task that is
    /// wanted and held.
    pub(super) fn arrange(&mut self, alert: &str) {
        self.clear();
        self.task = if QUEUES.contains(&alert) { QUEUE } else { TASK };
        match alert {
            queue if QUEUES.contains(&queue) => self.arrange_queue(alert),
            "LockwatchTaskDown" => {
                self.expect("down", |page| page.verdict(TASK) == "down");
            }
            "LockwatchTaskSplit" => {
                self.hold();
                self.server.cli(&["HSET", LOCK, &format!("{GHOST}:57"), "1"]);
                self.expect("split", |page| page.verdict(TASK) == "split");
            }
            "LockwatchTaskStalled" => {
                self.hold();
                self.expect("stalled", |page| page.verdict(TASK) == "stalled");
            }
            "LockwatchSwitchesLost" | "LockwatchLockLost" => {
                self.hold();
                self.server.cli(&["FLUSHALL"]);
                let lost = |page: &Metrics| page.of(TASK, "lock_lost_total") >= Some(1.0);
                self.expect("lost", |page| problem(page, "switches_lost") && lost(page));
            }
            "LockwatchTaskBlind" => {
                // A split from an earlier runbook lasts until the old lease is over, and would hide
                // this verdict.
                let over = |page: &Metrics| page.verdict(TASK) != "split";
                self.agent.until(OLD_LEASE, "no split any more", over);
                self.server.cli(&["SET", LOCK, "no hash"]);
                self.expect("blind", |page| page.verdict(TASK) == "unknown");
            }
            "LockwatchStoreUnreachable" => {
                let refused = |page: &Metrics| {
                    page.get("lockwatch_store_errors_total", &[("reason", "auth")])
                };
                // After a dial and some sweeps, this is the reason for the whole redis.
                let enough = refused(&self.agent.page()).unwrap_or_default() + 3.0;
                self.server.cli(&["ACL", "SETUSER", "lockwatch", "off"]);
                self.server.cli(&["CLIENT", "KILL", "USER", "lockwatch"]);
                self.expect("refused", |page| {
                    page.of(TASK, "lock_held").is_none() && refused(page) > Some(enough)
                });
            }
            "LockwatchRivalMaster" => {
                self.hold();
                self.other.cli(&["REPLICAOF", "NO", "ONE"]);
            }
            "LockwatchTaskUnwanted" => {
                self.hold();
                self.server.cli(&["HSET", SWITCHES, "anna", "0"]);
                self.expect("unwanted", |page| page.verdict(TASK) == "unwanted");
            }
            "LockwatchLeaseExpired" => {
                self.lock(" lease=500");
                self.expect("expired", |page| page.of(TASK, "lock_expired_total") >= Some(1.0));
                self.hold();
            }
            "LockwatchLockPersistent" => {
                self.server.cli(&["HSET", LOCK, &format!("{GHOST}:57"), "1"]);
                self.wait_for_lock();
                let endless = Some(f64::INFINITY);
                self.expect("persistent", |page| page.of(TASK, "lock_ttl_seconds") == endless);
            }
            "LockwatchProgressMissing" => {
                self.hold();
                self.server.cli(&["HSET", PROGRESS, "last_runs", "misspelt"]);
                self.server.cli(&["HDEL", PROGRESS, FIELD]);
                self.expect("no progress", |page| problem(page, "progress_missing"));
            }
            "LockwatchSwitchUndecodable" => {
                self.hold();
                self.server.cli(&["HSET", SWITCHES, "anna", "perhaps"]);
                self.expect("undecodable", |page| problem(page, "undecodable"));
            }
            _ => self.hold(),
        }
    }

    /// The situation of an alert about a queue.
    fn arrange_queue(&mut self, alert: &str) {
        let executing = |stage: &Stage, id: &str, worker: &str| {
            stage.server.cli(&["ZADD", QUEUE_TASKS, "0", id]);
            stage.server.cli(&["SET", &format!("{QUEUE}:lock:{id}"), worker, "PX", "60000"]);
            stage.expect("executing", |page| page.of(QUEUE, "queue_executing") == Some(1.0));
        };
        let over = |stage: &Stage, id: &str| {
            stage.server.cli(&["ZREM", QUEUE_TASKS, id]);
            stage.server.cli(&["DEL", &format!("{QUEUE}:lock:{id}")]);
            stage.expect("over", |page| page.of(QUEUE, "queue_executing") == Some(0.0));
        };
        self.server.cli(&["DEL", QUEUE_TASKS, QUEUE_CLAIMS]);
        for id in ["dead", "again", "left"] {
            self.server.cli(&["DEL", &format!("{QUEUE}:lock:{id}")]);
        }
        self.expect("an empty queue", |page| {
            page.of(QUEUE, "queue_members") == Some(0.0)
                && page.of(QUEUE, "queue_executing") == Some(0.0)
        });
        match alert {
            "LockwatchExecutedAgain" => {
                executing(self, "again", "first");
                executing(self, "again", "second");
                let again = |page: &Metrics| page.of(QUEUE, "queue_executed_again_total");
                self.expect("again", |page| again(page) >= Some(1.0));
            }
            "LockwatchDeadHolder" => {
                executing(self, "dead", "worker");
                self.server.cli(&["HSET", QUEUE_CLAIMS, "worker", "1"]);
                wait_until(PATIENCE, "a claim", || {
                    self.agent.task(QUEUE)["live_claims"]
                        .as_array()
                        .is_some_and(|it| !it.is_empty())
                });
                wait_until(PATIENCE, "the holder is silent", || {
                    self.agent.task(QUEUE)["queue"]["first"][0]["execution"]["dead"] == true
                });
            }
            "LockwatchOrphanLock" => {
                executing(self, "left", "worker");
                self.server.cli(&["ZREM", QUEUE_TASKS, "left"]);
                wait_until(PATIENCE, "its lock stays", || {
                    self.agent.task(QUEUE)["queue"]["orphans"][0]["id"] == "left"
                });
            }
            _ => {
                for number in 0..5 {
                    let id = format!("m{number}");
                    executing(self, &id, "worker");
                    over(self, &id);
                }
                self.server.cli(&["ZADD", QUEUE_TASKS, "0", "late"]);
                self.expect("due", |page| page.of(QUEUE, "queue_due") == Some(1.0));
                self.server.cli(&["ZREM", QUEUE_TASKS, "late"]);
                let vanished = |page: &Metrics| page.of(QUEUE, "queue_vanished_total");
                self.expect("vanished", |page| vanished(page) >= Some(1.0));
            }
        }
    }

    /// Checks the effect of this command of this runbook.
    pub(super) fn after(&mut self, page: &str, command: &str) {
        match page {
            "LockwatchLockPersistent" if command.contains("PEXPIRE") => {
                assert!(self.server.cli(&["PTTL", LOCK]).parse::<u32>().unwrap() <= 30_000);
                self.server.cli(&["PEXPIRE", LOCK, "1"]);
                wait_until(PATIENCE, "it has expired", || self.server.cli(&["PTTL", LOCK]) == "-2");
            }
            "LockwatchLockPersistent" if command.contains("PUBLISH") => {
                self.redisson.event("acquired", LOCK, PATIENCE);
            }
            "LockwatchTaskDown" if command.contains("HSET") => {
                self.expect("stopped", |page| page.verdict(TASK) == "stopped");
            }
            "LockwatchSwitchesLost" if command.contains("HSET") => {
                self.expect("found", |page| !problem(page, "switches_lost"));
            }
            "alerting" if command.contains(" SET \"$PAUSE_KEY\"") => {
                self.expect("paused", |page| page.of(TASK, "task_paused") == Some(1.0));
            }
            "alerting" if command.contains(" DEL \"$PAUSE_KEY\"") => {
                self.expect("no pause", |page| page.of(TASK, "task_paused") == Some(0.0));
            }
            _ => {}
        }
    }

    /// No lock, no waiter, one of two switches on.
    fn clear(&mut self) {
        for client in 0..self.clients {
            self.redisson.run(&format!("shutdown c{client}"));
        }
        self.clients = 0;
        self.other.cli(&["REPLICAOF", "127.0.0.1", &self.server.port.to_string()]);
        self.server.cli(&["DEL", LOCK, CLAIMS]);
        self.server.cli(&["ACL", "SETUSER", "lockwatch", "on"]);
        self.server.cli(&["HSET", SWITCHES, "anna", "1", "ben", "0"]);
        wait_until(PATIENCE, "the replica follows", || {
            self.other.info("master_link_status").as_deref() == Some("up")
        });
        self.expect("free and wanted", |page| {
            page.of(TASK, "lock_held") == Some(0.0) && page.of(TASK, "task_wanted") == Some(1.0)
        });
    }

    /// A client takes the lock for good, with renewals and progress; another one waits.
    fn hold(&mut self) {
        self.lock("");
        self.wait_for_lock();
        for run in 1..3 {
            let value = format!("{} {run}", self.clients);
            self.server.cli(&["HSET", PROGRESS, FIELD, &value]);
            let held = self.agent.page().of(TASK, "lock_held_seconds").unwrap_or_default();
            self.expect("another look", |page| page.of(TASK, "lock_held_seconds") > Some(held));
        }
        let seen = |page: &Metrics| page.of(TASK, "task_progress_timestamp_seconds").is_some();
        let renewed = |page: &Metrics| page.of(TASK, "lock_last_renewal_latency_seconds").is_some();
        self.expect("held and renewed", |page| seen(page) && renewed(page));
        wait_until(PATIENCE, "Prometheus knows", || {
            self.prometheus.count("lockwatch_lock_holder") == 1
        });
    }

    fn lock(&mut self, options: &str) {
        let (client, id) = self.connect();
        self.server.cli(&["HSET", HOSTS, &id, "wh-app-01"]);
        self.server.cli(&["HSET", CLAIMS, &id, "working"]);
        self.redisson.run(&format!("lock {client} t1 {LOCK}{options}"));
    }

    fn wait_for_lock(&mut self) {
        let (client, _) = self.connect();
        self.redisson.run(&format!("lock-async {client} t1 {LOCK}"));
        self.expect("somebody waits", |page| page.of(TASK, "lock_waiters") == Some(1.0));
    }

    fn connect(&mut self) -> (String, String) {
        let client = format!("c{}", self.clients);
        self.clients += 1;
        let id =
            self.redisson.connect(&client, &format!("port={} watchdog=3000", self.server.port));
        (client, id)
    }

    #[track_caller]
    fn expect(&self, what: &str, condition: impl FnMut(&Metrics) -> bool) {
        self.agent.until(PATIENCE, what, condition);
    }
}

/// Whether the task has this problem now.
fn problem(page: &Metrics, name: &str) -> bool {
    let labels = [("task", TASK), ("problem", name)];
    page.get("lockwatch_task_problem_seconds", &labels) > Some(0.0)
}

/// A replica of the server, a Sentinel that watches it, and a cluster of one node.
fn others(server: &RedisServer) -> (RedisServer, RedisServer, RedisServer) {
    let launch = |arguments: &[&str], lines: Vec<String>| {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| (*argument).to_owned()).collect();
        RedisServer::launch(|_port| Setup {
            arguments: arguments.clone(),
            lines: Some(lines.clone()),
            ..Setup::default()
        })
    };
    let replica = launch(&[], vec![format!("replicaof 127.0.0.1 {}", server.port)]);
    let sentinel = launch(
        &["--sentinel"],
        vec![format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", server.port)],
    );
    let cluster = launch(&["--cluster-enabled", "yes"], vec![]);
    assert_eq!(cluster.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    wait_until(PATIENCE, "the cluster is well", || {
        cluster.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    });
    (replica, sentinel, cluster)
}

/// Most users see the lean metrics only, and every command must work for them.
fn config(server: &RedisServer) -> String {
    format!(
        r#"
metrics: lean
redis:
  main: {{url: "redis://{}", username: lockwatch, password_env: LOCKWATCH_PASSWORD, interval: 200ms, timeout: 1s}}
labels: [standby]
tasks:
  - name: {TASK}
    lock: {{key: "{LOCK}", lease: 3s}}
    wanted: {{hash: "{SWITCHES}"}}
    grace: 1s
    settle: 500ms
    wind_down: 1s
    blind_after: 2s
    paused_until: {{key: "outbound:pause"}}
    progress: {{hash: "{PROGRESS}", field: {FIELD}, stale_after: 3s}}
    claims: {{hash: "{CLAIMS}"}}
    hosts: {{hash: "{HOSTS}"}}
    max_hold: 1h
    labels: {{standby: required}}
  - name: {QUEUE}
    queue: {{zset: "{QUEUE_TASKS}", lock: "{QUEUE}:lock:{{id}}"}}
    claims: {{hash: "{QUEUE_CLAIMS}", fresh_for: 1s}}
"#,
        server.address()
    )
}

/// The block that explains the variables, with these values instead of its examples.
fn preamble(values: &[(&str, String)]) -> String {
    let page = Document::read("docs/on-call.md");
    let block = sh_blocks(page.section("Before you start"))[0];
    let mut left: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let lines = block.lines().map(|line| {
        let name = line.split_once('=').expect("NAME=value").0;
        left.retain(|other| *other != name);
        let value = values.iter().find(|(other, _)| *other == name);
        value.map_or(line.to_owned(), |(name, value)| format!("{name}='{value}'"))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(left.is_empty(), "{left:?} are not explained");
    text
}
