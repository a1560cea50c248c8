//! What a watcher needs to know of a store: its servers and how to ask them. It holds no secret.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::redis::RedisKind;
use ipnet::IpNet;

use super::accept;
use super::topology::Announced;

/// A named store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers, and how the deciding one is found.
    pub servers: Servers,
    /// Database number.
    pub db: u32,
    /// Pause between two sweeps, in milliseconds.
    pub interval_ms: u64,
    /// A reply older than this is discarded as evidence, in milliseconds.
    pub timeout_ms: u64,
    /// The user attests the server's role because it refuses both `ROLE` and `INFO`.
    pub assume_master: bool,
    /// Whether the deciding servers are asked to announce changes of keys.
    pub wake_ups: bool,
}

impl Store {
    /// Whether connections made for one can be used for the other.
    pub(super) fn same_servers(&self, other: &Store) -> bool {
        let of = |store: &Store| (store.db, store.timeout_ms, store.assume_master);
        self.servers == other.servers && of(self) == of(other)
    }
}

/// The servers of a store, and how the deciding one is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// One server.
    One(HostPort),
    /// A master and its replicas without Sentinel, in the order of the configuration.
    Nodes(Vec<HostPort>),
    /// Servers that Sentinels monitor.
    Sentinel(Sentinels),
    /// A cluster.
    Cluster(Cluster),
}

impl Servers {
    /// How the servers are organised.
    pub fn kind(&self) -> RedisKind {
        match self {
            Servers::One(_) => RedisKind::Standalone,
            Servers::Nodes(_) => RedisKind::Replicated,
            Servers::Sentinel(_) => RedisKind::Sentinel,
            Servers::Cluster(_) => RedisKind::Cluster,
        }
    }

    /// The configured servers; for Sentinel, the Sentinels.
    pub fn configured(&self) -> &[HostPort] {
        match self {
            Servers::One(at) => core::slice::from_ref(at),
            Servers::Nodes(nodes)
            | Servers::Sentinel(Sentinels { nodes, .. })
            | Servers::Cluster(Cluster { nodes, .. }) => nodes,
        }
    }
}

/// Sentinels, and the master to request from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinels {
    /// The name under which the Sentinels know the master.
    pub master: String,
    /// The Sentinels.
    pub nodes: Vec<HostPort>,
    /// Which announced servers to dial, and where.
    pub peers: Peers,
}

/// Where to read the layout of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Some of its servers.
    pub nodes: Vec<HostPort>,
    /// Which announced servers to dial, and where.
    pub peers: Peers,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Host name or address; an IPv6 address without brackets. Or the absolute path of a Unix
    /// socket, which only a configuration can name: see [`Announced::new`].
    pub host: String,
    /// TCP port; 0 for a Unix socket.
    pub port: u16,
}

impl HostPort {
    /// The path of the Unix socket, if it is one.
    pub fn socket(&self) -> Option<&str> {
        self.host.starts_with('/').then_some(&self.host)
    }

    /// The canonical spelling, in which equal addresses compare equal.
    pub fn canonical(&self) -> HostPort {
        if self.socket().is_some() {
            return self.clone();
        }
        let address = self.host.parse::<IpAddr>();
        let host =
            address.map_or_else(|_| self.host.to_ascii_lowercase(), |address| address.to_string());
        HostPort { host, port: self.port }
    }

    /// Whether both are the same address.
    pub fn is_same(&self, other: &HostPort) -> bool {
        self.canonical() == other.canonical()
    }
}

/// `host:port`, with brackets around an IPv6 address; of a Unix socket the path.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.socket() {
            return f.write_str(path);
        }
        f.write_str(&accept::address(&self.host, self.port))
    }
}

/// Which announced servers to dial, and where. Behind NAT, servers announce addresses that other
/// hosts cannot reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Maps an announced address to the one to dial. Addresses in this map are allowed.
    pub announce_map: BTreeMap<HostPort, HostPort>,
    /// Hosts and networks that may be dialled although they were only announced; `None`: any.
    pub allowed: Option<Vec<AllowedHost>>,
}

/// A host or network that may be dialled although it was only announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// A name or address as it is announced.
    Name(String),
    /// All addresses of a network.
    Network(IpNet),
}

impl Peers {
    /// The address to dial for an announced server; `None`: it is not allowed. The hosts of the
    /// `configured` servers are always allowed.
    pub fn resolve(&self, announced: &Announced, configured: &[HostPort]) -> Option<HostPort> {
        let announced = HostPort { host: announced.host.clone(), port: announced.port }.canonical();
        if let Some(reachable) = self.announce_map.get(&announced) {
            return Some(reachable.clone());
        }
        let address = announced.host.parse::<IpAddr>().ok();
        if address.is_some_and(|address| address.is_unspecified()) {
            return None;
        }
        // Use the configured spelling, so that it is not mistaken for another server.
        if let Some(configured) =
            configured.iter().find(|configured| configured.is_same(&announced))
        {
            return Some(configured.clone());
        }
        let is_configured =
            || configured.iter().any(|configured| configured.canonical().host == announced.host);
        let is_allowed = match &self.allowed {
            None => true,
            Some(allowed) => {
                is_configured()
                    || allowed.iter().any(|allowed| allowed.covers(&announced.host, address))
            }
        };
        is_allowed.then_some(announced)
    }
}

impl AllowedHost {
    /// Only an announced address can match a network. A name may resolve differently between check
    /// and dial.
    fn covers(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (AllowedHost::Name(name), _) => name == host,
            (AllowedHost::Network(network), Some(address)) => network.contains(&address),
            (AllowedHost::Network(_), None) => false,
        }
    }
}
