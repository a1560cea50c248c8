//! redis_exporter, the peer in the benchmarks, which reads Redis during each scrape.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::Command;

use super::http;
use super::port::free_address;
use super::process::Process;
use super::program::Program;

/// What the exporter reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExporterSetup {
    /// Type, size and memory of the keys that match this pattern.
    Pattern(String),
    /// The values that this script returns.
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
    /// Starts an exporter for `redis`. Collectors that do not concern keys are turned off if
    /// possible.
    ///
    /// # Errors
    /// When it is not installed, or does not start.
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

    /// The address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; `None` when it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The version that it reports.
    ///
    /// # Errors
    /// When it is not installed.
    pub async fn version() -> anyhow::Result<String> {
        let said = Command::new(Program::RedisExporter.find()?).arg("--version").output().await?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        );
        Ok(text.trim().to_owned())
    }

    /// The path of a script that comes with the pinned version.
    pub fn script(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/redis_exporter").join(name)
    }
}
