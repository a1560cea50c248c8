//! A redis-server or Sentinel of the campaign, with a Unix socket for the witness and the injector,
//! and an ACL user for the agents.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::header::ServerEntry;
use super::resp::{Socket, Value};
use crate::stack::{Door, Process, Program, Signal};

/// The user with which the agents log in, and its password.
pub(super) const USER: &str = "lockwatch";
pub(super) const PASSWORD: &str = "campaign";
const DUMP: &str = "dump.rdb";
/// Maximum wait for a reply of the server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A server that may be stopped, killed and restarted on the same port.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) entry: ServerEntry,
    folder: PathBuf,
    process: Option<Process>,
    kind: Kind,
    /// The namespace of its machine, if it does not run on this one.
    door: Option<Door>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Sentinel,
}

/// The data with which a server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// All that was saved.
    WithDump,
    /// Nothing.
    Empty,
    /// All data, loaded slowly so that it replies `LOADING`: microseconds for each key.
    Slowly(u64),
}

impl Server {
    /// A server that holds keys, as a replica of `master` if given.
    pub(super) fn data(
        folder: &Path,
        entry: &ServerEntry,
        door: Option<Door>,
        master: Option<SocketAddr>,
    ) -> anyhow::Result<Server> {
        let mut lines = vec![
            "save \"\"".to_owned(),
            "appendonly no".to_owned(),
            format!("dbfilename {DUMP}"),
            "enable-debug-command yes".to_owned(),
            "repl-diskless-sync-delay 0".to_owned(),
            "repl-ping-replica-period 1".to_owned(),
            "busy-reply-threshold 100".to_owned(),
            "loading-process-events-interval-bytes 1024".to_owned(),
            format!("user {USER} on >{PASSWORD} ~* &* +@all -@write -@admin +role"),
        ];
        lines.extend(master.map(|master| format!("replicaof {} {}", master.ip(), master.port())));
        Server::new(folder, entry, door, lines, Kind::Data)
    }

    /// One of three Sentinels that watch the server at this address.
    pub(super) fn sentinel(
        folder: &Path,
        entry: &ServerEntry,
        door: Option<Door>,
        master: SocketAddr,
    ) -> anyhow::Result<Server> {
        let name = super::master::MASTER;
        let lines = vec![
            format!("sentinel monitor {name} {} {} 2", master.ip(), master.port()),
            format!("sentinel down-after-milliseconds {name} 1500"),
            format!("sentinel failover-timeout {name} 4000"),
            format!("sentinel parallel-syncs {name} 3"),
        ];
        Server::new(folder, entry, door, lines, Kind::Sentinel)
    }

    fn new(
        folder: &Path,
        entry: &ServerEntry,
        door: Option<Door>,
        lines: Vec<String>,
        kind: Kind,
    ) -> anyhow::Result<Server> {
        let folder = folder.join(&entry.name);
        std::fs::create_dir_all(&folder)?;
        let mut text = format!(
            "port {}\nbind {}\nprotected-mode no\nunixsocket {}\ndaemonize no\ndir {}\n",
            entry.address.port(),
            entry.address.ip(),
            entry.socket.display(),
            folder.display()
        );
        lines.iter().for_each(|line| text.extend([line, "\n"]));
        std::fs::write(folder.join("redis.conf"), text)
            .context("cannot write a server's configuration")?;
        Ok(Server { entry: entry.clone(), folder, process: None, kind, door })
    }

    /// Starts the process, which may still be loading when this returns.
    pub(super) async fn start(&mut self, start: Start) -> anyhow::Result<()> {
        if start == Start::Empty {
            let _there_may_be_none = std::fs::remove_file(self.folder.join(DUMP));
        }
        let _from_before = std::fs::remove_file(&self.entry.socket);
        let program = Program::RedisServer.find()?;
        let mut command = match self.door {
            Some(door) => door.command(program)?,
            None => Command::new(program),
        };
        command.arg(self.folder.join("redis.conf"));
        if self.kind == Kind::Sentinel {
            command.arg("--sentinel");
        }
        if let Start::Slowly(micros) = start {
            command.args(["--key-load-delay", &micros.to_string()]);
        }
        let mut process = Process::start(command, self.folder.join("redis.log"))?;
        let socket = self.entry.socket.clone();
        let answers = async || ask_at(&socket, &["PING"]).await.is_ok();
        process.ready(answers).await.with_context(|| self.entry.name.clone())?;
        self.process = Some(process);
        Ok(())
    }

    pub(super) fn runs(&self) -> bool {
        self.process.is_some()
    }

    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Terminates it by SIGTERM; it saves its data if so configured.
    pub(super) async fn end(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.end().await,
            None => Ok(()),
        }
    }

    pub(super) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.as_ref().context("the server does not run")?.signal(signal).await
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// Sends a command over its Unix socket, which no network fault affects.
    pub(super) async fn ask(&self, words: &[&str]) -> anyhow::Result<Value> {
        ask_at(&self.entry.socket, words).await
    }

    /// Like [`Server::ask`], but an error reply is an error.
    pub(super) async fn tell(&self, words: &[&str]) -> anyhow::Result<Value> {
        match self.ask(words).await? {
            Value::Error(error) => {
                bail!("{} refuses {}: {error}", self.entry.name, words.join(" "))
            }
            value => Ok(value),
        }
    }

    /// One field of `INFO`.
    pub(super) async fn info(&self, field: &str) -> anyhow::Result<String> {
        let info = self.tell(&["INFO", "everything"]).await?;
        let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
        let value = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned());
        text.lines().find_map(value).with_context(|| format!("INFO has no {field}"))
    }
}

/// Sends a command to the server at this socket, on a new connection.
pub(super) async fn ask_at(socket: &Path, words: &[&str]) -> anyhow::Result<Value> {
    let (socket, words) =
        (socket.to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let asked = tokio::task::spawn_blocking(move || {
        let stream = std::os::unix::net::UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Socket::over(stream).ask(&words)
    });
    Ok(timeout(ANSWERS_WITHIN * 2, asked).await???)
}

/// A short pause between two checks of a condition.
pub(super) async fn breathe() {
    sleep(Duration::from_millis(50)).await;
}
