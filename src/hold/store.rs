//! Connections to the servers that decide about keys, whatever the topology: made when they are
//! needed, kept while they answer, found again after any doubt.

use std::collections::BTreeMap;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use lockwatch_watch::redis::topology::cluster;

use crate::config::{Endpoint, HostPort, Login, RedisConfig, Servers};
use crate::io::{Connection, Failure, connect_briefly};
use crate::seek;

/// Errors of a server that does not decide, or not now.
const ELSEWHERE: [&[u8]; 6] =
    [b"MOVED", b"ASK", b"READONLY", b"MASTERDOWN", b"CLUSTERDOWN", b"LOADING"];

/// A store, with the login for writing to it.
#[derive(Debug)]
pub struct Store {
    /// With the login of the agent, which is for finding the servers.
    config: RedisConfig,
    login: Login,
    /// By slot; 0 unless it is a cluster.
    homes: BTreeMap<u16, HostPort>,
    connections: BTreeMap<HostPort, Connection>,
}

impl Store {
    /// Connects to nothing yet. Each wait takes up to `timeout`.
    pub fn new(config: RedisConfig, login: Login, timeout: Duration) -> Store {
        let config = RedisConfig { timeout, ..config };
        Store { config, login, homes: BTreeMap::new(), connections: BTreeMap::new() }
    }

    /// Sends `commands` about `key` to the server that decides about it. A reply may be an error.
    /// One command alone is sent again if a server refused it because another one decides.
    ///
    /// # Errors
    /// Why there are no replies. They may have been carried out all the same.
    pub async fn ask(&mut self, key: &[u8], commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let replies = self.ask_once(key, commands).await?;
        if !replies.iter().any(is_elsewhere) {
            return Ok(replies);
        }
        self.forget(key);
        match commands {
            [_] => self.ask_once(key, commands).await,
            _ => Ok(replies),
        }
    }

    async fn ask_once(&mut self, key: &[u8], commands: &[Command]) -> Result<Vec<Reply>, Failure> {
        let at = self.home(key).await?;
        // Taken out, so that neither a failure nor a cancellation leaves a connection behind that
        // still owes a reply.
        let kept = self.connections.remove(&at);
        let connection = match kept.filter(|connection| !connection.is_outdated(&self.login)) {
            Some(connection) => connection,
            None => self.connect(&at).await.inspect_err(|_| self.forget(key))?,
        };
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
        let at = seek::deciding(&self.config, key).await;
        let at = at.map_err(|trouble| Failure::new(Unknown::NoMaster, trouble))?;
        self.homes.insert(slot, at.clone());
        Ok(at)
    }

    /// The next request about `key` locates its server again.
    pub fn forget(&mut self, key: &[u8]) {
        if let Some(at) = self.homes.remove(&self.slot(key)) {
            self.connections.remove(&at);
        }
    }

    /// How to dial a server of this store.
    pub fn endpoint(&self, at: HostPort) -> Endpoint {
        // Unlike the agent, who writes must not be answered by a replica.
        Endpoint { login: self.login.clone(), readonly: false, ..self.config.endpoint(at) }
    }

    fn slot(&self, key: &[u8]) -> u16 {
        match self.config.servers {
            Servers::Cluster(_) => cluster::slot(key),
            Servers::One(_) | Servers::Nodes(_) | Servers::Sentinel(_) => 0,
        }
    }

    async fn connect(&self, at: &HostPort) -> Result<Connection, Failure> {
        let connection = connect_briefly(&self.endpoint(at.clone())).await?;
        seek::check_role(&self.config, at, connection.role())
            .map_err(|trouble| Failure::new(Unknown::NotMaster, trouble))?;
        Ok(connection)
    }
}

fn is_elsewhere(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(ServerError { code, .. }) if ELSEWHERE.contains(&code.as_slice()))
}
