//! Where a command has its configuration from: a file, or one lock on the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, ValueHint};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_watch::redis::libraries;

use crate::config::{Config, ConfigErrors, PasswordSource, SingleLock, TlsConfig, TlsFiles};
use crate::text::identity::escape;
use crate::text::nearest::{no_such_task, which_task};

/// Where the configuration comes from; a reload reads it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The command line.
    SingleLock(Box<SingleLock>),
}

impl ConfigSource {
    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            ConfigSource::File(path) => path.display().to_string(),
            ConfigSource::SingleLock(_) => "command line".to_owned(),
        }
    }

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

/// The task of this name; without a name, the only one.
///
/// # Errors
/// There is no such task, or more than one; text for a person.
pub fn task_of<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a Arc<TaskSpec>, String> {
    let names = || config.tasks.iter().map(|task| &*task.name);
    match (name, &config.tasks[..]) {
        (None, [only]) => Ok(only),
        (None, _) => Err(which_task(&names().collect::<Vec<_>>())),
        (Some(name), tasks) => {
            let task = tasks.iter().find(|task| &*task.name == name);
            task.ok_or_else(|| {
                let found = found_by(config, name);
                found.unwrap_or_else(|| no_such_task(name, names()))
            })
        }
    }
}

/// What to say of a task that a pattern may have found.
fn found_by(config: &Config, name: &str) -> Option<String> {
    let mut patterns = config.patterns.iter().map(|pattern| &**pattern.name());
    let is_its = |of: &&str| name.strip_prefix(*of).is_some_and(|rest| rest.starts_with('/'));
    let pattern = escape(patterns.find(is_its)?.as_bytes()).into_owned();
    Some(format!("Only a running agent knows the tasks of the pattern {pattern}; ask that"))
}

#[derive(Debug, Args)]
struct SourceArguments {
    /// The configuration
    #[arg(long = "config.file", value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "lockwatch.yml", conflicts_with = "redis")]
    file: PathBuf,
    /// Instead of a file: the Redis of one lock, redis://host:port/db (rediss:// for TLS)
    #[arg(long, value_name = "URL", requires = "lock")]
    redis: Option<String>,
    /// Instead of a file: the key of one lock
    #[arg(long, value_name = "KEY", requires = "redis")]
    lock: Option<OsString>,
    /// The library that makes that lock
    #[arg(long, value_name = "LIBRARY", value_parser = library(), default_value = libraries::DEFAULT, requires = "redis")]
    library: &'static str,
    /// The older name of `--library`
    #[arg(long, value_name = "LIBRARY", value_parser = library(), requires = "redis", conflicts_with = "library", hide = true)]
    scheme: Option<&'static str>,
    /// What that task is called [default: the key]
    #[arg(long, value_name = "NAME", requires = "redis")]
    name: Option<String>,
    #[command(flatten)]
    login: LoginArguments,
}

/// The arguments are not what comes of them: a lock without a file needs two.
impl From<SourceArguments> for ConfigSource {
    fn from(arguments: SourceArguments) -> ConfigSource {
        let (Some(redis_url), Some(key)) = (arguments.redis, arguments.lock) else {
            return ConfigSource::File(arguments.file);
        };
        ConfigSource::SingleLock(Box::new(SingleLock {
            redis_url,
            key: key.into_vec(),
            library: arguments.scheme.unwrap_or(arguments.library),
            name: arguments.name,
            password: arguments.login.password(),
            tls: arguments.login.tls(),
            username: arguments.login.username,
        }))
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

/// How to log in to a Redis that the command line names.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct LoginArguments {
    /// ACL user for that Redis
    #[arg(long = "redis.username", value_name = "USER", requires = "redis")]
    pub username: Option<String>,
    /// File whose first line is the password for that Redis
    #[arg(long = "redis.password-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "redis", conflicts_with = "password_env")]
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds the password for that Redis
    #[arg(long = "redis.password-env", value_name = "VARIABLE", requires = "redis")]
    pub password_env: Option<String>,
    /// File with the authorities that may sign that Redis' certificate [default: the system's]
    #[arg(long = "redis.ca-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "redis")]
    pub ca_file: Option<PathBuf>,
    /// File with the certificate to show to that Redis
    #[arg(long = "redis.cert-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["redis", "key_file"])]
    pub cert_file: Option<PathBuf>,
    /// File with its private key
    #[arg(long = "redis.key-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["redis", "cert_file"])]
    pub key_file: Option<PathBuf>,
    /// Name that the certificate of that Redis has [default: the host of the URL]
    #[arg(long = "redis.server-name", value_name = "NAME", requires = "redis")]
    pub server_name: Option<String>,
}

impl LoginArguments {
    /// Where its password comes from.
    pub fn password(&self) -> Option<PasswordSource> {
        let file = self.password_file.clone().map(PasswordSource::File);
        file.or(self.password_env.clone().map(PasswordSource::Env))
    }

    /// What its TLS needs, if anything is said about it.
    pub fn tls(&self) -> Option<TlsConfig> {
        let (ca_file, cert_file) = (self.ca_file.clone(), self.cert_file.clone());
        let files = TlsFiles { ca_file, cert_file, key_file: self.key_file.clone() };
        let tls = TlsConfig { files, server_name: self.server_name.clone() };
        (tls != TlsConfig::default()).then_some(tls)
    }
}

/// The name of a library. One of which more must be configured needs a file.
fn library() -> impl TypedValueParser<Value = &'static str> {
    let libraries = libraries::ALL.iter().filter(|library| !library.needs_score());
    PossibleValuesParser::new(libraries.map(|library| library.name())).try_map(|name| {
        libraries::named(&name).map(|library| library.name()).ok_or("is no library")
    })
}
