//! `lockwatch guard` with real processes and a real Redis: scripts that record themselves when they
//! run, and faults of guard, keeper, script and Redis.

mod codes;
mod ends;
mod failing;
mod faults;
mod group;
mod hand_over;
mod lock;
mod mixed;
mod network;
mod output;
mod pauses;
mod ready;
mod replicas;
mod rights;
mod topologies;
mod wrapper;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::PATIENCE;
use crate::support::redis::RedisServer;

const LOCK: &str = "outbound:lock";
/// The variable by which all that comes of one guard is found.
const MARK: &str = "GUARD_TEST";

/// Records each few milliseconds that it runs, from a session of its own: a kill of its process
/// group alone leaves it behind.
const SCRIPT: &str = r#"#!/bin/sh
trap 'exit 3' TERM
echo "$LOCKWATCH_TOKEN start $(date +%s%N)" >> "$LOG"
setsid sh -c 'while :; do echo "$LOCKWATCH_TOKEN alive $(date +%s%N)" >> "$LOG"
    sleep 0.005; done' &
while :; do sleep 0.02; done
"#;

/// A folder with the script and its record.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { folder: TempDir::new().unwrap() };
        fs::write(scene.path("script"), SCRIPT).unwrap();
        fs::write(scene.path("log"), "").unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self) -> Vec<String> {
        vec!["sh".to_owned(), self.path("script").to_str().unwrap().to_owned()]
    }

    /// A guard of the scene's script for a lock on the command line.
    fn guard(&self, server: &RedisServer, more: &[&str]) -> Guard {
        let redis = format!("redis://{}", server.address());
        let first = ["--redis", &redis, "--lock", LOCK, "--lease", "2s", "--stop-after", "500ms"];
        self.start(&[&first[..], &["--restart", "always"], more].concat(), &self.script())
    }

    fn start(&self, arguments: &[&str], command: &[String]) -> Guard {
        let errors = self.path(&format!("errors-{:016x}", fastrand::u64(..)));
        let said = fs::File::create(&errors).unwrap();
        let mut guard = self.start_to(arguments, command, Stdio::null(), said);
        guard.errors = errors;
        guard
    }

    /// A guard with these ends for the output and the errors, its own and those of the script.
    fn start_to(
        &self,
        arguments: &[&str],
        command: &[String],
        output: impl Into<Stdio>,
        errors: impl Into<Stdio>,
    ) -> Guard {
        let mark = format!("{:016x}", fastrand::u64(..));
        let child = Command::new(env!("CARGO_BIN_EXE_lockwatch"))
            .arg("guard")
            .args(arguments)
            .arg("--")
            .args(command)
            .env(MARK, &mark)
            .env("LOG", self.path("log"))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap();
        Guard { child, mark, errors: PathBuf::new() }
    }

    /// When the scripts ran, by their tokens, in nanoseconds.
    fn runs(&self) -> BTreeMap<u64, (u64, u64)> {
        let mut runs: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let log = fs::read_to_string(self.path("log")).unwrap();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [token, _, at] = words[..] else { continue };
            let (Ok(token), Ok(at)) = (token.parse(), at.parse()) else { continue };
            let run = runs.entry(token).or_insert((at, at));
            *run = (run.0.min(at), run.1.max(at));
        }
        runs
    }

    /// No two scripts ran at the same time. Returns how many ran.
    fn assert_never_both(&self) -> usize {
        let mut runs: Vec<_> = self.runs().into_iter().map(|(token, run)| (run, token)).collect();
        runs.sort_unstable();
        for pair in runs.windows(2) {
            let [((_, ended), one), ((began, _), other)] = pair else { continue };
            assert!(ended < began, "{one} and {other} ran together: {runs:?}");
            assert!(one < other, "the token fell: {runs:?}");
        }
        runs.len()
    }

    /// Waits until a script with a token above this one runs. Returns its token.
    fn runs_above(&self, token: u64) -> u64 {
        let began = Instant::now();
        loop {
            let newest = self.runs().last_key_value().map(|(token, _)| *token);
            if let Some(newest) = newest.filter(|newest| *newest > token) {
                return newest;
            }
            assert!(began.elapsed() < PATIENCE, "no script runs: {}", self.said());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// What all guards said.
    fn said(&self) -> String {
        let files = fs::read_dir(self.folder.path()).unwrap().flatten();
        let errors = files.filter(|file| file.file_name().to_string_lossy().starts_with("errors"));
        errors.map(|file| fs::read_to_string(file.path()).unwrap()).collect::<Vec<_>>().join("\n")
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How often a command was called.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.cli(&["info", "commandstats"]);
    let calls =
        stats.split_once(&format!("cmdstat_{command}:calls=")).map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

/// A guard, with all that comes of it.
struct Guard {
    child: Child,
    mark: String,
    errors: PathBuf,
}

impl Guard {
    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// All living processes of the guard: itself, its keeper, the script and what came of that.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.mark).into_bytes();
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |pid: &i32| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == mark)
        };
        pids.filter(is_ours).collect()
    }

    fn keeper(&self) -> i32 {
        until("there is a keeper", || {
            let is_keeper = |pid: &i32| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.starts_with(b"lockwatch\0keeper\0")
            };
            self.processes().into_iter().find(is_keeper)
        })
    }

    /// The script and what came of it.
    fn scripts(&self) -> Vec<i32> {
        let is_ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != self.pid() && !line.is_empty() && !line.starts_with(b"lockwatch\0")
        };
        self.processes().into_iter().filter(is_ours).collect()
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    fn signal(&self, name: &str) {
        signal(name, &[self.pid()]);
    }

    /// How it ended.
    fn ended(&mut self) -> ExitStatus {
        until("the guard ends", || self.child.try_wait().unwrap())
    }

    fn code(&mut self) -> Option<i32> {
        self.ended().code()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What is being started meanwhile is not among them yet.
        loop {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            signal("KILL", &left);
            let _ended = self.child.wait();
        }
        // With the keeper went who would have removed it.
        let _none = group::folder(self.pid()).map(fs::remove_dir);
    }
}

fn signal(name: &str, pids: &[i32]) {
    if pids.is_empty() {
        return;
    }
    let _gone = Command::new("kill")
        .arg(format!("-{name}"))
        .args(pids.iter().map(i32::to_string))
        .stderr(Stdio::null())
        .status();
}

/// What a command that ends by itself printed on standard error, and its code.
fn output(mut guard: Guard) -> (Option<i32>, String) {
    let code = guard.code();
    let mut text = String::new();
    fs::File::open(&guard.errors).unwrap().read_to_string(&mut text).unwrap();
    (code, text)
}
