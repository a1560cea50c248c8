//! The resolved configuration, and what the other rooms need of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::spec::{Authority, StoreIndex, StoreSpec, TaskIndex, TaskSpec, WatchSpec};
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::store::{HostPort, Servers, Store};
use lockwatch_watch::zookeeper;

use super::guard::GuardConfig;
use super::login::Login;
use super::mistake::ConfigErrors;
use super::pattern::Pattern;
use super::schema::StoreKind;
use super::tls::{Tls, TlsConfig};
use crate::paths::Links;

/// A complete configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The Redis stores, sorted by name. A task's `StoreIndex` is a position in this list.
    pub redises: Vec<RedisConfig>,
    /// The ZooKeeper ensembles, sorted by name. Their `StoreIndex` comes after those of Redis.
    pub zookeepers: Vec<ZooKeeperConfig>,
    /// Names of the per-task labels, as configured.
    pub label_names: Vec<Arc<str>>,
    /// Where people reach what alerts point to.
    pub links: Links,
    /// Whether drills may be requested.
    pub drill: bool,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Arc<TaskSpec>>,
    /// The patterns, whose tasks are found later; in the order of the file.
    pub patterns: Vec<Arc<Pattern>>,
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

/// One named ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers.
    pub servers: Vec<HostPort>,
    /// `user:password` of the scheme `digest`.
    pub login: Login,
    /// How the connections to all of them are protected; `None`: plain TCP.
    pub tls: Option<TlsConfig>,
    /// Pause between two readings of a task.
    pub interval: Duration,
    /// A reply older than this is discarded as evidence.
    pub timeout: Duration,
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

    /// Refuses switches on the page and drills for which nobody can log in. `has_login`: the web
    /// file has users. `is_local`: only this machine reaches the agent, which is enough for drills.
    ///
    /// # Errors
    /// The fields that ask for it.
    pub fn check_login(
        &self,
        source: &str,
        has_login: bool,
        is_local: bool,
    ) -> Result<(), ConfigErrors> {
        if self.drill && !has_login && !is_local {
            let message = "lets everybody who reaches the agent send alerts: give it a web file \
                           with `basic_auth_users` (--web.config.file), let it listen on \
                           127.0.0.1 only (--web.listen-address), or leave `drill` out";
            let fields = vec!["drill".to_owned()];
            return ConfigErrors::of_fields(source, fields, message).map_or(Ok(()), Err);
        }
        let asking = self.redises.iter().filter(|redis| redis.want_on_page && !has_login);
        let fields = asking.map(|redis| format!("redis.{}.want.page", redis.name)).collect();
        let message = "needs to know who flips a switch: give the agent a web file with \
                       `basic_auth_users` (--web.config.file), or leave `page` out";
        ConfigErrors::of_fields(source, fields, message).map_or(Ok(()), Err)
    }

    /// The tasks with keys on `store`, and of each what is to be read there.
    pub fn tasks_on(&self, store: StoreIndex) -> Vec<(TaskIndex, Arc<TaskSpec>)> {
        let numbered = (0..).map(TaskIndex).zip(&self.tasks);
        numbered.filter_map(|(index, task)| Some((index, task.part_on(store)?))).collect()
    }

    /// The `StoreIndex` of the first ensemble.
    pub fn first_zookeeper(&self) -> u16 {
        u16::try_from(self.redises.len()).unwrap_or(u16::MAX)
    }

    /// The ensemble that is this store.
    pub fn zookeeper(&self, store: StoreIndex) -> Option<&ZooKeeperConfig> {
        self.zookeepers.get(usize::from(store.0.checked_sub(self.first_zookeeper())?))
    }

    /// The name of the store of `task`, or the names of its stores, joined.
    pub fn store_label(&self, task: &TaskSpec) -> Arc<str> {
        task.store_label(|store| {
            let redis = self.redises.get(usize::from(store.0)).map(|redis| &redis.name);
            redis.or_else(|| self.zookeeper(store).map(|ensemble| &ensemble.name))
        })
    }

    /// The pause between two readings of what is in a store.
    pub fn interval(&self, store: StoreIndex) -> Option<Duration> {
        let redis = self.redises.get(usize::from(store.0)).map(|redis| redis.interval);
        redis.or_else(|| self.zookeeper(store).map(|ensemble| ensemble.interval))
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
            stores: self
                .redises
                .iter()
                .map(redis_spec)
                .chain(self.zookeepers.iter().map(ZooKeeperConfig::spec))
                .collect(),
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

impl ZooKeeperConfig {
    /// What a watcher needs to know of it. It holds no secret.
    pub fn store(&self) -> zookeeper::store::Store {
        zookeeper::store::Store {
            name: Arc::clone(&self.name),
            servers: self.servers.clone(),
            interval_ms: ms(self.interval),
            timeout_ms: ms(self.timeout),
        }
    }

    /// The part that `judge` needs.
    fn spec(&self) -> StoreSpec {
        StoreSpec {
            name: Arc::clone(&self.name),
            kind: StoreKind::ZooKeeper.field().into(),
            authority: Authority::ENSEMBLE,
            addresses: self.servers.iter().map(|at| at.to_string().into()).collect(),
            db: 0,
            interval_ms: ms(self.interval),
            timeout_ms: ms(self.timeout),
        }
    }

    /// How the connection to one of its servers is protected.
    pub fn tls_of(&self, at: &HostPort) -> Option<Tls> {
        self.tls.as_ref().map(|tls| tls.of(at, &Servers::One(at.clone())))
    }
}

/// Whole milliseconds. Configured durations stay far below the range of `u64`.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
