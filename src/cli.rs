//! The command line: what the user typed, checked, and nothing more.

mod grammar;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::Shell;

use crate::commands::acl::AclOptions;
use crate::commands::agent::{RunArguments, RunOptions};
use crate::commands::check_config::{ChainArguments, CheckOptions, TimingSources};
use crate::commands::demo::{DemoArgs, ScriptArgs};
use crate::commands::discover::DiscoverOptions;
use crate::commands::drill::DrillOptions;
use crate::commands::explain::ExplainOptions;
use crate::commands::guard::{FenceOptions, GuardOptions};
use crate::commands::replay::ReplayOptions;
use crate::commands::status::{self, StatusOptions};
use crate::commands::want::WantOptions;
use crate::exit::Exit;
use grammar::{Command, Line};

/// What lockwatch is to do.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// Run the agent.
    Run(RunOptions),
    /// Check the configuration, report on it, and exit: 0 if it is valid, else 2.
    CheckConfig(CheckOptions),
    /// Print the ACL rules.
    Acl(AclOptions),
    /// Ask the agent how the tasks are.
    Status(StatusOptions),
    /// Explain why a task has its verdict.
    Explain(ExplainOptions),
    /// Try the way of an alert.
    Drill(DrillOptions),
    /// Set or show users' switches.
    Want(WantOptions),
    /// Play a recording.
    Replay(ReplayOptions),
    /// Look for locks.
    Discover(DiscoverOptions),
    /// Run a script under a lock.
    Guard(GuardOptions),
    /// Check a fencing token.
    Fence(FenceOptions),
    /// Print a shell's completions.
    Completions(Shell),
    /// Print the man page of the program, or write all pages into this folder.
    Man(Option<PathBuf>),
    /// Show everything on a private Redis.
    Demo(DemoArgs),
    /// The script of the demo.
    DemoScript(ScriptArgs),
}

/// The grammar of the command line, for completions, man pages and the check of the documentation:
/// only what is not hidden.
pub fn grammar() -> clap::Command {
    visible(&Line::command()).version(env!("CARGO_PKG_VERSION"))
}

/// clap can hide from its help, but completions would still offer what is hidden.
fn visible(command: &clap::Command) -> clap::Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    let copy =
        clap::Command::new(command.get_name().to_owned()).args(arguments).subcommands(commands);
    let about = command.get_about().cloned().unwrap_or_default();
    let after = command.get_after_help().cloned().unwrap_or_default();
    copy.about(about).after_help(after)
}

/// The exit code for what [`parse`] refuses, and 0 for a request for help.
pub fn exit_code<T: AsRef<OsStr>>(arguments: impl Iterator<Item = T>, error: &clap::Error) -> u8 {
    match error.exit_code() {
        0 => Exit::Success.code(),
        _ => Exit::of_usage(&command(arguments)).code(),
    }
}

/// The first argument: the command, or an option of the agent.
pub fn command<T: AsRef<OsStr>>(mut arguments: impl Iterator<Item = T>) -> String {
    let first = arguments.nth(1);
    first.map(|word| word.as_ref().to_string_lossy().into_owned()).unwrap_or_default()
}

/// Says on standard output what is wrong with the command line of `status --plugin`: monitors show
/// nothing else.
pub fn answer_monitor(mut arguments: impl Iterator<Item = OsString>, error: &clap::Error) {
    let is_status = arguments.nth(1).is_some_and(|command| command == "status");
    if error.use_stderr() && is_status && arguments.any(|argument| argument == "--plugin") {
        let said = error.to_string();
        let line = said.lines().next().unwrap_or_default();
        status::refuse(line);
    }
}

/// Reads the command line; the first argument is the program's name.
///
/// # Errors
/// A mistake, or a request for help or the version; `exit()` of it prints the text and leaves with
/// 2 or 0.
pub fn parse<I, T>(arguments: I) -> Result<Invocation, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let line = Line::try_parse_from(arguments)?;
    match line.command {
        None => run_or_check(line.run),
        Some(Command::CheckConfig(check)) => Ok(Invocation::CheckConfig(check)),
        Some(Command::Acl(acl)) => Ok(Invocation::Acl(acl)),
        Some(Command::Status(status)) => Ok(Invocation::Status(status)),
        Some(Command::Explain(explain)) => Ok(Invocation::Explain(explain)),
        Some(Command::Drill(drill)) => Ok(Invocation::Drill(drill)),
        Some(Command::Want(want)) => Ok(Invocation::Want(want)),
        Some(Command::Replay(replay)) => Ok(Invocation::Replay(replay)),
        Some(Command::Discover(discover)) => Ok(Invocation::Discover(discover)),
        Some(Command::Guard(guard)) => Ok(Invocation::Guard(guard)),
        Some(Command::Fence(fence)) => Ok(Invocation::Fence(fence)),
        Some(Command::Completions { shell }) => Ok(Invocation::Completions(shell)),
        Some(Command::Man { dir }) => Ok(Invocation::Man(dir)),
        Some(Command::Demo(demo)) => Ok(Invocation::Demo(demo)),
        Some(Command::DemoScript(script)) => Ok(Invocation::DemoScript(script)),
    }
}

fn run_or_check(run: RunArguments) -> Result<Invocation, clap::Error> {
    if run.check {
        return Ok(Invocation::CheckConfig(CheckOptions {
            listen: run.listen().to_vec(),
            source: run.source,
            connect: false,
            web_config: run.web_config,
            timing: TimingSources::default(),
            chain: ChainArguments::default(),
        }));
    }
    Ok(Invocation::Run(run.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use tracing::Level;

    use super::*;
    use crate::commands::acl::ServerVersion;
    use crate::commands::agent::DEFAULT_LISTEN;
    use crate::commands::source::ConfigSource;
    use crate::config::{PasswordSource, SingleLock};
    use crate::telemetry::{LogFormat, LogOptions};

    fn typed(arguments: &str) -> Result<Invocation, clap::Error> {
        parse(std::iter::once("lockwatch").chain(arguments.split_whitespace()))
    }

    fn run(arguments: &str) -> RunOptions {
        match typed(arguments) {
            Ok(Invocation::Run(options)) => options,
            other => panic!("{arguments}: {other:?}"),
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn nothing_typed_runs_the_default_file_on_loopback() {
        let options = run("");
        assert_eq!(options.source, ConfigSource::File("lockwatch.yml".into()));
        assert_eq!(options.listen, [DEFAULT_LISTEN.parse().unwrap()]);
        assert!(!options.enable_lifecycle);
        assert_eq!(options.log, LogOptions { level: Level::INFO, format: LogFormat::Logfmt });
    }

    #[test]
    fn the_agents_flags() {
        let options = run(
            "--config.file=/etc/lockwatch.yml --web.listen-address=:10380 --web.enable-lifecycle \
                           --log.level=debug --log.format json",
        );
        assert_eq!(options.source, ConfigSource::File("/etc/lockwatch.yml".into()));
        assert_eq!(options.listen, ["[::]:10380".parse().unwrap()]);
        assert!(options.enable_lifecycle);
        assert_eq!(options.log, LogOptions { level: Level::DEBUG, format: LogFormat::Json });
        assert_eq!(run("--web.listen-address [::1]:1").listen, ["[::1]:1".parse().unwrap()]);
        assert_eq!(
            run("--web.listen-address localhost:1").listen,
            ["127.0.0.1:1".parse().unwrap()]
        );
    }

    #[test]
    fn one_lock_without_a_file() {
        let options =
            run("--redis redis://x --lock outbound:lock --library string --name outbound \
                           --redis.username lw --redis.password-env PW");
        let expected = SingleLock {
            redis_url: "redis://x".to_owned(),
            key: b"outbound:lock".to_vec(),
            library: "string",
            name: Some("outbound".to_owned()),
            username: Some("lw".to_owned()),
            password: Some(PasswordSource::Env("PW".to_owned())),
            tls: None,
        };
        assert_eq!(options.source, ConfigSource::SingleLock(Box::new(expected)));
        let older = run("--redis redis://x --lock a --scheme string").source;
        assert_eq!(older, run("--redis redis://x --lock a --library string").source);
    }

    #[test]
    fn a_key_may_be_any_bytes() {
        let arguments = ["lockwatch", "--redis", "redis://x", "--lock"].map(OsString::from);
        let key = OsString::from_vec(vec![b'a', 255]);
        let Ok(Invocation::Run(options)) = parse(arguments.into_iter().chain([key])) else {
            panic!("runs")
        };
        let ConfigSource::SingleLock(lock) = options.source else { panic!("one lock") };
        assert_eq!(lock.key, [b'a', 255]);
    }

    #[test]
    fn commands() {
        assert!(matches!(typed("--config.check"), Ok(Invocation::CheckConfig(_))));
        let Ok(Invocation::CheckConfig(check)) =
            typed("check-config --scrape-interval 15s --group-wait 1m30s")
        else {
            panic!("checks");
        };
        let timing = &check.timing;
        assert_eq!(
            (timing.scrape_ms, timing.evaluation_ms, timing.group_wait_ms),
            (Some(15_000), None, Some(90_000))
        );
        let Ok(Invocation::Acl(acl)) = typed("acl --config.file x.yml --redis-version 6") else {
            panic!("prints")
        };
        assert_eq!(acl.redis_version, ServerVersion { major: 6, minor: 0 });
        let Ok(Invocation::Demo(demo)) = typed("demo --redis-server /opt/redis") else {
            panic!("shows")
        };
        assert_eq!(demo.redis_server.as_deref(), Some("/opt/redis".as_ref()));
    }

    #[test]
    fn mistakes_leave_with_2_and_help_with_0() {
        for wrong in [
            "--lock outbound:lock",
            "--redis redis://x",
            "--redis redis://x --lock a --config.file b",
            "--redis redis://x --lock a --redis.password-file b --redis.password-env c",
            "--library string",
            "--redis redis://x --lock a --library redisson --scheme string",
            "--redis redis://x --lock a --library strnig",
            "--password hunter2",
            "--log.level loud",
            "--web.listen-address 10379",
            "--web.health-without-login",
            "--config.file x acl",
            "check-config --scrape-interval 15",
            "guard outbound",
            "acl --redis-version 5",
        ] {
            assert_eq!(typed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
        for asked in ["--help", "--version", "acl --help", "demo --help"] {
            assert_eq!(typed(asked).unwrap_err().exit_code(), 0, "{asked}");
        }
    }

    #[test]
    fn a_mistake_in_a_check_is_unknown_and_not_critical() {
        for (line, code) in [
            ("status --jsn", 3),
            ("status a b", 3),
            ("status --watch=10ms", 3),
            ("status --help", 0),
            ("explain a b", 2),
            ("--log.level debug status", 2),
        ] {
            let words = || std::iter::once("lockwatch").chain(line.split_whitespace());
            assert_eq!(exit_code(words(), &parse(words()).unwrap_err()), code, "{line}");
        }
    }

    #[test]
    fn the_grammar_for_completions_hides_what_is_hidden() {
        let grammar = grammar();
        assert!(grammar.get_subcommands().all(|command| command.get_name() != "demo-script"));
        grammar.debug_assert();
    }

    #[test]
    fn the_web_file() {
        assert_eq!(run("").web, None);
        let web = run("--web.config.file web.yml --web.health-without-login").web.unwrap();
        assert_eq!((web.file, web.health_without_login), ("web.yml".into(), true));
        let Ok(Invocation::CheckConfig(check)) = typed("--config.check --web.config.file web.yml")
        else {
            panic!("a check")
        };
        assert_eq!(check.web_config, Some("web.yml".into()));
    }
}
