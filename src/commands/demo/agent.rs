//! The agent in the demo: this program as a child process, started as a user would start it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::names::{CLAIMS, HOSTS, LOCK, PROGRESS, TASK, USERS};
use super::server;
use super::web::Reach;
use crate::commands::ask::AgentArguments;

/// Maximum time until the agent is ready.
const READY_WITHIN: Duration = Duration::from_secs(15);
/// Maximum time for one response.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A running agent; killed when dropped.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    asked: AgentArguments,
    log: PathBuf,
}

impl Agent {
    /// How it is asked.
    pub fn asked(&self) -> &AgentArguments {
        &self.asked
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.asked.agent_url
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until the agent ends by itself.
    pub(super) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Stops it.
    pub async fn stop(mut self) {
        // The agent stores nothing, so it may be killed.
        let _ = self.child.kill().await;
    }
}

/// Starts the agent with `config` and waits until it is ready.
///
/// # Errors
/// When it cannot be started, or ends; the error has the end of its log.
pub async fn start_agent(
    program: &Path,
    config: &Path,
    reach: &Reach,
    log: PathBuf,
) -> anyhow::Result<Agent> {
    let address = server::free_address(reach.listen)?;
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.arg("--config.file").arg(config);
    command.arg("--web.listen-address").arg(address.to_string());
    if let Some(file) = &reach.web_file {
        command.arg("--web.config.file").arg(file);
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut agent = Agent { child, asked: reach.arguments(address), log };
    agent.until_ready().await?;
    Ok(agent)
}

impl Agent {
    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            if self.child.try_wait()?.is_some() {
                bail!("the agent ended; the end of its log:\n{}", server::end_of(&self.log));
            }
            match self.asked.get("/-/ready", ANSWER_WITHIN).await {
                Ok(answer) if answer.status == 200 => return Ok(()),
                Err(error) if !is_not_there_yet(&error) => return Err(error),
                _ => {}
            }
            if Instant::now() > give_up {
                bail!("the agent is not ready; the end of its log:\n{}", server::end_of(&self.log));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Whether nobody listens: what else goes wrong, waiting does not mend.
fn is_not_there_yet(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
}

/// The configuration of agent and guards. Times are short, so that the demo is quick to watch.
/// `on_page`: users that have logged in may flip their switch on the page.
pub fn configuration(redis: SocketAddr, lease: Duration, on_page: bool) -> String {
    let (progress, field) = PROGRESS;
    let lease_ms = lease.as_millis();
    let want = if on_page { "    want: {page: true}\n" } else { "" };
    format!(
        "redis:
  main:
    url: redis://{redis}/0
    interval: 500ms
    timeout: 2s
{want}tasks:
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
