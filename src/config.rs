//! The resolved configuration: every default filled in, every name checked. How it is read is in `config/`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::spec::{TaskSpec, WatchSpec};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The redises, sorted by name; a task's `RedisIndex` is a position in this list.
    pub redises: Vec<RedisConfig>,
    /// Names of the per-task labels, as configured.
    pub label_names: Vec<Arc<str>>,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Arc<TaskSpec>>,
}

/// One named Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Database number.
    pub db: u32,
    /// ACL user; `None`: the default user.
    pub username: Option<String>,
    /// Where the password is read from at every connect.
    pub password: Option<PasswordSource>,
    /// Pause between two sweeps.
    pub interval: Duration,
    /// A reply older than this is no evidence.
    pub timeout: Duration,
    /// The user vouches for the server's role because it refuses both `ROLE` and `INFO`.
    pub assume_master: bool,
}

/// Where a password is read from, at every connect, so that a rotated one is picked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// The first line of a file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
}

impl Config {
    /// What the model needs to know.
    pub fn watch_spec(&self, epoch: u32) -> WatchSpec {
        let _ = epoch;
        WatchSpec::default()
    }
}
