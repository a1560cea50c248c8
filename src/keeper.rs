//! The keeper of a script: its parent, in a session of its own, which kills all that comes of it
//! when the guard is gone or the deadline has come. It is as small as that: no runtime, no Redis,
//! nothing that could wait for anything else.
//!
//! The guard starts it from the same program, with one end of a socket as its standard input. The
//! script inherits everything else, so its output needs nobody.

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
use lockwatch_judge::time::Mono;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, pidfd_open,
    set_child_subreaper, setsid, wait,
};

use self::boot::Alarm;
use self::group::Group;
use self::tree::Tree;
use self::wire::{Lines, Order, Told};
use crate::exit::Exit;

/// This very program, also after an upgrade.
pub const PROGRAM: &str = "/proc/self/exe";
/// The hidden command.
pub const COMMAND: &str = "keeper";
/// The one that enters a group and becomes the script.
const ENTER: &str = "enter";
/// Stands for no group, or no input, among the keeper's arguments.
pub const NOTHING: &str = "-";
/// Stands for the guard's standard input, which comes through the socket.
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

/// `arguments`: the deadline, the group, the input, and the script with its arguments.
fn keep(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let [dead_by, group, input, script @ ..] = arguments else {
        anyhow::bail!("is started by `lockwatch guard` only");
    };
    let dead_by = dead_by.to_str().and_then(|text| text.parse().ok()).map(Mono);
    let dead_by = dead_by.context("has no deadline")?;
    let group = (group != NOTHING).then(|| Group::at(group));
    setsid().context("cannot begin a session")?;
    set_child_subreaper(Some(getpid())).context("cannot adopt processes")?;
    let guard = UnixStream::from(
        std::io::stdin().as_fd().try_clone_to_owned().context("has no guard to listen to")?,
    );
    let input = match input == INPUT {
        true => Stdio::from(input::receive(&guard).context("has no input for the script")?),
        false => Stdio::null(),
    };
    guard.set_nonblocking(true).context("cannot listen to the guard")?;
    let alarm = Alarm::new().context("cannot set an alarm")?;
    alarm.set(dead_by).context("cannot set an alarm")?;
    let mut command = command(script, group.as_ref())?;
    match command.stdin(input).process_group(0).spawn() {
        Ok(script) => {
            let script = Pid::from_raw(script.id().try_into().unwrap_or(0)).context("no script")?;
            let tree = Tree::of(getpid(), group);
            Keeper { script, guard, alarm, tree, lines: Lines::default(), code: None }.run()?;
        }
        Err(error) => {
            let code = Some(cannot_run(command.get_program(), &error).code());
            wire::tell(&guard, Told { code, at: boot::now() });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that runs the script. With a group it is this program, which enters the group and
/// then becomes the script: so the keeper is never in the group, and the script is never outside.
fn command(script: &[OsString], group: Option<&Group>) -> anyhow::Result<Command> {
    let [program, arguments @ ..] = script else { anyhow::bail!("has no script") };
    Ok(match group {
        Some(group) => {
            let mut enters = Command::new(PROGRAM);
            enters.arg0("lockwatch").arg(ENTER).arg(group.path()).args(script);
            enters
        }
        None => {
            let mut runs = Command::new(program);
            runs.args(arguments);
            runs
        }
    })
}

/// Becomes the script. `arguments`: the group, and the script with its arguments.
fn enter(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let [group, script @ ..] = arguments else { anyhow::bail!("has no group to enter") };
    // Without it the script is killed by its descent, as on other systems.
    if let Err(error) = Group::at(group).enter() {
        say(format_args!("lockwatch: the script is not in {}: {error}", group.display()));
    }
    let mut script = command(script, None)?;
    let error = script.exec();
    Ok(ExitCode::from(cannot_run(script.get_program(), &error)))
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
    script: Pid,
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
        wire::tell(&self.guard, Told { code: self.code, at });
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
        match poll(&mut fds, Some(&REAP_EVERY)) {
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
            match order {
                Order::Extend(dead_by) => {
                    // Without an alarm nothing would end the script.
                    if self.alarm.set(dead_by).is_err() {
                        return Next::Kill;
                    }
                }
                Order::Signal(signal) => self.signal(signal),
                Order::Kill => return Next::Kill,
            }
        }
        Next::GoOn
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
