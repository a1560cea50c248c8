//! The configuration: read from a file, or made of flags, with every default filled in and every
//! name checked.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use lockwatch_watch::redis::store::{
    AllowedHost, Cluster as ClusterConfig, HostPort, Peers, Sentinels as SentinelConfig, Servers,
};
use serde_yaml::{Mapping, Value};

mod block;
mod document;
mod guard;
mod kind;
mod labels;
mod links;
mod locate;
mod login;
mod mistake;
mod pattern;
mod peers;
mod place;
mod redises;
mod resolved;
mod roles;
pub mod schema;
mod secret;
mod servers;
mod stores;
mod tasks;
pub mod threshold;
mod tls;
mod url;
mod values;
pub mod web;
mod yaml;
mod zookeepers;

pub use guard::{GuardConfig, Heartbeat, RESTARTS};

pub(crate) use labels::OURS;
pub use labels::{AGENT_LABELS, SITE_LABELS};
pub use locate::Position;
pub use login::{Login, PasswordSource};
pub use mistake::{ConfigErrors, Mistake};
pub(crate) use pattern::NAME_BYTES_MAX as PATTERN_NAME_BYTES_MAX;
pub use pattern::Pattern;
pub(crate) use redises::{INTERVAL, TIMEOUT};
pub(crate) use resolved::ms;
pub use resolved::{Config, Endpoint, RedisConfig, ZooKeeperConfig};
pub(crate) use secret::{SECRET_BYTES_MAX, exposed};
pub use secret::{Secret, SecretError};
pub use tls::{Tls, TlsConfig, TlsFiles};
pub(crate) use values::KEY_BYTES_MAX;
pub(crate) use yaml::parse as parse_yaml;

use crate::text::marks::{IS_UTF_16, after_mark};

/// Maximum size of a configuration file in bytes. It bounds memory when the path names something
/// else.
const FILE_BYTES_MAX: u64 = 64 << 20;

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
    /// What TLS needs in addition to the URL.
    pub tls: Option<TlsConfig>,
}

impl Config {
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
