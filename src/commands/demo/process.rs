//! A worker as a child process, so that its crash is a real one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

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
    /// Starts the worker `name` on the simulated server `host`; each hold of its lock lasts
    /// `lease`. `program` is the path of this program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        program: &Path,
        redis: SocketAddr,
        (name, host): (&'static str, &str),
        lease: Duration,
    ) -> anyhow::Result<WorkerProcess> {
        let mut child = Command::new(program)
            .arg("demo-worker")
            .arg("--redis")
            .arg(redis.to_string())
            .args(["--name", name, "--host", host])
            .arg("--lease-ms")
            .arg(lease.as_millis().to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdin = child.stdin.take();
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

    /// Kills it with SIGKILL, as in a crash, so that it releases nothing.
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
