//! A real `redis-server`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::process::Command;

use super::access::connect;
use super::machine::Door;
use super::port::free_address;
use super::process::{Process, Signal, until};
use super::program::Program;

/// Maximum wait for a reply.
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(5);
/// Maximum duration of the first replication.
const SYNC_WITHIN: Duration = Duration::from_secs(30);
const DUMP: &str = "dump.rdb";
const CONFIG: &str = "redis.conf";

/// A running or stopped server without password, append-only file or periodic saves; or a Sentinel.
#[derive(Debug)]
pub struct Redis {
    process: Option<Process>,
    address: SocketAddr,
    folder: TempDir,
    /// The namespace of its machine, if it does not run on this one.
    door: Option<Door>,
    is_sentinel: bool,
}

/// The data of a restarted server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All saved data.
    Kept,
    /// No data.
    Lost,
    /// All saved data, loaded slowly: microseconds for each key.
    Slow(u64),
}

impl Redis {
    /// Starts an empty server.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start() -> anyhow::Result<Redis> {
        Redis::start_with(free_address()?, None, false, &[]).await
    }

    /// Starts an empty server or a Sentinel with further lines of configuration.
    pub(crate) async fn start_with(
        address: SocketAddr,
        door: Option<Door>,
        is_sentinel: bool,
        lines: &[String],
    ) -> anyhow::Result<Redis> {
        let folder = TempDir::new()?;
        let mut text = format!(
            "bind {}\nport {}\nprotected-mode no\ndaemonize no\ndir {}\n",
            address.ip(),
            address.port(),
            folder.path().display()
        );
        if !is_sentinel {
            text += &format!("save \"\"\nappendonly no\ndbfilename {DUMP}\n");
        }
        text.extend(lines.iter().flat_map(|line| [line, "\n"]));
        std::fs::write(folder.path().join(CONFIG), text)?;
        let mut redis = Redis { process: None, address, folder, door, is_sentinel };
        redis.start_again(Data::Lost).await?;
        Ok(redis)
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; `None` if it does not run.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// A connection to its database 0.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn connect(&self) -> anyhow::Result<MultiplexedConnection> {
        Ok(connect(self.address, REPLY_WITHIN).await?)
    }

    /// Kills it. Its data is lost, unless [`Redis::save`] was called before.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Makes it a replica of `master` and waits for the first synchronisation; `None`: makes it a
    /// master.
    ///
    /// # Errors
    /// When that fails.
    pub async fn follow(&self, master: Option<&Redis>) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        let (host, port) = match master {
            Some(master) => (master.address.ip().to_string(), master.address.port().to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        redis::cmd("REPLICAOF")
            .arg(host)
            .arg(port)
            .exec_async(&mut connection)
            .await
            .context("cannot follow")?;
        let expected = if master.is_some() { "master_link_status:up" } else { "role:master" };
        until(SYNC_WITHIN, "replication is as it shall be", async || {
            let info: Result<String, _> =
                redis::cmd("INFO").arg("replication").query_async(&mut connection.clone()).await;
            info.is_ok_and(|info| info.contains(expected))
        })
        .await
    }

    /// Saves its data, for a restart with [`Data::Kept`].
    ///
    /// # Errors
    /// When that fails.
    pub async fn save(&self) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        redis::cmd("SAVE").exec_async(&mut connection).await.context("cannot save")
    }

    /// Starts it on the same port, with the saved data or with none.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_again(&mut self, data: Data) -> anyhow::Result<()> {
        if data == Data::Lost {
            let _there_may_be_none = std::fs::remove_file(self.folder.path().join(DUMP));
        }
        let program = Program::RedisServer.find()?;
        let mut command = match self.door {
            Some(door) => door.command(program)?,
            None => Command::new(program),
        };
        command.arg(self.folder.path().join(CONFIG));
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        if let Data::Slow(micros) = data {
            command.args(["--key-load-delay", &micros.to_string()]);
        }
        let mut process = Process::start(command, self.folder.path().join("redis.log"))?;
        let ours = process
            .id()
            .map(|id| format!("process_id:{id}\r\n"))
            .context("redis-server ended at once")?;
        let loads = matches!(data, Data::Slow(_));
        let is_ready = async || loads || answers(self.address, &ours).await;
        process.ready(is_ready).await.context("redis-server")?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub(crate) async fn end(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.end().await,
            None => Ok(()),
        }
    }

    /// Sends one command on a connection of its own; an error reply is an error.
    pub(crate) async fn command(&self, words: &[&str]) -> anyhow::Result<Value> {
        command_at(self.address, words).await
    }

    /// One field of `INFO`.
    pub(crate) async fn info(&self, field: &str) -> anyhow::Result<String> {
        let info: String = redis::cmd("INFO").query_async(&mut self.connect().await?).await?;
        let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
        info.lines().find_map(value).with_context(|| format!("INFO has no {field}"))
    }

    /// Kills it and starts it again at once.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self, data: Data) -> anyhow::Result<()> {
        if data == Data::Kept {
            self.save().await?;
        }
        self.kill().await?;
        self.start_again(data).await
    }

    /// Stops its process: connections stay open, but nothing is answered.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::Stop).await
    }

    /// Continues a frozen server.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::Continue).await
    }

    async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.as_ref().context("redis-server does not run")?.signal(signal).await
    }
}

/// Sends one command to the server at this address; an error reply is an error.
pub(crate) async fn command_at(address: SocketAddr, words: &[&str]) -> anyhow::Result<Value> {
    let (name, rest) = words.split_first().context("no command")?;
    let mut connection = connect(address, REPLY_WITHIN).await?;
    let answer = redis::cmd(name).arg(rest).query_async(&mut connection).await;
    answer.with_context(|| words.join(" "))
}

/// Whether this process, and not another one on the port, answers and has loaded its data.
async fn answers(address: SocketAddr, ours: &str) -> bool {
    let Ok(mut connection) = connect(address, REPLY_WITHIN).await else { return false };
    let info: Result<String, _> = redis::cmd("INFO").query_async(&mut connection).await;
    info.is_ok_and(|info| info.contains(ours) && !info.contains("loading:1\r\n"))
}
