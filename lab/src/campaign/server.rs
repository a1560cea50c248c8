//! A redis-server or Sentinel of the campaign: with a Unix socket for the witness and the injector,
//! and a user for the agents.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::header::ServerEntry;
use super::resp::{Socket, Value};
use crate::stack::{Door, Process, Program, Signal};

/// The user that the agents log in as, and its password.
pub(super) const USER: &str = "lockwatch";
pub(super) const PASSWORD: &str = "campaign";
const DUMP: &str = "dump.rdb";
/// How long a question to the server itself may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A server that may be stopped, killed and started again on the same port.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) entry: ServerEntry,
    folder: PathBuf,
    process: Option<Process>,
    kind: Kind,
    /// To its machine, if that is another one than this.
    door: Option<Door>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Sentinel,
}

/// What is left of the data when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// All that was saved.
    WithDump,
    /// Nothing.
    Empty,
    /// All, but so slowly that it says `LOADING` for a while: so many microseconds for each key.
    Slowly(u64),
}

impl Server {
    /// A server that holds keys; `master` is the one that it follows.
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

    /// A Sentinel of three that watches the server there.
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

    /// Starts the process; it may still be loading when this returns.
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

    /// Asks it to end by SIGTERM; it writes what it has if it is told to save.
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

    /// Asks it by its Unix socket, which no fault of a network reaches.
    pub(super) async fn ask(&self, words: &[&str]) -> anyhow::Result<Value> {
        ask_at(&self.entry.socket, words).await
    }

    /// The same, where any refusal is an error.
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

/// Asks the server at this socket on a connection of its own.
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

/// Waits a moment between two looks at something.
pub(super) async fn breathe() {
    sleep(Duration::from_millis(50)).await;
}
