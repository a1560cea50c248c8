//! A lock, those who contend for it, and what their scripts report.

use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

use super::super::wire::Wire;
use super::alive::{self, Nanos, now};
use crate::stack::Program;

/// Maximum wait for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a wait looks whether the bench was stopped.
const LOOK: Duration = Duration::from_millis(500);
/// Lease and grace of all guards.
pub(super) const LEASE_MS: u64 = 2_000;
const STOP_AFTER_MS: u64 = 500;
/// The task of a configuration.
const TASK: &str = "outbound";

/// One lock on a Redis, with a folder of its own.
pub(super) struct Scene {
    folder: TempDir,
    socket: UnixDatagram,
    wire: Wire,
    pub(super) redis: SocketAddr,
    pub(super) key: String,
    stopped: Arc<AtomicBool>,
    guards: u64,
    /// Whether scripts do not end when they are asked to.
    pub(super) deaf: bool,
    pub(super) tally: Tally,
}

/// What the scripts of a scene reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// How often a script began.
    pub(super) starts: usize,
    /// How often another one lived then.
    pub(super) overlaps: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.starts += other.starts;
        self.overlaps += other.overlaps;
    }
}

/// A script that began, or ended when it was asked to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) is_start: bool,
    pub(super) guard: u64,
    pub(super) pid: Pid,
    /// Its parent.
    pub(super) keeper: Pid,
    pub(super) at: Nanos,
}

impl Scene {
    pub(super) fn new(
        redis: SocketAddr,
        key: impl Into<String>,
        stopped: &Arc<AtomicBool>,
    ) -> anyhow::Result<Scene> {
        let folder = TempDir::new()?;
        let socket = UnixDatagram::bind(folder.path().join(alive::SOCKET))?;
        socket.set_read_timeout(Some(LOOK))?;
        let (key, stopped) = (key.into(), Arc::clone(stopped));
        let (wire, tally) = (Wire::connect(redis)?, Tally::default());
        Ok(Scene { folder, socket, wire, redis, key, stopped, guards: 0, deaf: false, tally })
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> anyhow::Result<String> {
        self.wire.ask(words)
    }

    /// A guard for the lock on the command line, which reaches the Redis at `via`.
    pub(super) fn guard(&mut self, via: SocketAddr) -> anyhow::Result<Runner> {
        let mut command = Command::new(Program::Lockwatch.find()?);
        command
            .args(["guard", "--redis", &format!("redis://{via}"), "--lock", &self.key])
            .args(["--lease", &format!("{LEASE_MS}ms")])
            .args(["--stop-after", &format!("{STOP_AFTER_MS}ms"), "--restart", "always", "--"]);
        self.run(command)
    }

    /// A guard for the task of a [`Scene::configuration`].
    pub(super) fn configured_guard(&mut self, file: &Path) -> anyhow::Result<Runner> {
        let mut command = Command::new(Program::Lockwatch.find()?);
        command.args(["guard", "--config.file"]).arg(file).args([TASK, "--"]);
        self.run(command)
    }

    /// Writes a configuration whose switches are in the hash `users:<key>`, with all that a guard
    /// can write. No key begins with the lock's: its changes would count as those of the lock.
    pub(super) fn configuration(&self) -> anyhow::Result<PathBuf> {
        let file = self.folder.path().join("lockwatch.yml");
        let (redis, key) = (self.redis, &self.key);
        let text = format!(
            "redis: {{main: {{url: \"redis://{redis}\"}}}}\ntasks:\n- name: {TASK}\n  \
             lock: {{key: \"{key}\"}}\n  wanted: {{hash: \"users:{key}\"}}\n  \
             claims: {{hash: \"claims:{key}\"}}\n  hosts: {{hash: \"hosts:{key}\"}}\n  \
             progress: {{hash: \"stats:{key}\", field: last_run}}\n  \
             guard: {{lease: {LEASE_MS}ms, stop_after: {STOP_AFTER_MS}ms, progress: heartbeat}}\n"
        );
        std::fs::write(&file, text)?;
        Ok(file)
    }

    /// Starts what runs the script, whose command line is still to be appended.
    pub(super) fn run(&mut self, mut command: Command) -> anyhow::Result<Runner> {
        self.guards += 1;
        let name = self.guards;
        let said = self.folder.path().join("said");
        let said = File::options().create(true).append(true).open(said)?;
        command.arg(Program::Lab.find()?).arg(alive::COMMAND);
        command.env(alive::FOLDER, self.folder.path()).env(alive::GUARD, name.to_string());
        if self.deaf {
            command.env(alive::DEAF, "1");
        }
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Runner { child, name })
    }

    /// What a script reports next.
    pub(super) fn next(&mut self) -> anyhow::Result<Report> {
        let (began, mut bytes) = (Instant::now(), [0; 128]);
        loop {
            self.go_on()?;
            match self.socket.recv(&mut bytes) {
                Ok(length) => return self.take(bytes.get(..length).unwrap_or_default()),
                // A signal, as of a child that died, ends the wait as well.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error.into()),
            }
            if began.elapsed() > PATIENCE {
                bail!("no script reports anything within {PATIENCE:?}; {}", self.said());
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<Report> {
        let text = std::str::from_utf8(bytes)?;
        let words: Vec<&str> = text.split(' ').collect();
        let [kind, guard, pid, keeper, at, alone] = words[..] else { bail!("it reported {text}") };
        let process = |word: &str| Pid::from_raw(word.parse().ok()?);
        let report = Report {
            is_start: kind == "start",
            guard: guard.parse()?,
            pid: process(pid).context("no process")?,
            keeper: process(keeper).context("no keeper")?,
            at: at.parse()?,
        };
        if report.is_start {
            self.tally.starts += 1;
            self.tally.overlaps += usize::from(alone == "0");
        }
        Ok(report)
    }

    /// The next start of a script.
    pub(super) fn start(&mut self) -> anyhow::Result<Report> {
        loop {
            let report = self.next()?;
            if report.is_start {
                return Ok(report);
            }
        }
    }

    /// Waits until so many guards wait for a release. Who gets the lock ceases to listen for it.
    pub(super) fn listen(&mut self, guards: usize) -> anyhow::Result<()> {
        const COUNT: &str = "return redis.call('PUBSUB', 'NUMSUB', KEYS[1])[2]";
        let channel = format!("redisson_lock__channel:{{{}}}", self.key);
        self.until("so many guards wait", |scene| {
            Ok(scene.ask(&["EVAL", COUNT, "1", &channel])? == guards.to_string())
        })
    }

    /// Waits until `condition` holds.
    pub(super) fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Scene) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !condition(self)? {
            self.go_on()?;
            if began.elapsed() > PATIENCE {
                bail!("not within {PATIENCE:?}: {what}; {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sleeps up to `longest`, so that what comes next comes at a random instant.
    pub(super) fn pause(&self, longest: Duration) {
        std::thread::sleep(longest.mul_f64(fastrand::f64()));
    }

    /// When the lease ends as Redis has it, on the boot clock. Negative for a lock that nobody has.
    pub(super) fn lease_end(&mut self) -> anyhow::Result<f64> {
        let key = self.key.clone();
        let unix_ms: f64 = self.ask(&["PEXPIRETIME", &key])?.parse()?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1_000.0;
        Ok(unix_ms - wall + to_ms(now()))
    }

    /// Fails if the bench was stopped.
    fn go_on(&self) -> anyhow::Result<()> {
        if self.stopped.load(Ordering::Relaxed) { bail!("stopped") } else { Ok(()) }
    }

    /// The last that the guards logged.
    fn said(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
    }
}

pub(super) fn to_ms(at: Nanos) -> f64 {
    at as f64 / 1e6
}

/// A guard, or a peer of it; killed when dropped.
pub(super) struct Runner {
    child: Child,
    pub(super) name: u64,
}

impl Runner {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn terminate(&self) -> anyhow::Result<()> {
        kill_process(self.pid()?, Signal::TERM).context("cannot end a guard")
    }

    pub(super) fn kill(&self) -> anyhow::Result<()> {
        kill_process(self.pid()?, Signal::KILL).context("cannot kill a guard")
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        Pid::from_raw(self.child.id().try_into()?).context("no process")
    }

    pub(super) fn wait(&mut self) -> anyhow::Result<()> {
        self.child.wait().map(drop).context("cannot wait for a guard")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Kills a process that may be gone.
pub(super) fn kill(pid: Pid) {
    let _gone = kill_process(pid, Signal::KILL);
}

/// Tells when a process dies. It is noticed late rather than early.
pub(super) struct Death(Option<OwnedFd>);

impl Death {
    /// A process that is dead already has no handle.
    pub(super) fn of(pid: Pid) -> Death {
        Death(pidfd_open(pid, PidfdFlags::empty()).ok())
    }

    /// When it was dead; `None`: it lives on after this time.
    pub(super) fn within(&self, limit: Duration) -> anyhow::Result<Option<Nanos>> {
        let Some(handle) = &self.0 else { return Ok(Some(now())) };
        let limit = Timespec { tv_sec: limit.as_secs().try_into()?, tv_nsec: 0 };
        let mut fds = [PollFd::new(handle, PollFlags::IN)];
        let count = retry_on_intr(|| poll(&mut fds, Some(&limit)));
        let count = count.context("cannot wait for a death")?;
        Ok((count > 0).then(now))
    }

    /// When it was dead.
    pub(super) fn at(&self) -> anyhow::Result<Nanos> {
        self.within(PATIENCE)?.context("a script lives on")
    }
}
