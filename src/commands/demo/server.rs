//! A private `redis-server`: a free port on 127.0.0.1, its own directory, and no persistence.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::scratch::Scratch;

/// Maximum time until the server answers.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of ports to try, because another process may take a free port first.
const TRIES: u32 = 5;
/// Maximum wait for a reply; generous, for a busy machine.
const REPLY_WITHIN: Duration = Duration::from_secs(5);

/// A running `redis-server`; killed when dropped.
#[derive(Debug)]
pub struct PrivateRedis {
    child: Child,
    address: SocketAddr,
    /// Last, so that the directory is removed after the server has ended.
    _directory: Scratch,
}

impl PrivateRedis {
    /// Starts `program`, by default the `redis-server` on `PATH`, and waits until it answers.
    ///
    /// # Errors
    /// When there is no `redis-server` (the error says what to do), or it does not start (the error
    /// ends with the end of its log).
    pub async fn start(program: Option<&Path>) -> anyhow::Result<PrivateRedis> {
        let program = program.map_or_else(|| PathBuf::from("redis-server"), Path::to_path_buf);
        let mut failure = None;
        for _ in 0..TRIES {
            match try_start(&program).await? {
                Ok(redis) => return Ok(redis),
                Err(Died { log }) => failure = Some(log),
            }
        }
        bail!(
            "{} ended at once; the end of its log: {}",
            program.display(),
            failure.unwrap_or_default()
        )
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection to database 0.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        connect(self.address).await
    }

    /// Waits until the server ends by itself.
    pub async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Stops it.
    pub async fn stop(mut self) {
        // The server has nothing to save.
        let _ = self.child.kill().await;
    }
}

/// A connection to database 0 of a server without password.
pub(super) async fn connect(address: SocketAddr) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REPLY_WITHIN))
        .set_response_timeout(Some(REPLY_WITHIN));
    let client = Client::open(format!("redis://{address}/0"))?;
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// The server ended during start-up, perhaps because another process took its port.
struct Died {
    log: String,
}

async fn try_start(program: &Path) -> anyhow::Result<Result<PrivateRedis, Died>> {
    let directory = Scratch::new()?;
    let address = free_address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let log = directory.path().join("redis.log");
    let child = Command::new(program)
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--port")
        .arg(address.port().to_string())
        .arg("--dir")
        .arg(directory.path())
        .arg("--logfile")
        .arg(&log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its own process group, so that Ctrl-C reaches only the demo, which then stops its parts
        // in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no {}: install it (Debian, Ubuntu: apt-get install redis-server), or name \
             one with --redis-server",
            program.display()
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot start {}", program.display()));
        }
    };
    let mut redis = PrivateRedis { child, address, _directory: directory };
    let give_up = Instant::now() + START_WITHIN;
    loop {
        if redis.child.try_wait()?.is_some() {
            return Ok(Err(Died { log: end_of(&log) }));
        }
        if redis.answers().await {
            return Ok(Ok(redis));
        }
        if Instant::now() > give_up {
            bail!(
                "{} does not answer on {address}; the end of its log: {}",
                program.display(),
                end_of(&log)
            );
        }
        sleep(Duration::from_millis(20)).await;
    }
}

impl PrivateRedis {
    /// Whether this process answers, and not another one that took the port first.
    async fn answers(&self) -> bool {
        let Ok(mut connection) = self.connect().await else { return false };
        let info: Result<String, _> =
            redis::cmd("INFO").arg("server").query_async(&mut connection).await;
        let ours = self.child.id().map(|id| format!("process_id:{id}\r\n"));
        matches!((info, ours), (Ok(info), Some(ours)) if info.contains(&ours))
    }
}

/// An address on which no process listens at the moment, with the port of `wanted` unless that is
/// 0.
pub(super) fn free_address(wanted: SocketAddr) -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind(wanted).with_context(|| format!("cannot listen on {wanted}"))?;
    Ok(listener.local_addr()?)
}

/// The last lines of a log file, for an error message.
pub(super) fn end_of(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default();
    if last.is_empty() { "(empty)".to_owned() } else { last.join("\n") }
}
