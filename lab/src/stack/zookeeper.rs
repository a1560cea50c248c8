//! A real ZooKeeper server, as Debian's package has it, and its own command line as a client.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::port::free_address;
use super::process::Process;

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// What writes the server's log, to standard output.
const LOGGING: &str = "/usr/share/java/slf4j-simple.jar";
/// A small process that starts fast.
const JVM_FLAGS: [&str; 5] =
    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx96m", "-XX:-UsePerfData"];
/// The unit of its times, in milliseconds: sessions last from two of them to twenty.
const TICK_MS: u32 = 500;
/// A server answers within this time, or does not serve.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// A running server, alone and empty.
#[derive(Debug)]
pub struct ZooKeeper {
    _process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

impl ZooKeeper {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not start, or is not installed; the error says how to install it.
    pub async fn start() -> anyhow::Result<ZooKeeper> {
        if !Path::new(JAR).is_file() {
            bail!("there is no {JAR}: install ZooKeeper, `apt-get install zookeeper`");
        }
        let (address, folder) = (free_address()?, TempDir::new()?);
        let text = format!(
            "tickTime={TICK_MS}\ndataDir={}\nclientPort={}\nclientPortAddress={}\n\
             admin.enableServer=false\n",
            folder.path().display(),
            address.port(),
            address.ip()
        );
        std::fs::write(folder.path().join("zoo.cfg"), text)?;
        let mut command = java("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        command.arg(folder.path().join("zoo.cfg"));
        let mut process = Process::start(command, folder.path().join("log"))?;
        process.ready(async || serves(address).await).await.context("zookeeper")?;
        Ok(ZooKeeper { _process: process, address, _folder: folder })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When the client does not start.
    pub fn client(&self, session: Duration) -> anyhow::Result<ZooKeeperClient> {
        let mut command = java("org.apache.zookeeper.ZooKeeperMain");
        command.args(["-server", &self.address.to_string()]);
        command.args(["-timeout", &session.as_millis().to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start ZooKeeper's command line")?;
        let stdin = child.stdin.take().context("a client without standard input")?;
        Ok(ZooKeeperClient { child, stdin })
    }
}

fn java(class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(JVM_FLAGS).args(["-cp", &format!("{JAR}:{LOGGING}"), class]);
    command
}

async fn serves(address: SocketAddr) -> bool {
    let said = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"srvr").await?;
        let mut said = String::new();
        stream.read_to_string(&mut said).await?;
        std::io::Result::Ok(said)
    };
    matches!(timeout(ANSWER_WITHIN, said).await, Ok(Ok(said)) if said.contains("Mode: "))
}

/// ZooKeeper's own command line with a session.
#[derive(Debug)]
pub struct ZooKeeperClient {
    child: Child,
    stdin: ChildStdin,
}

impl ZooKeeperClient {
    /// Sends a command, and does not wait for it.
    ///
    /// # Errors
    /// When the client has ended.
    pub async fn send(&mut self, command: &str) -> anyhow::Result<()> {
        let line = format!("{command}\n");
        self.stdin.write_all(line.as_bytes()).await.context("ZooKeeper's client has ended")
    }

    /// Kills it as a crash does: its session runs out.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a client")
    }

    /// Ends it, and its session, in order.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn quit(mut self) -> anyhow::Result<()> {
        self.send("quit").await?;
        self.child.wait().await.context("a client does not end")?;
        Ok(())
    }
}
