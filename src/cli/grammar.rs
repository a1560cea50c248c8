//! The grammar of the command line: which words and flags there are, and how single values are
//! read.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueHint, value_parser};
use clap_complete::Shell;
use lockwatch_watch::redis::libraries;

use super::{
    AclOptions, CheckOptions, ConfigSource, DEFAULT_AGENT, DEFAULT_LISTEN, ExplainOptions,
    LogOptions,
};
use crate::config::{PasswordSource, SingleLock, parse_duration_ms};
use crate::demo::{DemoArgs, WorkerArgs};
use crate::discover::DiscoverOptions;
use crate::status::StatusOptions;

/// Shown below the help of `status`.
const STATUS_CODES: &str = "Exit codes: 0 all is well; 1 warning (unwanted); 2 critical (split, \
    down, stalled, lost \
                            switches); 3 unknown, also without an answer";

/// Watches Redis locks that guard singleton tasks, and tells Prometheus whether each task really
/// runs: exactly once, and by whom.
#[derive(Debug, Parser)]
#[command(
    name = "lockwatch",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100
)]
#[command(about = "Watches Redis locks that guard singleton tasks, for Prometheus")]
#[command(
    after_help = "Without a file: lockwatch --redis redis://127.0.0.1:6379 --lock outbound:lock"
)]
pub(super) struct Line {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the configuration and tell the worst time to page for each task
    CheckConfig(CheckOptions),
    /// Print the read-only ACL rule that this configuration needs, one for each redis
    Acl(AclOptions),
    /// Show how the tasks are, as the agent sees them
    #[command(after_help = STATUS_CODES)]
    Status(StatusArguments),
    /// Tell why a task has its verdict
    Explain(ExplainOptions),
    /// Play a recording once more, as it was configured and with other thresholds
    Replay(ReplayArguments),
    /// Look for locks in a Redis and print a configuration for them
    Discover(DiscoverArguments),
    /// Print completions for a shell
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the man page, or write a page for each command
    Man {
        /// Write lockwatch.1 and a page for each command into this folder
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Show everything on a private Redis: two workers, three users' switches, and the agent
    Demo(DemoArgs),
    #[command(hide = true)]
    DemoWorker(WorkerArgs),
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    pub(super) source: ConfigSource,
    /// Check the configuration and exit
    #[arg(long = "config.check")]
    pub(super) check: bool,
    #[command(flatten)]
    pub(super) web: WebArguments,
    /// Allow POST /-/reload
    #[arg(long = "web.enable-lifecycle")]
    pub(super) enable_lifecycle: bool,
    #[arg(long = "web.config.file", value_name = "FILE", hide = true)]
    pub(super) web_config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) record: RecordArguments,
    #[command(flatten)]
    pub(super) log: LogOptions,
}

#[derive(Debug, Args)]
pub(super) struct RecordArguments {
    /// Record what the agent sees in this folder, without secrets, for `lockwatch replay`
    #[arg(long = "record", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) folder: Option<PathBuf>,
    /// Most MiB of recordings; the oldest go first
    #[arg(long = "record.max-size", value_name = "MIB", default_value = "256", requires = "folder", value_parser = value_parser!(u64).range(1..1 << 20))]
    pub(super) max_mib: u64,
}

#[derive(Debug, Args)]
pub(super) struct AgentArguments {
    /// Where the agent serves
    #[arg(long = "agent.url", value_name = "URL", value_hint = ValueHint::Url, default_value = DEFAULT_AGENT)]
    pub(super) url: String,
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    /// Only this task
    #[arg(value_name = "TASK", value_hint = ValueHint::Other)]
    pub(super) task: Option<String>,
    #[command(flatten)]
    pub(super) agent: AgentArguments,
    /// Print the agent's JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Show it again and again, with this pause, until Ctrl-C
    #[arg(long, value_name = "PAUSE", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = watch_pause)]
    pub(super) watch: Option<u64>,
}

impl From<StatusArguments> for StatusOptions {
    fn from(arguments: StatusArguments) -> StatusOptions {
        let StatusArguments { task, agent, json, watch } = arguments;
        StatusOptions { task, agent: agent.url, json, watch_ms: watch }
    }
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// Recordings, or folders of them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) files: Vec<PathBuf>,
    /// What would have been with another threshold: outbound.grace=40s, or *.grace=40s for all
    /// tasks
    #[arg(long, value_name = "TASK.FIELD=VALUE")]
    pub(super) set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DiscoverArguments {
    /// Where to look, redis://host:port/db
    #[arg(long, value_name = "URL")]
    pub(super) redis: String,
    #[command(flatten)]
    pub(super) login: LoginArguments,
    /// Only keys that match this glob
    #[arg(long = "match", value_name = "GLOB")]
    pub(super) pattern: Option<String>,
    /// Most keys looked at in a second
    #[arg(long = "keys-per-second", value_name = "COUNT", default_value = "5000", value_parser = value_parser!(u32).range(1..))]
    pub(super) keys_per_second: u32,
    /// How long to watch what was found, to learn leases
    #[arg(long, value_name = "DURATION", default_value = "12s", value_parser = parse_duration_ms)]
    pub(super) watch: u64,
}

impl From<DiscoverArguments> for DiscoverOptions {
    fn from(arguments: DiscoverArguments) -> DiscoverOptions {
        DiscoverOptions {
            redis_url: arguments.redis,
            password: arguments.login.password(),
            username: arguments.login.username,
            pattern: arguments.pattern,
            keys_per_second: arguments.keys_per_second,
            watch_ms: arguments.watch,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct WebArguments {
    /// Where to serve metrics and pages; `:10379` means all IPv4 addresses of this machine,
    /// `[::]:10379` those of IPv6 as well
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = DEFAULT_LISTEN, value_parser = listen_address)]
    pub(super) listen: SocketAddr,
    /// A site that may show a task's page in a frame, https://wms.example.com; may be repeated
    #[arg(long = "web.frame-ancestor", value_name = "ORIGIN", value_parser = origin)]
    pub(super) frame_ancestors: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct SourceArguments {
    /// The configuration
    #[arg(long = "config.file", value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "lockwatch.yml", conflicts_with = "redis")]
    pub(super) file: PathBuf,
    /// Instead of a file: the Redis of one lock, redis://host:port/db
    #[arg(long, value_name = "URL", requires = "lock")]
    pub(super) redis: Option<String>,
    /// Instead of a file: the key of one lock
    #[arg(long, value_name = "KEY", requires = "redis")]
    pub(super) lock: Option<OsString>,
    /// The library that makes that lock
    #[arg(long, value_name = "LIBRARY", value_parser = library(), default_value = libraries::DEFAULT, requires = "redis")]
    pub(super) library: &'static str,
    /// The older name of `--library`
    #[arg(long, value_name = "LIBRARY", value_parser = library(), requires = "redis", conflicts_with = "library", hide = true)]
    pub(super) scheme: Option<&'static str>,
    /// What that task is called [default: the key]
    #[arg(long, value_name = "NAME", requires = "redis")]
    pub(super) name: Option<String>,
    #[command(flatten)]
    pub(super) login: LoginArguments,
}

/// The arguments are not what comes of them: a lock without a file needs two.
impl From<SourceArguments> for ConfigSource {
    fn from(arguments: SourceArguments) -> ConfigSource {
        let (Some(redis_url), Some(key)) = (arguments.redis, arguments.lock) else {
            return ConfigSource::File(arguments.file);
        };
        ConfigSource::SingleLock(SingleLock {
            redis_url,
            key: key.into_vec(),
            library: arguments.scheme.unwrap_or(arguments.library),
            name: arguments.name,
            password: arguments.login.password(),
            username: arguments.login.username,
        })
    }
}

impl FromArgMatches for ConfigSource {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ConfigSource, clap::Error> {
        SourceArguments::from_arg_matches(matches).map(ConfigSource::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ConfigSource::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ConfigSource {
    fn augment_args(command: clap::Command) -> clap::Command {
        SourceArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        SourceArguments::augment_args_for_update(command)
    }
}

#[derive(Debug, Args)]
pub(super) struct LoginArguments {
    /// ACL user for that Redis
    #[arg(long = "redis.username", value_name = "USER", requires = "redis")]
    pub(super) username: Option<String>,
    /// File whose first line is the password for that Redis
    #[arg(long = "redis.password-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "redis", conflicts_with = "password_env")]
    pub(super) password_file: Option<PathBuf>,
    /// Environment variable that holds the password for that Redis
    #[arg(long = "redis.password-env", value_name = "VARIABLE", requires = "redis")]
    pub(super) password_env: Option<String>,
}

impl LoginArguments {
    pub(super) fn password(&self) -> Option<PasswordSource> {
        let file = self.password_file.clone().map(PasswordSource::File);
        file.or(self.password_env.clone().map(PasswordSource::Env))
    }
}

fn library() -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(libraries::names()).try_map(|name| {
        libraries::named(&name).map(|library| library.name()).ok_or("is no library")
    })
}

/// `address:port`, `localhost:port`, or `:port` for all IPv4 addresses.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let full = match text.split_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    full.parse().map_err(|_| "write it like 127.0.0.1:10379, [::1]:10379 or :10379".to_owned())
}

/// A pause that leaves the agent some time for others.
fn watch_pause(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        ..100 => Err("must be at least 100ms".to_owned()),
        pause_ms => Ok(pause_ms),
    }
}

/// `scheme://host`, perhaps with a port: nothing else may go into the header.
fn origin(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]*".contains(&byte);
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && host.bytes().all(plain) => Ok(text.to_owned()),
        _ => Err("write it like https://wms.example.com or http://10.0.0.7:8080, without a path"
            .to_owned()),
    }
}
