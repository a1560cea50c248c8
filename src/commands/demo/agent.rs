//! The agent in the demo: this program as a child process, started as a user would start it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::{CLAIMS, HOSTS, LOCK, PROGRESS, TASK, USERS, look, server};

/// Maximum time until the agent is ready.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// A running agent; killed when dropped.
#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Agent {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until the agent ends by itself.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    pub(super) async fn stop(mut self) {
        // The agent stores nothing, so it may be killed.
        let _ = self.child.kill().await;
    }
}

/// Starts the agent with `config` and waits until it is ready. `listen` may have port 0.
pub(super) async fn start_agent(
    program: &Path,
    config: &Path,
    listen: SocketAddr,
    log: PathBuf,
) -> anyhow::Result<Agent> {
    let address = server::free_address(listen)?;
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let child = Command::new(program)
        .arg("--config.file")
        .arg(config)
        .arg("--web.listen-address")
        .arg(address.to_string())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut agent = Agent { child, address, log };
    let give_up = Instant::now() + READY_WITHIN;
    loop {
        if agent.child.try_wait()?.is_some() {
            bail!("the agent ended; the end of its log:\n{}", server::end_of(&agent.log));
        }
        if matches!(look::get(address, "/-/ready").await, Ok(answer) if answer.status == 200) {
            return Ok(agent);
        }
        if Instant::now() > give_up {
            bail!("the agent is not ready; the end of its log:\n{}", server::end_of(&agent.log));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The configuration of agent and guards. Times are short, so that the demo is quick to watch.
pub fn configuration(redis: SocketAddr, lease: Duration) -> String {
    let (progress, field) = PROGRESS;
    let lease_ms = lease.as_millis();
    format!(
        "redis:
  main:
    url: redis://{redis}/0
    interval: 500ms
    timeout: 2s
tasks:
  - name: {TASK}
    lock: {{key: \"{LOCK}\", library: redisson}}
    wanted: {{hash: \"{USERS}\"}}
    progress: {{hash: \"{progress}\", field: {field}, stale_after: 6s}}
    claims: {{hash: \"{CLAIMS}\", fresh_for: 5s}}
    hosts: {{hash: \"{HOSTS}\"}}
    guard: {{lease: {lease_ms}ms, stop_after: 1s}}
    grace: 5s
    settle: 2s
    wind_down: 10s
    blind_after: 15s
"
    )
}
