//! The demo: its parts on a real Redis, and the whole program as a user starts it.

use crate::support::PATIENCE;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lockwatch::commands::demo::{Board, Position, PrivateRedis, WorkerProcess, configuration};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::support::skip;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockwatch");
const LOCK: &str = "outbound:lock";
const LEASE: Duration = Duration::from_secs(3);

/// Two workers and their shared parts, as in the demo.
struct Bench {
    a: WorkerProcess,
    b: WorkerProcess,
    board: Board,
    raw: MultiplexedConnection,
    redis: PrivateRedis,
    _folder: TempDir,
}

impl Bench {
    async fn start(test: &str) -> Option<Bench> {
        if !skip::has(test, &["redis-server"]) {
            return None;
        }
        let redis = PrivateRedis::start(None).await.unwrap();
        let board = Board::connect(&redis).await.unwrap();
        let raw = redis.connect().await.unwrap();
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("lockwatch.yml");
        std::fs::write(&config, configuration(redis.address(), LEASE, false)).unwrap();
        let start = |name, host| {
            let at = redis.address();
            WorkerProcess::start(Path::new(PROGRAM), at, (name, host), &config).unwrap()
        };
        let (a, b) = (start("worker-a", "server-a"), start("worker-b", "server-b"));
        Some(Bench { a, b, board, raw, redis, _folder: folder })
    }

    async fn until_held_by(&mut self, hosts: &[&str]) -> String {
        let held = async {
            loop {
                match self.board.holder_host().await.unwrap() {
                    Some(host) if hosts.contains(&host.as_str()) => return host,
                    _ => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(PATIENCE, held).await.expect("nobody took the lock")
    }

    async fn until_free(&mut self) {
        let free = async {
            while self.raw.exists(LOCK).await.unwrap() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, free).await.expect("the lock was not released");
    }

    async fn progress(&mut self) -> Option<String> {
        self.raw.hget("outbound:stats", "last_run").await.unwrap()
    }

    async fn deadline(&mut self) -> i64 {
        redis::cmd("PEXPIRETIME").arg(LOCK).query_async(&mut self.raw).await.unwrap()
    }

    async fn until_progress_moves(&mut self) {
        let before = self.progress().await;
        let moved = async {
            while self.progress().await == before {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, moved).await.expect("the script does not work");
    }

    async fn stop(self) {
        self.a.stop().await;
        self.b.stop().await;
        self.redis.stop().await;
    }
}

const EITHER: [&str; 2] = ["server-a", "server-b"];

#[tokio::test]
async fn without_redis_server_the_remedy_is_named() {
    let error = PrivateRedis::start(Some(Path::new("/nowhere/redis-server")))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/redis-server"), "{error}");
    assert!(
        error.contains("apt-get install redis-server") && error.contains("--redis-server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_an_error() {
    let error = PrivateRedis::start(Some(Path::new("/bin/false"))).await.unwrap_err().to_string();
    assert!(error.contains("/bin/false ended at once"), "{error}");
}

#[tokio::test]
async fn a_private_redis_keeps_nothing_and_is_gone_when_stopped() {
    if !skip::has("demo: private redis", &["redis-server"]) {
        return;
    }
    let redis = PrivateRedis::start(None).await.unwrap();
    let address = redis.address();
    let mut raw = redis.connect().await.unwrap();
    let setting = |raw: MultiplexedConnection, name: &'static str| async move {
        let mut raw = raw;
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg(name);
        config.query_async::<(String, String)>(&mut raw).await.unwrap().1
    };
    assert_eq!(setting(raw.clone(), "save").await, "");
    assert_eq!(setting(raw.clone(), "appendonly").await, "no");
    assert_eq!(setting(raw.clone(), "bind").await, "127.0.0.1");
    let directory = setting(raw.clone(), "dir").await;
    assert!(Path::new(&directory).is_dir());
    raw.set("key", "value").await.unwrap();

    redis.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    assert!(!Path::new(&directory).exists());
}

#[tokio::test]
async fn one_worker_runs_the_script_while_anybody_wants_it() {
    let Some(mut bench) = Bench::start("demo: switches").await else { return };
    sleep(Duration::from_millis(700)).await;
    assert!(!bench.raw.exists(LOCK).await.unwrap(), "nobody wanted it");

    bench.board.switch("anna", Position::On).await.unwrap();
    bench.board.switch("ben", Position::On).await.unwrap();
    bench.until_held_by(&EITHER).await;
    bench.until_progress_moves().await;
    // The claim, and what the guard states of the runs of its script.
    assert_eq!(bench.raw.hlen("lockwatch:claims:outbound").await.unwrap(), 2);
    assert_eq!(bench.raw.hlen("lockwatch:hosts").await.unwrap(), 2);

    bench.board.switch("anna", Position::Off).await.unwrap();
    sleep(Duration::from_millis(1_500)).await;
    bench.until_progress_moves().await;
    bench.board.switch("ben", Position::Off).await.unwrap();
    bench.until_free().await;
    let stopped_at = bench.progress().await;
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(bench.progress().await, stopped_at);
    // What the guard states of the runs of its script stays.
    assert_eq!(bench.raw.hlen("lockwatch:claims:outbound").await.unwrap(), 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_crash_leaves_the_lock_until_its_lease_has_run_out_and_then_the_other_worker_takes_over()
{
    let Some(mut bench) = Bench::start("demo: crash").await else { return };
    bench.board.switch("anna", Position::On).await.unwrap();
    let host = bench.until_held_by(&EITHER).await;
    bench.until_progress_moves().await;
    let (crashed, other) = match host.as_str() {
        "server-a" => (&mut bench.a, "server-b"),
        _ => (&mut bench.b, "server-a"),
    };
    crashed.crash().await.unwrap();
    assert!(crashed.has_ended());
    let deadline = bench.deadline().await;
    assert!(deadline > 0, "a crash releases nothing");
    bench.until_held_by(&[other]).await;
    let taken_over = bench.deadline().await - i64::try_from(LEASE.as_millis()).unwrap();
    assert!((0..1_500).contains(&(taken_over - deadline)), "{deadline} {taken_over}");
    bench.until_progress_moves().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_dead_script_is_not_noticed_by_the_watchdog() {
    let Some(mut bench) = Bench::start("demo: dead thread").await else { return };
    bench.board.switch("anna", Position::On).await.unwrap();
    let host = bench.until_held_by(&EITHER).await;
    let worker = if host == "server-a" { bench.a.name() } else { bench.b.name() };
    bench.board.hang(worker).await.unwrap();
    let died = async {
        while bench.raw.exists("demo:hang").await.unwrap() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, died).await.unwrap();
    let (progress, deadline) = (bench.progress().await, bench.deadline().await);
    let renewed_twice = async {
        while bench.deadline().await < deadline + 1_800 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, renewed_twice).await.expect("the watchdog stopped");
    assert_eq!(bench.progress().await, progress);

    bench.board.switch("anna", Position::Off).await.unwrap();
    bench.until_free().await;
    bench.board.switch("anna", Position::On).await.unwrap();
    bench.until_held_by(&EITHER).await;
    bench.until_progress_moves().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_ordered_to_end_releases_its_lock() {
    let Some(mut bench) = Bench::start("demo: ordered to end").await else { return };
    bench.b.crash().await.unwrap();
    bench.board.switch("anna", Position::On).await.unwrap();
    bench.until_held_by(&["server-a"]).await;
    let Bench { a, mut raw, redis: _redis, _folder, .. } = bench;
    a.stop().await;
    assert!(!raw.exists(LOCK).await.unwrap());
}

/// The demo as a user starts it.
struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    reported: Vec<String>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        let mut child = Command::new(PROGRAM)
            .arg("demo")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Demo { child, lines, reported: Vec::new() }
    }

    /// Reads lines until one contains `text`.
    async fn until(&mut self, text: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.reported.push(line.clone());
                if line.contains(text) {
                    return Some(line);
                }
            }
            None
        };
        let found = timeout(PATIENCE, found).await;
        found.ok().flatten().unwrap_or_else(|| {
            panic!("it did not say {text:?}, but:\n{}", self.reported.join("\n"))
        })
    }

    /// Sends a signal, through the shell because that needs no unsafe code.
    async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        let sent = Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, name, &id])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// Reads to the end; returns whether the program succeeded.
    async fn end(&mut self) -> bool {
        let rest = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.reported.push(line);
            }
            self.child.wait().await.unwrap().success()
        };
        timeout(Duration::from_secs(150), rest).await.unwrap()
    }
}

/// The address in a line such as "  redis     127.0.0.1:40001, private …".
fn address_in(line: &str) -> String {
    let start = line.find("127.0.0.1:").unwrap();
    line[start..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect()
}

#[tokio::test]
async fn each_stop_signal_ends_everything_that_the_demo_started() {
    if !skip::has("demo: signals", &["redis-server"]) {
        return;
    }
    for signal in ["INT", "TERM", "HUP"] {
        let mut demo = Demo::start(&[]);
        let redis = address_in(&demo.until("  redis  ").await);
        let agent = address_in(&demo.until("  agent  ").await);
        let directory = demo.until("  its log  ").await;
        let directory = Path::new(directory.trim_start_matches("  its log").trim())
            .parent()
            .unwrap()
            .to_owned();
        demo.until("has the lock").await;
        assert!(tokio::net::TcpStream::connect(&agent).await.is_ok());
        assert!(directory.is_dir());
        demo.signal(signal).await;
        assert!(demo.end().await, "{signal}: {}", demo.reported.join("\n"));
        for address in [redis, agent] {
            assert!(
                tokio::net::TcpStream::connect(&address).await.is_err(),
                "{signal}: {address} still listens"
            );
        }
        assert!(!directory.exists());
        assert!(
            demo.reported
                .iter()
                .any(|line| line.contains("worker-") && line.contains("asks the script to end"))
        );
    }
}
