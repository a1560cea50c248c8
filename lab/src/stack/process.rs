//! A child process with a log, signals, and a wait until it is ready.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Maximum time until a part is ready; generous, for a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Interval of the checks whether it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Maximum time until a part ends after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(20);

/// The unit of CPU times: a hundredth of a second on Linux.
const TICK: Duration = Duration::from_millis(10);

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGSTOP: pauses the process.
    Stop,
    /// SIGCONT: continues a paused process.
    Continue,
    /// SIGHUP: reloads the configuration.
    Hangup,
    /// SIGTERM: ends the process.
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

/// A child process that leads a process group of its own; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; its output is appended to the file `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Process> {
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Its own process group, so that Ctrl-C reaches only the lab, which then ends its
            // parts.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        Ok(Process { child, log })
    }

    /// Waits until `is_ready` returns true.
    pub(crate) async fn ready(
        &mut self,
        mut is_ready: impl AsyncFnMut() -> bool,
    ) -> anyhow::Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended ({status}); the end of its log:\n{}", end_of(&self.log));
            }
            if is_ready().await {
                return Ok(());
            }
            if Instant::now() > give_up {
                bail!(
                    "it is not ready after {READY_WITHIN:?}; the end of its log:\n{}",
                    end_of(&self.log)
                );
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.id().context("the process has ended")?;
        send_signal(id, signal).await
    }

    /// Kills it by SIGKILL, as in a crash; does nothing if it has ended already.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.kill().await {
            Err(error) if error.kind() != ErrorKind::InvalidInput => {
                Err(error).context("cannot kill a process")
            }
            _ => Ok(()),
        }
    }

    /// Terminates it, and kills it if it does not end in time.
    pub(crate) async fn end(&mut self) -> anyhow::Result<()> {
        if self.id().is_some() {
            self.signal(Signal::Terminate).await?;
        }
        match tokio::time::timeout(END_WITHIN, self.child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => self.kill().await,
        }
    }
}

/// Sends a signal to this process only, with the shell's builtin `kill`, because a minimal Debian
/// has no other.
pub(crate) async fn send_signal(id: u32, signal: Signal) -> anyhow::Result<()> {
    send_to(&id.to_string(), signal).await
}

/// Sends a signal to all processes of the group that this process leads, for a part with children.
pub(super) async fn signal_group(id: u32, signal: Signal) -> anyhow::Result<()> {
    send_to(&format!("-{id}"), signal).await
}

async fn send_to(target: &str, signal: Signal) -> anyhow::Result<()> {
    let sent = Command::new("sh")
        .args(["-c", r#"kill -s "$0" -- "$1""#, signal.name(), target])
        .status()
        .await?;
    if !sent.success() {
        bail!("cannot send {signal:?} to process {target}");
    }
    Ok(())
}

/// Kills all processes of such a group before it returns.
pub(super) fn kill_group(id: u32) -> std::io::Result<ExitStatus> {
    std::process::Command::new("sh")
        .args(["-c", r#"kill -s KILL -- "-$0""#, &id.to_string()])
        .stderr(Stdio::null())
        .status()
}

/// All running processes with their parents, from `/proc`.
pub(super) fn parents() -> anyhow::Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot list the processes")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The process may have ended meanwhile.
        let Some(parent) = stat(id).and_then(|fields| fields.get(1)?.parse().ok()) else {
            continue;
        };
        found.push((id, parent));
    }
    Ok(found)
}

/// The CPU time of a process; `None` if it has ended.
pub fn cpu_time(id: u32) -> Option<Duration> {
    let fields = stat(id)?;
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Some(TICK * u32::try_from(ticks).ok()?)
}

/// The memory and open files of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Proportional set size in bytes: shared memory is divided among the processes that share it.
    pub pss_bytes: u64,
    /// Number of open files, including sockets.
    pub files: usize,
}

/// The current footprint of a process; `None` if it has ended.
pub(crate) fn footprint(id: u32) -> Option<Footprint> {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        Some(1024 * line.split_whitespace().next()?.parse::<u64>().ok()?)
    };
    let files = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count();
    Some(Footprint { rss_bytes: bytes("Rss:")?, pss_bytes: bytes("Pss:")?, files })
}

/// The fields of `/proc/<id>/stat` from the state on; the name before it may contain any
/// characters.
fn stat(id: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Waits until `condition` holds.
///
/// # Errors
/// When it does not hold within `within`; the error names `what`.
pub async fn until(
    within: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) -> anyhow::Result<()> {
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
