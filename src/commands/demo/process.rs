//! A worker: a guard as a child process, so that its crash is a real one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::timeout;

use super::names::{TASK, say};

/// Maximum time for a worker to release its lock and end.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// A running worker; killed when dropped.
#[derive(Debug)]
pub struct WorkerProcess {
    name: &'static str,
    child: Child,
    /// The worker ends when this closes, which also happens when the demo itself is killed.
    stdin: Option<ChildStdin>,
}

impl WorkerProcess {
    /// Starts the worker `name` on the simulated server `host`, configured by `config`. `program`
    /// is the path of this program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        program: &Path,
        redis: SocketAddr,
        (name, host): (&'static str, &str),
        config: &Path,
    ) -> anyhow::Result<WorkerProcess> {
        let mut child = Command::new(program)
            .args(["guard", TASK, "--until-input-ends", "--host", host, "--config.file"])
            .arg(config)
            .arg("--")
            .arg(program)
            .args(["demo-script", "--name", name, "--redis", &redis.to_string()])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdin = child.stdin.take();
        if let Some(log) = child.stderr.take() {
            tokio::spawn(repeat(name, log));
        }
        Ok(WorkerProcess { name, child, stdin })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its process id; `None` when it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the guard with SIGKILL, as in a crash, so that it releases nothing; its keeper kills
    /// the script.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn crash(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    /// Tells it to release its lock and end.
    pub fn tell_to_stop(&mut self) {
        self.stdin = None;
    }

    /// Tells it to release its lock and end, and waits for that; kills it if it does not.
    pub async fn stop(mut self) {
        self.tell_to_stop();
        if timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Repeats what a worker says in its log.
async fn repeat(name: &'static str, log: ChildStderr) {
    let mut lines = BufReader::new(log).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let said = line.split_once("msg=").map_or(line.as_str(), |(_, rest)| rest);
        let said = match said.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => said.split(' ').next().unwrap_or_default(),
        };
        say(&format!("          ({name}: {said})"));
    }
}
