//! The resolved configuration: every default filled in, every name checked. The parsers are in
//! `config/`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::spec::{StoreSpec, TaskSpec, WatchSpec};
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::store::Store;
pub use lockwatch_watch::redis::store::{
    AllowedHost, Cluster as ClusterConfig, HostPort, Peers, Sentinels as SentinelConfig, Servers,
};
use serde_yaml::{Mapping, Value};

use crate::paths::Links;

mod block;
mod document;
mod guard;
mod kind;
mod labels;
mod links;
mod locate;
mod login;
mod mistake;
mod peers;
mod place;
mod redises;
mod roles;
pub mod schema;
mod secret;
mod servers;
mod tasks;
pub mod threshold;
mod tls;
mod url;
mod values;
pub mod web;
mod yaml;

pub use guard::{GuardConfig, Heartbeat, RESTARTS};
pub(crate) use labels::OURS;
pub use labels::{AGENT_LABELS, SITE_LABELS};
pub use locate::Position;
pub use mistake::{ConfigErrors, Mistake};
pub(crate) use redises::{INTERVAL, TIMEOUT};
pub(crate) use secret::{SECRET_BYTES_MAX, exposed};
pub use secret::{Secret, SecretError};
pub use tls::{Tls, TlsConfig, TlsFiles};
pub(crate) use values::KEY_BYTES_MAX;
pub(crate) use yaml::parse as parse_yaml;

use crate::text::marks::{IS_UTF_16, after_mark};

/// Maximum size of a configuration file in bytes. It bounds memory when the path names something
/// else.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A complete configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The Redis stores, sorted by name. A task's `StoreIndex` is a position in this list.
    pub redises: Vec<RedisConfig>,
    /// Names of the per-task labels, as configured.
    pub label_names: Vec<Arc<str>>,
    /// Where people reach what alerts point to.
    pub links: Links,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Arc<TaskSpec>>,
    /// How guards run them, by the names of tasks that say so.
    pub guards: BTreeMap<Arc<str>, GuardConfig>,
}

/// One named Redis store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers, and how the deciding one is found.
    pub servers: Servers,
    /// Database number.
    pub db: u32,
    /// Credentials for its servers.
    pub login: Login,
    /// Credentials for its Sentinels.
    pub sentinel_login: Login,
    /// How the connections to all of them are protected; `None`: plain TCP, or a Unix socket.
    pub tls: Option<TlsConfig>,
    /// Pause between two sweeps.
    pub interval: Duration,
    /// A reply older than this is discarded as evidence.
    pub timeout: Duration,
    /// The user attests the server's role because it refuses both `ROLE` and `INFO`.
    pub assume_master: bool,
    /// Whether the deciding servers are asked to announce changes of keys.
    pub wake_ups: bool,
    /// Credentials for writing switches, which the agent never uses; `None`: nobody may.
    pub want: Option<Login>,
    /// Whether users that have logged in may flip their switches on the page.
    pub want_on_page: bool,
}

/// User name and source of the password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// ACL user; `None`: the default user.
    pub username: Option<String>,
    /// Source of the password, read at every connect.
    pub password: Option<PasswordSource>,
    /// How long the server lets a login live; `None`: for ever.
    pub max_age: Option<Duration>,
}

impl Login {
    /// How old it may become before it is renewed. The rest is for attempts that fail.
    pub fn renew_after(&self) -> Option<Duration> {
        self.max_age.map(|max_age| max_age * 3 / 4)
    }
}

/// One server as it is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub at: HostPort,
    /// Database number.
    pub db: u32,
    /// Credentials.
    pub login: Login,
    /// How the connection is protected; `None`: plain TCP, or a Unix socket.
    pub tls: Option<Tls>,
    /// Maximum wait for a reply.
    pub timeout: Duration,
    /// The user attests the server's role because it refuses both `ROLE` and `INFO`.
    pub assume_master: bool,
    /// Whether to send `READONLY`, so that a replica in a cluster answers for the keys that it
    /// replicates.
    pub readonly: bool,
    /// Whether it is to be a Sentinel.
    pub is_sentinel: bool,
}

/// Source of a password. It is read at every connect, so that a rotated password takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// The first line of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The first line that a program writes to its standard output: the program and its
    /// arguments.
    Command(Vec<String>),
}

/// One lock, given on the command line instead of in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleLock {
    /// `redis://host:port/db`, or another form of it.
    pub redis_url: String,
    /// The lock's key: any bytes.
    pub key: Vec<u8>,
    /// The name of the lock's library.
    pub library: &'static str,
    /// The name of the task; `None`: the key.
    pub name: Option<String>,
    /// ACL user.
    pub username: Option<String>,
    /// Source of the password.
    pub password: Option<PasswordSource>,
    /// What TLS needs beside the URL.
    pub tls: Option<TlsConfig>,
}

impl Config {
    /// Replaces each task that equals one of `before` by that shared instance. The history keeps
    /// tasks alive for long, and would hold one copy per reload.
    pub fn share(&mut self, before: &[Arc<TaskSpec>]) {
        let before: BTreeMap<&str, &Arc<TaskSpec>> =
            before.iter().map(|task| (&*task.name, task)).collect();
        for task in &mut self.tasks {
            if let Some(old) = before.get(&*task.name).copied().filter(|old| *old == task) {
                *task = Arc::clone(old);
            }
        }
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// All mistakes at once, or why the file cannot be read.
    pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
        let source = path.display().to_string();
        let unreadable = |error: FileError| {
            let remedy = match error {
                FileError::Absent => {
                    "; name the file with --config.file, or one lock with --redis and --lock"
                }
                _ => "",
            };
            ConfigErrors::whole(&source, format!("{error}{remedy}"), None)
        };
        let text = read_text(path).map_err(unreadable)?;
        Config::parse(&text, path)
    }

    /// Parses `text`, read from the file `path`. Messages name that file, and relative paths start
    /// at its directory.
    ///
    /// # Errors
    /// All mistakes at once, sorted by position.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigErrors> {
        let source = path.display().to_string();
        let document = yaml::parse(text, &source)?;
        let mistakes = mistake::Mistakes::default();
        let dir = path.parent().unwrap_or(Path::new(""));
        match document::read(&document, dir, &mistakes) {
            Ok(config) if mistakes.is_empty() => Ok(config),
            _ => Err(mistakes.into_errors(&source, text, &document::task_names(&document))),
        }
    }

    /// The configuration for one lock without a file. Everything else has its default.
    ///
    /// # Errors
    /// All mistakes at once, each with its flag.
    pub fn single_lock(lock: &SingleLock) -> Result<Config, ConfigErrors> {
        let mistakes = mistake::Mistakes::default();
        match document::read(&single_lock_document(lock), Path::new(""), &mistakes) {
            Ok(config) if mistakes.is_empty() => Ok(config),
            _ => Err(mistakes.into_flag_errors(flag_of)),
        }
    }

    /// Refuses switches on the page for which nobody can log in. `has_login`: the web file has
    /// users.
    ///
    /// # Errors
    /// The fields that ask for it.
    pub fn check_login(&self, source: &str, has_login: bool) -> Result<(), ConfigErrors> {
        let asking = self.redises.iter().filter(|redis| redis.want_on_page && !has_login);
        let fields = asking.map(|redis| format!("redis.{}.want.page", redis.name)).collect();
        let message = "needs to know who flips a switch: give the agent a web file with \
                       `basic_auth_users` (--web.config.file), or leave `page` out";
        ConfigErrors::of_fields(source, fields, message).map_or(Ok(()), Err)
    }

    /// The part that `judge` needs. `epoch` counts the reloads.
    pub fn watch_spec(&self, epoch: u32) -> WatchSpec {
        let redis_spec = |redis: &RedisConfig| StoreSpec {
            name: Arc::clone(&redis.name),
            kind: redis.servers.kind().name().into(),
            authority: redis.servers.kind().authority(),
            addresses: redis.servers.configured().iter().map(|at| at.to_string().into()).collect(),
            db: redis.db,
            interval_ms: ms(redis.interval),
            timeout_ms: ms(redis.timeout),
        };
        WatchSpec {
            stores: self.redises.iter().map(redis_spec).collect(),
            tasks: self.tasks.clone(),
            epoch,
        }
    }
}

impl RedisConfig {
    /// What a watcher needs to know of it. It holds no secret.
    pub fn store(&self) -> Store {
        Store {
            name: Arc::clone(&self.name),
            servers: self.servers.clone(),
            db: self.db,
            interval_ms: ms(self.interval),
            timeout_ms: ms(self.timeout),
            assume_master: self.assume_master,
            wake_ups: self.wake_ups,
        }
    }

    /// One of its servers as it is dialled.
    pub fn endpoint(&self, at: HostPort) -> Endpoint {
        Endpoint {
            tls: self.tls_of(&at),
            at,
            db: self.db,
            login: self.login.clone(),
            timeout: self.timeout,
            assume_master: self.assume_master,
            readonly: self.servers.kind() == RedisKind::Cluster,
            is_sentinel: false,
        }
    }

    /// One of its Sentinels as it is dialled.
    pub fn sentinel_endpoint(&self, at: HostPort) -> Endpoint {
        let login = self.sentinel_login.clone();
        Endpoint { login, is_sentinel: true, ..self.endpoint(at) }
    }

    /// How the connection to one of its servers is protected.
    pub fn tls_of(&self, at: &HostPort) -> Option<Tls> {
        self.tls.as_ref().map(|tls| tls.of(at, &self.servers))
    }
}

/// Whole milliseconds. Configured durations stay far below the range of `u64`.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Why the text of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("does not exist")]
    Absent,
    #[error("cannot be read: permission denied; let this user read it")]
    Forbidden,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is longer than {FILE_BYTES_MAX} bytes, which is the most that is accepted")]
    TooLong,
    #[error("is not UTF-8 text: byte {0} is wrong; write keys of other bytes as {{hex: …}}")]
    NotText(usize),
    #[error("{IS_UTF_16}")]
    Utf16,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        match error.kind() {
            io::ErrorKind::NotFound => FileError::Absent,
            io::ErrorKind::PermissionDenied => FileError::Forbidden,
            _ => FileError::Unreadable(error),
        }
    }
}

/// Reads a text file written by people, at most [`FILE_BYTES_MAX`].
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    // The reported length is no bound: a pipe or a device reports zero.
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FileError::TooLong);
    }
    let after = after_mark(&bytes).ok_or(FileError::Utf16)?.len();
    bytes.drain(..bytes.len() - after);
    String::from_utf8(bytes).map_err(|error| FileError::NotText(error.utf8_error().valid_up_to()))
}

/// The document that is equivalent to the flags, so that the same checks apply to both.
fn single_lock_document(lock: &SingleLock) -> Value {
    let text = |text: &str| Value::from(text);
    let mut redis = vec![("url", text(&lock.redis_url))];
    redis.extend(lock.username.as_deref().map(|user| ("username", text(user))));
    redis.extend(lock.password.as_ref().map(|password| match password {
        PasswordSource::File(path) => ("password_file", text(&path.to_string_lossy())),
        PasswordSource::Env(variable) => ("password_env", text(variable)),
        PasswordSource::Command(words) => {
            ("password_command", Value::Sequence(words.iter().map(|word| text(word)).collect()))
        }
    }));
    redis.extend(lock.tls.as_ref().map(|tls| ("tls", tls_document(tls))));
    let hex = hex::encode(&lock.key);
    let key = mapping([("hex", text(&hex))]);
    let name = lock.name.clone().unwrap_or_else(|| String::from_utf8_lossy(&lock.key).into_owned());
    let lock = mapping([("key", key), ("library", text(lock.library))]);
    let task = mapping([("name", Value::from(name)), ("lock", lock)]);
    mapping([
        ("redis", mapping([("main", mapping(redis))])),
        ("tasks", Value::Sequence(vec![task])),
    ])
}

fn tls_document(TlsConfig { files, server_name }: &TlsConfig) -> Value {
    let path = |path: &PathBuf| Value::from(path.to_string_lossy().into_owned());
    let fields = [
        ("ca_file", files.ca_file.as_ref().map(path)),
        ("cert_file", files.cert_file.as_ref().map(path)),
        ("key_file", files.key_file.as_ref().map(path)),
        ("server_name", server_name.as_deref().map(Value::from)),
    ];
    mapping(fields.into_iter().filter_map(|(field, value)| Some((field, value?))))
}

fn mapping<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Mapping(
        fields.into_iter().map(|(name, value)| (Value::from(name), value)).collect::<Mapping>(),
    )
}

/// The flag that a place of [`single_lock_document`] was made from.
fn flag_of(place: &place::Place) -> &'static str {
    match place.steps.last() {
        Some(place::Step::Field(field)) => match field.as_str() {
            "username" => "--redis.username",
            "password_file" => "--redis.password-file",
            "password_env" => "--redis.password-env",
            "ca_file" => "--redis.ca-file",
            "cert_file" => "--redis.cert-file",
            "key_file" => "--redis.key-file",
            "server_name" => "--redis.server-name",
            "key" => "--lock",
            "library" => "--library",
            "name" => "--name",
            _ => "--redis",
        },
        _ => "--redis",
    }
}
