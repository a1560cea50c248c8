//! The command line: what the user typed, checked, and nothing more.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use lockwatch_model::spec::SchemeKind;

use crate::config::acl::ServerVersion;
use crate::config::check::TimingSources;
use crate::config::{Config, ConfigErrors, PasswordSource, SingleLock, parse_duration_ms};
use crate::demo::{DemoArgs, WorkerArgs};

/// Where the agent listens unless told otherwise: only this machine can reach it. The port lies outside the range that
/// other exporters share.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:10379";

/// What lockwatch is asked to do.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// Run the agent.
    Run(RunOptions),
    /// Check the configuration, tell about it, and exit: 0 if it is valid, else 2.
    CheckConfig(CheckOptions),
    /// Print the ACL rules.
    Acl(AclOptions),
    /// Show everything on a private Redis.
    Demo(DemoArgs),
    /// A worker of the demo.
    DemoWorker(WorkerArgs),
}

/// How to run the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// What to watch.
    pub source: ConfigSource,
    /// Where to serve.
    pub listen: SocketAddr,
    /// Whether `POST /-/reload` is allowed.
    pub enable_lifecycle: bool,
    /// How to log.
    pub log: LogOptions,
}

/// Where the configuration comes from; a reload reads it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The command line.
    SingleLock(SingleLock),
}

impl ConfigSource {
    /// Reads the configuration.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(&self) -> Result<Config, ConfigErrors> {
        match self {
            ConfigSource::File(path) => Config::load(path),
            ConfigSource::SingleLock(lock) => Config::single_lock(lock),
        }
    }
}

/// What `check-config` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// What to check.
    pub source: ConfigSource,
    /// What the user says about Prometheus and Alertmanager.
    pub timing: TimingSources,
}

/// What `acl` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclOptions {
    /// For which configuration.
    pub source: ConfigSource,
    /// For which servers.
    pub version: ServerVersion,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct LogOptions {
    /// Log only messages of this severity or above
    #[arg(long = "log.level", value_name = "LEVEL", value_enum, default_value = "info")]
    pub level: LogLevel,
    /// How log lines look
    #[arg(long = "log.format", value_name = "FORMAT", value_enum, default_value = "logfmt")]
    pub format: LogFormat,
}

/// The least severity that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what needs mending.
    Error,
    /// Also what may need it.
    Warn,
    /// Also what happened.
    Info,
    /// Also why.
    Debug,
    /// Everything.
    Trace,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// `key=value` pairs.
    Logfmt,
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// Reads the command line; the first argument is the program's name.
///
/// # Errors
/// A mistake, or a request for help or the version; `exit()` of it prints the text and leaves with 2 or 0.
pub fn parse<I, T>(arguments: I) -> Result<Invocation, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let line = Line::try_parse_from(arguments)?;
    match line.command {
        None => run_or_check(line.run),
        Some(Command::CheckConfig(check)) => {
            Ok(Invocation::CheckConfig(CheckOptions { source: source(check.source)?, timing: check.timing.into() }))
        }
        Some(Command::Acl(acl)) => {
            Ok(Invocation::Acl(AclOptions { source: source(acl.source)?, version: acl.redis_version }))
        }
        Some(Command::Demo(demo)) => Ok(Invocation::Demo(demo)),
        Some(Command::DemoWorker(worker)) => Ok(Invocation::DemoWorker(worker)),
    }
}

fn run_or_check(run: RunArguments) -> Result<Invocation, clap::Error> {
    let source = source(run.source)?;
    if run.web_config.is_some() {
        let message = "--web.config.file (TLS and passwords for the web pages) is not supported yet; listen on \
                       127.0.0.1, or put a proxy in front\n";
        return Err(Line::command().error(ErrorKind::InvalidValue, message));
    }
    if run.check {
        return Ok(Invocation::CheckConfig(CheckOptions { source, timing: TimingSources::default() }));
    }
    Ok(Invocation::Run(RunOptions {
        source,
        listen: run.web.listen,
        enable_lifecycle: run.enable_lifecycle,
        log: run.log,
    }))
}

fn source(arguments: SourceArguments) -> Result<ConfigSource, clap::Error> {
    let (redis_url, key) = match (arguments.redis, arguments.lock) {
        (Some(redis_url), Some(key)) => (redis_url, key),
        _ => return Ok(ConfigSource::File(arguments.file)),
    };
    let file = arguments.password_file.map(PasswordSource::File);
    Ok(ConfigSource::SingleLock(SingleLock {
        redis_url,
        key: key.into_vec(),
        scheme: arguments.scheme.into(),
        name: arguments.name,
        username: arguments.username,
        password: file.or(arguments.password_env.map(PasswordSource::Env)),
    }))
}

/// Watches Redis locks that guard singleton tasks, and tells Prometheus whether each task really runs: exactly once, and
/// by whom.
#[derive(Debug, Parser)]
#[command(name = "lockwatch", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
#[command(about = "Watches Redis locks that guard singleton tasks, for Prometheus")]
#[command(after_help = "Without a file: lockwatch --redis redis://127.0.0.1:6379 --lock outbound:lock")]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the configuration and tell the worst time to page for each task
    CheckConfig(CheckArguments),
    /// Print the read-only ACL rule that this configuration needs, one for each redis
    Acl(AclArguments),
    /// Show everything on a private Redis: two workers, three users' switches, and the agent
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoWorker(WorkerArgs),
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Check the configuration and exit
    #[arg(long = "config.check")]
    check: bool,
    #[command(flatten)]
    web: WebArguments,
    /// Allow POST /-/reload
    #[arg(long = "web.enable-lifecycle")]
    enable_lifecycle: bool,
    #[arg(long = "web.config.file", value_name = "FILE", hide = true)]
    web_config: Option<PathBuf>,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(Debug, Args)]
struct CheckArguments {
    #[command(flatten)]
    source: SourceArguments,
    #[command(flatten)]
    timing: TimingArguments,
}

#[derive(Debug, Args)]
struct AclArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// The oldest version among the servers
    #[arg(long = "redis-version", value_name = "VERSION", default_value = "7.0")]
    redis_version: ServerVersion,
}

#[derive(Debug, Args)]
struct WebArguments {
    /// Where to serve metrics and pages; `:10379` means all addresses of this machine
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = DEFAULT_LISTEN, value_parser = listen_address)]
    listen: SocketAddr,
}

#[derive(Debug, Args)]
struct SourceArguments {
    /// The configuration
    #[arg(long = "config.file", value_name = "FILE", default_value = "lockwatch.yml", conflicts_with = "redis")]
    file: PathBuf,
    /// Instead of a file: the Redis of one lock, redis://host:port/db
    #[arg(long, value_name = "URL", requires = "lock")]
    redis: Option<String>,
    /// Instead of a file: the key of one lock
    #[arg(long, value_name = "KEY", requires = "redis")]
    lock: Option<OsString>,
    /// How that lock is laid out
    #[arg(long, value_name = "SCHEME", value_enum, default_value = "redisson", requires = "redis")]
    scheme: Scheme,
    /// What that task is called [default: the key]
    #[arg(long, value_name = "NAME", requires = "redis")]
    name: Option<String>,
    /// ACL user for that Redis
    #[arg(long = "redis.username", value_name = "USER", requires = "redis")]
    username: Option<String>,
    /// File whose first line is the password for that Redis
    #[arg(long = "redis.password-file", value_name = "FILE", requires = "redis", conflicts_with = "password_env")]
    password_file: Option<PathBuf>,
    /// Environment variable that holds the password for that Redis
    #[arg(long = "redis.password-env", value_name = "VARIABLE", requires = "redis")]
    password_env: Option<String>,
}

#[derive(Debug, Args)]
struct TimingArguments {
    /// Prometheus' scrape interval
    #[arg(long = "scrape-interval", value_name = "DURATION", value_parser = parse_duration_ms)]
    scrape_ms: Option<u64>,
    /// Prometheus' evaluation interval
    #[arg(long = "evaluation-interval", value_name = "DURATION", value_parser = parse_duration_ms)]
    evaluation_ms: Option<u64>,
    /// Alertmanager's group_wait
    #[arg(long = "group-wait", value_name = "DURATION", value_parser = parse_duration_ms)]
    group_wait_ms: Option<u64>,
    /// Prometheus' configuration, to take both intervals from
    #[arg(long = "prometheus.config", value_name = "FILE")]
    prometheus_config: Option<PathBuf>,
    /// Alertmanager's configuration, to take group_wait from
    #[arg(long = "alertmanager.config", value_name = "FILE")]
    alertmanager_config: Option<PathBuf>,
}

impl From<TimingArguments> for TimingSources {
    fn from(arguments: TimingArguments) -> TimingSources {
        TimingSources {
            scrape_ms: arguments.scrape_ms,
            evaluation_ms: arguments.evaluation_ms,
            group_wait_ms: arguments.group_wait_ms,
            prometheus_config: arguments.prometheus_config,
            alertmanager_config: arguments.alertmanager_config,
        }
    }
}

/// [`SchemeKind`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheme {
    Redisson,
    String,
}

impl From<Scheme> for SchemeKind {
    fn from(scheme: Scheme) -> SchemeKind {
        match scheme {
            Scheme::Redisson => SchemeKind::Redisson,
            Scheme::String => SchemeKind::String,
        }
    }
}

/// `address:port`, `localhost:port`, or `:port` for all (IPv4) addresses.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let full = match text.split_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    full.parse().map_err(|_| "write it like 127.0.0.1:10379, [::1]:10379 or :10379".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(options.listen.to_string(), DEFAULT_LISTEN);
        assert!(!options.enable_lifecycle);
        assert_eq!(options.log, LogOptions { level: LogLevel::Info, format: LogFormat::Logfmt });
    }

    #[test]
    fn the_agents_flags() {
        let options = run("--config.file=/etc/lockwatch.yml --web.listen-address=:10380 --web.enable-lifecycle \
                           --log.level=debug --log.format json");
        assert_eq!(options.source, ConfigSource::File("/etc/lockwatch.yml".into()));
        assert_eq!(options.listen.to_string(), "0.0.0.0:10380");
        assert!(options.enable_lifecycle);
        assert_eq!(options.log, LogOptions { level: LogLevel::Debug, format: LogFormat::Json });
        assert_eq!(run("--web.listen-address [::1]:1").listen.to_string(), "[::1]:1");
        assert_eq!(run("--web.listen-address localhost:1").listen.to_string(), "127.0.0.1:1");
    }

    #[test]
    fn one_lock_without_a_file() {
        let options = run("--redis redis://x --lock outbound:lock --scheme string --name outbound \
                           --redis.username lw --redis.password-env PW");
        let expected = SingleLock {
            redis_url: "redis://x".to_owned(),
            key: b"outbound:lock".to_vec(),
            scheme: SchemeKind::String,
            name: Some("outbound".to_owned()),
            username: Some("lw".to_owned()),
            password: Some(PasswordSource::Env("PW".to_owned())),
        };
        assert_eq!(options.source, ConfigSource::SingleLock(expected));
    }

    #[test]
    fn a_key_may_be_any_bytes() {
        let arguments = ["lockwatch", "--redis", "redis://x", "--lock"].map(OsString::from);
        let key = OsString::from_vec(vec![b'a', 255]);
        let Ok(Invocation::Run(options)) = parse(arguments.into_iter().chain([key])) else { panic!("runs") };
        let ConfigSource::SingleLock(lock) = options.source else { panic!("one lock") };
        assert_eq!(lock.key, [b'a', 255]);
    }

    #[test]
    fn commands() {
        assert!(matches!(typed("--config.check"), Ok(Invocation::CheckConfig(_))));
        let Ok(Invocation::CheckConfig(check)) = typed("check-config --scrape-interval 15s --group-wait 1m30s") else {
            panic!("checks");
        };
        let timing = &check.timing;
        assert_eq!((timing.scrape_ms, timing.evaluation_ms, timing.group_wait_ms), (Some(15_000), None, Some(90_000)));
        let Ok(Invocation::Acl(acl)) = typed("acl --config.file x.yml --redis-version 6") else { panic!("prints") };
        assert_eq!(acl.version, ServerVersion { major: 6, minor: 0 });
        let Ok(Invocation::Demo(demo)) = typed("demo --story --redis-server /opt/redis") else { panic!("shows") };
        assert!(demo.story && demo.redis_server.as_deref() == Some("/opt/redis".as_ref()));
    }

    #[test]
    fn mistakes_leave_with_2_and_help_with_0() {
        for wrong in [
            "--lock outbound:lock",
            "--redis redis://x",
            "--redis redis://x --lock a --config.file b",
            "--redis redis://x --lock a --redis.password-file b --redis.password-env c",
            "--scheme string",
            "--password hunter2",
            "--log.level loud",
            "--web.listen-address 10379",
            "--web.config.file web.yml",
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
    fn what_is_not_built_says_so() {
        let message = typed("--web.config.file web.yml").unwrap_err().to_string();
        assert!(message.contains("not supported yet"), "{message}");
    }
}
