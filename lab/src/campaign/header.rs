//! The description of a run: its parameters, its tasks and the addresses of its parts. It is the
//! first of the log files, and the only one that all parts read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The file's name.
const FILE: &str = "run.json";

/// The description of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The seed of all random decisions.
    pub(super) seed: u64,
    /// When the scripts of the tasks begin, on the monotonic clock.
    pub(super) began_us: u64,
    /// Wall clock minus monotonic clock.
    pub(super) wall_ahead_us: u64,
    pub(super) times: Times,
    pub(super) redises: Vec<RedisEntry>,
    pub(super) tasks: Vec<TaskEntry>,
    /// Number of agents.
    pub(super) agents: usize,
    /// Number of worker processes, each with a candidate for every lock.
    pub(super) hosts: usize,
}

/// All times in milliseconds: the configuration of the agents, and the intervals of witness and
/// collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) interval: u64,
    pub(super) timeout: u64,
    pub(super) lease: u64,
    pub(super) grace: u64,
    pub(super) settle: u64,
    pub(super) wind_down: u64,
    pub(super) blind_after: u64,
    pub(super) stale_after: u64,
    /// Interval of the second witness on each server.
    pub(super) look: u64,
    /// Interval of the collector.
    pub(super) scrape: u64,
}

impl Times {
    /// Short times, so that an hour has hundreds of faults.
    pub(super) const COMPRESSED: Times = Times {
        interval: 500,
        timeout: 1_000,
        lease: 3_000,
        grace: 6_000,
        settle: 2_000,
        wind_down: 4_000,
        blind_after: 6_000,
        stale_after: 5_000,
        look: 20,
        scrape: 250,
    };
}

/// A Redis and its servers. With Sentinels they fail over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RedisEntry {
    pub(super) name: String,
    pub(super) servers: Vec<ServerEntry>,
    pub(super) sentinels: Vec<ServerEntry>,
}

/// A server or a Sentinel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerEntry {
    /// The name, unique in the run.
    pub(super) name: String,
    pub(super) address: SocketAddr,
    /// Its Unix socket, which no network fault affects.
    pub(super) socket: PathBuf,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskEntry {
    pub(super) name: String,
    /// Index of its Redis.
    pub(super) redis: usize,
    pub(super) library: Library,
    /// Whether its work writes progress and claims.
    pub(super) progress: bool,
    /// Whether two of its candidates are threads of the real Redisson client and of the last worker
    /// process, instead of one in each process.
    pub(super) redisson: bool,
}

/// The layout of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Library {
    Redisson,
    String,
}

impl TaskEntry {
    pub(super) fn lock(&self) -> String {
        format!("{}:lock", self.name)
    }

    pub(super) fn switches(&self) -> String {
        format!("{}:users", self.name)
    }

    pub(super) fn progress_key(&self) -> String {
        format!("{}:progress", self.name)
    }

    pub(super) fn claims(&self) -> String {
        format!("{}:claims", self.name)
    }
}

impl Header {
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(folder.join(FILE), text)
            .with_context(|| format!("cannot write into {}", folder.display()))
    }

    pub(super) fn read(folder: &Path) -> anyhow::Result<Header> {
        let file = folder.join(FILE);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is no run of a campaign", file.display()))
    }

    /// All servers that hold keys, with the index of their Redis.
    pub(super) fn servers(&self) -> impl Iterator<Item = (usize, &ServerEntry)> {
        let of =
            |(at, redis): (usize, &'_ RedisEntry)| -> Vec<usize> { vec![at; redis.servers.len()] };
        let indices = self.redises.iter().enumerate().flat_map(of);
        indices.zip(self.redises.iter().flat_map(|redis| &redis.servers))
    }

    /// The tasks of a Redis, with their indices.
    pub(super) fn tasks_of(&self, redis: usize) -> impl Iterator<Item = (usize, &TaskEntry)> {
        self.tasks.iter().enumerate().filter(move |(_, task)| task.redis == redis)
    }
}
