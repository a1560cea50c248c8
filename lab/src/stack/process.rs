//! A child process with a log, signals, and a wait until it is ready.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// How long a part may take until it is ready; generous, for a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often it is asked whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a part may take to end when it is asked to.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Stop in the middle of whatever it does.
    Stop,
    /// Go on.
    Continue,
    /// Load the configuration again.
    Hangup,
    /// End.
    Terminate,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Hangup => "HUP",
            Signal::Terminate => "TERM",
        }
    }
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says is added to the file `log`.
    pub(super) fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Process> {
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C is for the lab, which then ends its parts.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        Ok(Process { child, log })
    }

    /// Waits until `is_ready` says so.
    pub(super) async fn ready(&mut self, mut is_ready: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended ({status}); the end of its log:\n{}", end_of(&self.log));
            }
            if is_ready().await {
                return Ok(());
            }
            if Instant::now() > give_up {
                bail!("it is not ready after {READY_WITHIN:?}; the end of its log:\n{}", end_of(&self.log));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.id().context("the process has ended")?;
        send_signal(id, signal).await
    }

    /// By SIGKILL, as a crash; nothing if it has ended already.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.kill().await {
            Err(error) if error.kind() != ErrorKind::InvalidInput => Err(error).context("cannot kill a process"),
            _ => Ok(()),
        }
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn end(&mut self) -> anyhow::Result<()> {
        if self.id().is_some() {
            self.signal(Signal::Terminate).await?;
        }
        match tokio::time::timeout(END_WITHIN, self.child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => self.kill().await,
        }
    }
}

/// Sends a signal to exactly this process, by the shell's own `kill`: a small Debian has no other.
pub(super) async fn send_signal(id: u32, signal: Signal) -> anyhow::Result<()> {
    let sent = Command::new("sh").args(["-c", r#"kill -s "$0" "$1""#, signal.name(), &id.to_string()]).status().await?;
    if !sent.success() {
        bail!("cannot send {signal:?} to process {id}");
    }
    Ok(())
}

/// Waits until `condition` holds.
///
/// # Errors
/// With `what`, when it does not within `within`.
pub async fn until(within: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let give_up = Instant::now() + within;
    while !condition().await {
        if Instant::now() > give_up {
            bail!("not within {within:?}: {what}");
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// The last lines of a log, for an error message.
fn end_of(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}
