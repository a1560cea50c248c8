//! The peer: redis_exporter, which reads Redis within each scrape.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::Command;

use super::http;
use super::port::free_address;
use super::process::Process;
use super::program::Program;

/// What it looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExporterSetup {
    /// Keys that match this pattern: their type, size and memory.
    Pattern(String),
    /// What this script returns.
    Script(PathBuf),
}

/// A running exporter.
#[derive(Debug)]
pub struct Exporter {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

impl Exporter {
    /// Starts one before `redis`. Whatever is not about keys and can be switched off is off.
    ///
    /// # Errors
    /// When there is none, or it does not come up.
    pub async fn start(redis: SocketAddr, setup: &ExporterSetup) -> anyhow::Result<Exporter> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let mut command = Command::new(Program::RedisExporter.find()?);
        command
            .arg(format!("-redis.addr=redis://{redis}"))
            .arg(format!("-web.listen-address={address}"));
        command.args([
            "-config-command=-",
            "-redis-only-metrics",
            "-exclude-latency-histogram-metrics",
            "-disable-exporting-key-values",
        ]);
        match setup {
            ExporterSetup::Pattern(pattern) => {
                command
                    .arg(format!("-check-keys=db0={pattern}"))
                    .arg("-check-keys-batch-size=10000");
            }
            ExporterSetup::Script(file) => {
                command.arg(format!("-script={}", file.display())).arg("-lua-script-read-only");
            }
        }
        let mut process = Process::start(command, folder.path().join("redis_exporter.log"))?;
        let is_ready =
            async || http::get(address, "/health").await.is_ok_and(|answer| answer.status == 200);
        process.ready(is_ready).await.context("redis_exporter")?;
        Ok(Exporter { process, address, _folder: folder })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; `None` when it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// What it says of its version.
    ///
    /// # Errors
    /// When there is none.
    pub async fn version() -> anyhow::Result<String> {
        let said = Command::new(Program::RedisExporter.find()?).arg("--version").output().await?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        );
        Ok(text.trim().to_owned())
    }

    /// A script that lies beside the pinned version.
    pub fn script(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/redis_exporter").join(name)
    }
}
