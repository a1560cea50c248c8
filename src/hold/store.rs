//! The server that decides about a key, whatever the topology: found when it is needed, kept while
//! it answers, found again after any doubt.

use std::collections::BTreeMap;
use std::time::Duration;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use lockwatch_watch::redis::topology::{Announced, cluster, sentinel};

use crate::config::{Endpoint, HostPort, Login, Peers, RedisConfig, Servers, ms};
use crate::io::{Connection, Failure, connect};

/// For how long the Sentinels' words count, in milliseconds: they are all asked now.
const FRESH_MS: u64 = 60_000;
/// Errors of a server that does not decide, or not now.
const ELSEWHERE: [&[u8]; 6] =
    [b"MOVED", b"ASK", b"READONLY", b"MASTERDOWN", b"CLUSTERDOWN", b"LOADING"];

/// A store, with the login of whoever writes to it.
#[derive(Debug)]
pub struct Store {
    config: RedisConfig,
    login: Login,
    timeout: Duration,
    /// By slot; 0 unless it is a cluster.
    homes: BTreeMap<u16, HostPort>,
    connections: BTreeMap<HostPort, Connection>,
}

impl Store {
    /// Connects to nothing yet. Each wait takes up to `timeout`.
    pub fn new(config: RedisConfig, login: Login, timeout: Duration) -> Store {
        Store { config, login, timeout, homes: BTreeMap::new(), connections: BTreeMap::new() }
    }

    /// Sends `commands` about `key` to the server that decides about it. A reply may be an error.
    /// Nothing is sent twice, but for what a server refused because another one decides.
    ///
    /// # Errors
    /// Why there are no replies. They may have been carried out all the same.
    pub async fn ask(&mut self, key: &[u8], commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let replies = self.ask_once(key, commands).await?;
        if !replies.iter().any(is_elsewhere) {
            return Ok(replies);
        }
        self.forget(key);
        // The first of one command was refused, so nothing was done.
        match commands {
            [_] => self.ask_once(key, commands).await,
            _ => Ok(replies),
        }
    }

    async fn ask_once(&mut self, key: &[u8], commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let at = self.home(key).await?;
        if !self.connections.contains_key(&at) {
            let connection = self.connect(at.clone()).await.inspect_err(|_| self.forget(key))?;
            self.connections.insert(at.clone(), connection);
        }
        // Taken out, so that neither a failure nor a cancellation leaves a connection behind that
        // still owes a reply.
        let gone = || Failure::new(Unknown::Closed, "not connected");
        let connection = self.connections.remove(&at).ok_or_else(gone)?;
        let replies = connection.exec(commands).await.inspect_err(|_| self.forget(key))?;
        self.connections.insert(at, connection);
        Ok(replies)
    }

    /// The address of the server that decides about `key`.
    ///
    /// # Errors
    /// Nobody says which one it is.
    pub async fn home(&mut self, key: &[u8]) -> Result<HostPort, Failure> {
        let slot = self.slot(key);
        if let Some(at) = self.homes.get(&slot) {
            return Ok(at.clone());
        }
        let at = match self.config.servers.clone() {
            Servers::One(at) => at,
            Servers::Nodes(nodes) => self.master_of(&nodes).await?,
            Servers::Sentinel(sentinels) => {
                let announced = self.announced_master(&sentinels.nodes, &sentinels.master).await?;
                let at = allowed(&announced, &sentinels.peers, &[])?;
                self.master_of(&[at]).await?
            }
            Servers::Cluster(cluster) => {
                let owner = self.owner(&cluster.nodes, slot).await?;
                allowed(&owner, &cluster.peers, &cluster.nodes)?
            }
        };
        self.homes.insert(slot, at.clone());
        Ok(at)
    }

    /// The next request about `key` finds its server anew.
    pub fn forget(&mut self, key: &[u8]) {
        if let Some(at) = self.homes.remove(&self.slot(key)) {
            self.connections.remove(&at);
        }
    }

    /// How to dial a server of this store.
    pub fn endpoint(&self, at: HostPort) -> Endpoint {
        // Unlike the agent, who writes must not be answered by a replica.
        let own = self.config.endpoint(at);
        Endpoint { login: self.login.clone(), timeout: self.timeout, readonly: false, ..own }
    }

    fn slot(&self, key: &[u8]) -> u16 {
        match self.config.servers {
            Servers::Cluster(_) => cluster::slot(key),
            Servers::One(_) | Servers::Nodes(_) | Servers::Sentinel(_) => 0,
        }
    }

    async fn connect(&self, at: HostPort) -> Result<Connection, Failure> {
        connect(&self.endpoint(at)).await
    }

    /// The first of `nodes` that says that it is master.
    async fn master_of(&mut self, nodes: &[HostPort]) -> Result<HostPort, Failure> {
        let mut why = Failure::new(Unknown::NoMaster, "no server says that it is master");
        for at in nodes {
            match self.connect(at.clone()).await {
                Ok(connection) if matches!(connection.role(), Some(Role::Master)) => {
                    self.connections.insert(at.clone(), connection);
                    return Ok(at.clone());
                }
                Ok(_) => {}
                Err(failure) => why = failure,
            }
        }
        Err(why)
    }

    /// The master that most Sentinels name.
    async fn announced_master(
        &self,
        nodes: &[HostPort],
        master: &str,
    ) -> Result<Announced, Failure> {
        let mut quorum = sentinel::Quorum::new(nodes.len(), FRESH_MS);
        let mut why = Failure::new(Unknown::Quorum, "no majority of the Sentinels names a master");
        for (at, node) in nodes.iter().enumerate() {
            match self.ask_sentinel(node, master).await {
                Ok(replies) => quorum.answered(at, Mono(0), sentinel::decode(&replies)),
                Err(failure) => why = failure,
            }
            if let Ok(announced) = quorum.master(Mono(0)) {
                return Ok(announced);
            }
        }
        Err(why)
    }

    async fn ask_sentinel(&self, at: &HostPort, master: &str) -> Result<Vec<Reply>, Failure> {
        let endpoint = Endpoint {
            db: 0,
            login: self.config.sentinel_login.clone(),
            assume_master: true,
            ..self.endpoint(at.clone())
        };
        connect(&endpoint).await?.exec(&sentinel::commands(master)).await
    }

    /// The master of a slot.
    async fn owner(&self, nodes: &[HostPort], slot: u16) -> Result<Announced, Failure> {
        let mut why = Failure::new(Unknown::ClusterDown, "no server tells the cluster's layout");
        for at in nodes {
            let asked = async {
                let connection = self.connect(at.clone()).await?;
                let replies = connection.exec(&cluster::commands(false)).await?;
                let layout = cluster::decode(&replies, &at.host)
                    .map_err(|why| Failure::new(why, "the layout of the cluster"))?;
                let nobody = || Failure::new(Unknown::ClusterDown, "nobody serves the key's slot");
                layout.owner(slot).cloned().ok_or_else(nobody)
            };
            match asked.await {
                Ok(owner) => return Ok(owner),
                Err(failure) => why = failure,
            }
        }
        Err(why)
    }

    /// The longest wait of one request, in milliseconds.
    pub fn timeout_ms(&self) -> u64 {
        ms(self.timeout)
    }
}

fn allowed(
    announced: &Announced,
    peers: &Peers,
    configured: &[HostPort],
) -> Result<HostPort, Failure> {
    let foreign = || Failure::new(Unknown::ForeignAddress, announced.address());
    peers.resolve(announced, configured).ok_or_else(foreign)
}

fn is_elsewhere(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(ServerError { code, .. }) if ELSEWHERE.contains(&code.as_slice()))
}
