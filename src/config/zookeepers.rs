//! The block `zookeeper`: the named ensembles.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::spec::{Authority, StoreSpec};
use lockwatch_watch::redis::store::{HostPort, Servers};
use lockwatch_watch::zookeeper::store::Store;
use serde_yaml::Value;

use super::block::{At, Block};
use super::login::{Login, PasswordSource};
use super::mistake::Reported;
use super::redises::{INTERVAL, INTERVAL_MIN, TIMEOUT, TIMEOUT_MIN};
use super::resolved::ms;
use super::schema::ZOOKEEPER;
use super::servers::Transports;
use super::tls::{self, Tls, TlsConfig};
use super::url;
use super::values::{duration, kind, name_mistake, text};

/// The port of ZooKeeper's clients.
const PORT: u16 = 2181;
/// Maximum number of servers of an ensemble.
const SERVERS_MAX: usize = 100;

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

impl ZooKeeperConfig {
    /// What a watcher needs to know of it. It holds no secret.
    pub fn store(&self) -> Store {
        Store {
            name: Arc::clone(&self.name),
            servers: self.servers.clone(),
            interval_ms: ms(self.interval),
            timeout_ms: ms(self.timeout),
        }
    }

    /// The part that `judge` needs.
    pub(super) fn spec(&self) -> StoreSpec {
        StoreSpec {
            name: Arc::clone(&self.name),
            kind: "zookeeper".into(),
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

/// The named ensembles, sorted by name, each as far as it could be read.
pub(super) type ZooKeepers = BTreeMap<String, Result<ZooKeeperConfig, Reported>>;

/// Reads all ensembles. `dir` is the base of relative paths.
pub(super) fn read(at: &At<'_>, dir: &Path) -> Result<ZooKeepers, Reported> {
    let Value::Mapping(map) = at.value else {
        let kind = kind(at.value);
        let message = format!("is {kind}; name each ensemble: `zk: {{servers: [\"host:2181\"]}}`");
        return Err(at.report(message));
    };
    let mut all = ZooKeepers::new();
    for (key, value) in map {
        let Value::String(name) = key else {
            let message = format!("has an ensemble whose name is {}; put it in quotes", kind(key));
            return Err(at.report(message));
        };
        if let Some(mistake) = name_mistake(name) {
            let message = format!("the name of this ensemble {mistake}");
            at.mistakes.report(at.place.name_of_field(name), message);
        }
        let at = At { value, place: at.place.field(name), ..*at };
        all.insert(name.clone(), read_one(name, at, dir));
    }
    Ok(all)
}

fn read_one(name: &str, at: At<'_>, dir: &Path) -> Result<ZooKeeperConfig, Reported> {
    const REMEDY: &str = "write `servers: [\"zk1:2181\", \"zk2:2181\", \"zk3:2181\"]`";
    let block = Block::open(at, &ZOOKEEPER)?;
    let same = |a: &HostPort, b: &HostPort| a.is_same(b);
    let servers = block.required_list("servers", SERVERS_MAX, REMEDY, server, same);
    let secret = block.optional("auth_file", |value| Ok(dir.join(text(value)?)));
    let interval = block.or("interval", INTERVAL, duration(INTERVAL_MIN));
    let timeout = block.or("timeout", TIMEOUT, duration(TIMEOUT_MIN));
    let tls = tls::read(&block, Transports::default(), dir);
    let password = secret?.map(PasswordSource::File);
    Ok(ZooKeeperConfig {
        name: name.into(),
        servers: servers?,
        login: Login { password, ..Login::default() },
        tls: tls?,
        interval: interval?,
        timeout: timeout?,
    })
}

fn server(value: &Value) -> Result<HostPort, String> {
    url::server(&text(value)?, PORT).map(|(at, _)| at)
}
