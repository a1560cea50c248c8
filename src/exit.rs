//! Every exit code of the program, and what it means to each command. Help, man pages and docs show
//! these tables.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was done.
    Success,
    /// It could not be done.
    Failure,
    /// The configuration or the command line is wrong. clap uses the same number.
    Usage,
    /// `status`: a problem that wakes nobody.
    Warning,
    /// `status`: a problem that wakes somebody.
    Critical,
    /// `status`, `explain` and `drill`: it is not known. Monitoring plugins use the same number.
    Unknown,
    /// `guard` and `fence`: what [`Exit::Usage`] is to other commands. `EX_USAGE` of `sysexits.h`:
    /// a script may well end with 2 itself.
    GuardUsage,
    /// The store cannot be used. `EX_UNAVAILABLE`.
    Unavailable,
    /// The lock was lost. `EX_SOFTWARE`.
    Lost,
    /// The lock was not acquired in time. `EX_TEMPFAIL`.
    NotTaken,
    /// There is a script, but it cannot be run. The number is that of shells.
    CannotRun,
    /// There is no such script. The number is that of shells.
    NotFound,
}

impl Exit {
    /// The number that the program ends with.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure | Exit::Warning => 1,
            Exit::Usage | Exit::Critical => 2,
            Exit::Unknown => 3,
            Exit::GuardUsage => 64,
            Exit::Unavailable => 69,
            Exit::Lost => 70,
            Exit::NotTaken => 75,
            Exit::CannotRun => 126,
            Exit::NotFound => 127,
        }
    }

    /// How `command` ends if its command line is wrong. To a monitor that runs `status` as a check,
    /// 2 would mean that a task is down.
    pub fn of_usage(command: &str) -> Exit {
        match command {
            "status" => Exit::Unknown,
            "guard" | "fence" => Exit::GuardUsage,
            _ => Exit::Usage,
        }
    }

    /// How `command` ends if it cannot do its work.
    pub fn of_failure(command: &str) -> Exit {
        if command == "status" { Exit::Unknown } else { Exit::Failure }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// When a command ends like this. `None`: with the code of the script that it ran.
pub type Case = (Option<Exit>, &'static str);

const GENERAL: &[Case] = &[
    (Some(Exit::Success), "done; the agent stopped on request"),
    (Some(Exit::Failure), "it could not be done"),
    (Some(Exit::Usage), "the configuration or the command line is wrong"),
];

const STATUS: &[Case] = &[
    (Some(Exit::Success), "no task and no store has a problem"),
    (Some(Exit::Warning), "one has a problem of severity `warning`"),
    (Some(Exit::Critical), "one has a problem of severity `page`"),
    (
        Some(Exit::Unknown),
        "a verdict is `unknown`, the agent cannot be reached or its engine has stopped, there is \
         no such task, or the command line is wrong",
    ),
];

const EXPLAIN: &[Case] = &[
    (Some(Exit::Success), "explained, whatever the verdict"),
    (
        Some(Exit::Failure),
        "the output cannot be written, or the address answers with something else",
    ),
    (Some(Exit::Usage), "the command line or the configuration is wrong"),
    (
        Some(Exit::Unknown),
        "there is no such task (the nearest names are suggested), or it cannot be read",
    ),
];

const DRILL: &[Case] = &[
    (Some(Exit::Success), "a notification was delivered"),
    (Some(Exit::Failure), "a hop failed, or the drill was refused or interrupted"),
    (Some(Exit::Usage), "the command line is wrong, or there is no such task"),
    (
        Some(Exit::Unknown),
        "Alertmanager accepted the alert, and whether it was delivered is not seen",
    ),
];

const WANT: &[Case] = &[
    (Some(Exit::Success), "the switch is as requested, or was before; `status` was shown"),
    (
        Some(Exit::Failure),
        "Redis refuses, what it holds does not allow it, or it is not certain that the switch was \
         written",
    ),
    (
        Some(Exit::Usage),
        "the configuration or the command line is wrong: no such task, no switches of single \
         users, no login",
    ),
    (Some(Exit::Unavailable), "Redis cannot be reached"),
];

const GUARD: &[Case] = &[
    (
        None,
        "it ended, and is not started again; 128 + the number of a signal; 126 or 127 if it cannot \
         be run",
    ),
    (
        Some(Exit::GuardUsage),
        "usage or configuration, a lease that is too short, a key of another type",
    ),
    (
        Some(Exit::Unavailable),
        "Redis cannot be used, refuses what a guard does (the message has the rights that it \
         needs), or did not answer within `--wait`",
    ),
    (Some(Exit::Lost), "the lock was lost, with `restart: never`"),
    (
        Some(Exit::NotTaken),
        "another holder had the lock for all of `--wait`, or nobody wanted the task; `--busy-code` \
         sets another code",
    ),
];

const FENCE: &[Case] = &[
    (Some(Exit::Success), "the lock is held under this token, and it is the newest one"),
    (Some(Exit::GuardUsage), "the configuration or the command line is wrong"),
    (Some(Exit::Unavailable), "Redis cannot be used"),
    (Some(Exit::Lost), "the lock is no longer held under this token"),
];

/// All ends of a command; of the agent if there is no such command.
pub fn of(command: &str) -> &'static [Case] {
    match command {
        "status" => STATUS,
        "explain" => EXPLAIN,
        "drill" => DRILL,
        "want" => WANT,
        "guard" => GUARD,
        "fence" => FENCE,
        _ => GENERAL,
    }
}

fn term(exit: Option<Exit>) -> String {
    exit.map_or_else(|| "the script's own".to_owned(), |exit| exit.code().to_string())
}

/// The exit codes of a command, to be shown below its help.
pub fn help(command: &str) -> String {
    let line = |(exit, when): &Case| format!("\n  {}: {}", term(*exit), when.replace('`', ""));
    std::iter::once("Exit codes:".to_owned()).chain(of(command).iter().map(line)).collect()
}
