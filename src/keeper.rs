//! The keeper of a script: its parent, in a session of its own, which kills all that comes of it
//! when the guard is gone or the deadline has come. It is as small as that: no runtime, no Redis,
//! nothing that could wait for anything else.
//!
//! The guard starts it from the same program, with one end of a socket as its standard input. In
//! the same way the keeper starts the *starter*, which enters the script's group and waits. Ordered
//! to start, it becomes the script. So a guard that waits for a lock has both of them ready: to
//! start programs and to enter a group takes longer than to take the lock. The script inherits
//! everything else, so its output needs nobody.

pub mod boot;
pub mod group;
pub mod input;
pub mod tree;
pub mod wire;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{Error, ErrorKind, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, pidfd_open,
    set_child_subreaper, setsid, wait,
};

use self::boot::Alarm;
use self::group::Group;
use self::tree::Tree;
use self::wire::{Ended, Lines, Order, Start};
use crate::exit::Exit;

/// This very program, also after an upgrade.
pub const PROGRAM: &str = "/proc/self/exe";
/// The hidden command.
pub const COMMAND: &str = "keeper";
/// The one of the starter, which enters a group and becomes the script.
const ENTER: &str = "enter";
/// Stands for no group, or no input, among the arguments of keeper and starter.
pub const NOTHING: &str = "-";
/// Stands for the guard's standard input, which comes through the sockets.
pub const INPUT: &str = "input";
/// How long processes that were left over may stay unreaped.
const REAP_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Pause between two looks at processes that are being killed.
const AGAIN: Duration = Duration::from_millis(1);

/// Runs the keeper if this process is one, or becomes the script: `arguments` are those of the
/// process.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let work = match arguments.nth(1)?.to_str()? {
        COMMAND => keep,
        ENTER => enter,
        _ => return None,
    };
    let code = work(&arguments.collect::<Vec<_>>());
    Some(code.unwrap_or_else(|error| {
        say(format_args!("lockwatch keeper: {error:#}"));
        ExitCode::FAILURE
    }))
}

/// `arguments`: the group, the input, and the script with its arguments.
fn keep(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let [group, input, _, ..] = arguments else {
        anyhow::bail!("is started by `lockwatch guard` only");
    };
    setsid().context("cannot begin a session")?;
    set_child_subreaper(Some(getpid())).context("cannot adopt processes")?;
    let guard = parent().context("has no guard to listen to")?;
    let (starter, theirs) = UnixStream::pair().context("cannot connect to a starter")?;
    if input == INPUT {
        let input = input::receive(&guard).context("has no input for the script")?;
        input::send(&starter, input).context("cannot pass the input on")?;
    }
    guard.set_nonblocking(true).context("cannot listen to the guard")?;
    let alarm = Alarm::new().context("cannot set an alarm")?;
    let mut command = Command::new(PROGRAM);
    command.arg0("lockwatch").arg(ENTER).args(arguments).stdin(OwnedFd::from(theirs));
    let spawned = command.process_group(0).spawn();
    // With it goes the starter's side of the socket.
    drop(command);
    match spawned {
        Ok(script) => {
            let script = Pid::from_raw(script.id().try_into().unwrap_or(0)).context("no script")?;
            let tree = Tree::of(getpid(), (group != NOTHING).then(|| Group::at(group)));
            let (starter, lines) = (Some(starter), Lines::default());
            Keeper { script, starter, due: None, guard, alarm, tree, lines, code: None }.run()?;
        }
        Err(error) => {
            let code = Some(cannot_run(OsStr::new(PROGRAM), &error).code());
            wire::report_end(&guard, Ended { code, at: boot::now() });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The process that started this one, at the other end of the standard input.
fn parent() -> std::io::Result<UnixStream> {
    std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// Enters the group, and becomes the script when it is ordered to: so the keeper is never in the
/// group, and the script is never outside. `arguments` as those of the keeper.
fn enter(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let [group, input, program, arguments @ ..] = arguments else {
        anyhow::bail!("has no script");
    };
    // Without it the script is killed by its descent, as on other systems.
    if group != NOTHING
        && let Err(error) = Group::at(group).enter()
    {
        say(format_args!("lockwatch: the script is not in {}: {error}", group.display()));
    }
    let input = match input == INPUT {
        true => Stdio::from(input::receive(&parent()?).context("has no input for the script")?),
        false => Stdio::null(),
    };
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot listen to the keeper")?;
    // Without a keeper there is no script.
    let Some(Order::Start(start)) = line.strip_suffix('\n').and_then(Order::parse) else {
        return Ok(ExitCode::FAILURE);
    };
    let mut script = Command::new(program);
    let error = script.args(arguments).envs(start.environment()).stdin(input).exec();
    Ok(ExitCode::from(cannot_run(program, &error)))
}

/// Writes a line to standard error. Where that is impossible, such as on a full disk, the exit code
/// must still be the right one.
pub fn say(line: impl Display) {
    let _lost = writeln!(std::io::stderr(), "{line}");
}

/// Says that a program cannot be run. Returns the exit code for it.
fn cannot_run(program: &OsStr, error: &Error) -> Exit {
    say(format_args!("lockwatch: cannot run {}: {error}", program.display()));
    if error.kind() == ErrorKind::NotFound { Exit::NotFound } else { Exit::CannotRun }
}

struct Keeper {
    /// Also before the starter has become the script.
    script: Pid,
    /// The starter, while it waits.
    starter: Option<UnixStream>,
    /// The start that was ordered and has not been carried out yet.
    due: Option<Start>,
    guard: UnixStream,
    alarm: Alarm,
    tree: Tree,
    lines: Lines,
    /// How the script ended, once it has.
    code: Option<u8>,
}

/// What the keeper does next.
enum Next {
    GoOn,
    Kill,
}

impl Keeper {
    /// Watches the script, and leaves nothing of it behind, whatever happens.
    fn run(mut self) -> anyhow::Result<()> {
        let outcome = self.watch();
        self.kill();
        let at = boot::now();
        self.tree.remove_group();
        wire::report_end(&self.guard, Ended { code: self.code, at });
        outcome
    }

    /// Returns when the script has ended, or must.
    fn watch(&mut self) -> anyhow::Result<()> {
        let exits =
            pidfd_open(self.script, PidfdFlags::empty()).context("cannot watch the script")?;
        loop {
            self.reap();
            if self.code.is_some() {
                return Ok(());
            }
            let [is_told, is_late] = self.wait(&exits)?;
            if is_told && matches!(self.listen(), Next::Kill) {
                return Ok(());
            }
            // A deadline that was moved meanwhile counts, however late this process wakes.
            if is_late && self.alarm.is_over() {
                return Ok(());
            }
        }
    }

    /// Waits until something happens. Returns whether the guard says something, and whether the
    /// alarm rings.
    fn wait(&self, exits: &OwnedFd) -> anyhow::Result<[bool; 2]> {
        let mut fds = [
            PollFd::new(&self.guard, PollFlags::IN),
            PollFd::from_borrowed_fd(self.alarm.as_fd(), PollFlags::IN),
            PollFd::new(exits, PollFlags::IN),
        ];
        // Before the script begins, nothing can be left over.
        let reaps = self.starter.is_none().then_some(&REAP_EVERY);
        match poll(&mut fds, reaps) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait"),
        }
        let [guard, alarm, _] = &fds;
        Ok([guard, alarm].map(|fd| !fd.revents().is_empty()))
    }

    /// What the guard says.
    fn listen(&mut self) -> Next {
        let Ok(orders) = self.lines.read(&self.guard) else { return Next::Kill };
        for order in orders {
            let dead_by = match order {
                Order::Start(start) => self.due.insert(start).dead_by,
                Order::Extend(dead_by) => dead_by,
                Order::Signal(signal) => {
                    self.signal(signal);
                    continue;
                }
                Order::Kill => return Next::Kill,
            };
            // Without an alarm nothing would end the script.
            if self.alarm.set(dead_by).is_err() {
                return Next::Kill;
            }
        }
        self.begin();
        Next::GoOn
    }

    /// Carries out the start that was ordered, unless this process stood still until after the
    /// script's deadline.
    fn begin(&mut self) {
        if self.alarm.is_over() {
            return;
        }
        if let Some(start) = self.due.take()
            && let Some(mut starter) = self.starter.take()
        {
            // A starter that is gone is noticed by its handle.
            let _gone = starter.write_all(Order::Start(start).line().as_bytes());
        }
    }

    /// Signals the script and what runs in its process group.
    fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may be gone.
            let _ = kill_process_group(self.script, signal);
        }
    }

    /// Kills all that came of the script, until none is left.
    fn kill(&mut self) {
        while !self.tree.is_over() && self.tree.kill(&[]) {
            self.reap();
            std::thread::sleep(AGAIN);
        }
        self.reap();
    }

    /// Reaps what has ended.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.script {
                self.code = Some(code(status));
            }
        }
    }
}

/// The exit code of a process, as shells say it.
fn code(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
