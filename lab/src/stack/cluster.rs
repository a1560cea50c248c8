//! A real cluster: three masters, each with a replica.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::process::Command;

use super::port::free_address;
use super::process::{Process, until};
use super::program::Program;

const MASTERS: usize = 3;
/// Offset of the cluster bus port from the client port.
const BUS: u16 = 10_000;
const AGREED_WITHIN: Duration = Duration::from_secs(60);

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<(SocketAddr, Process)>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts six nodes and waits until they agree on the layout.
    ///
    /// # Errors
    /// When they do not start or do not agree.
    pub async fn start() -> anyhow::Result<Cluster> {
        let folder = TempDir::new()?;
        let mut nodes = Vec::new();
        for _ in 0..2 * MASTERS {
            let address = free_with_bus()?;
            let mut command = Command::new(Program::RedisServer.find()?);
            command.args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
            ]);
            command.arg(format!("nodes-{}.conf", address.port()));
            command.args(["--port", &address.port().to_string(), "--dir"]).arg(folder.path());
            nodes.push((address, Process::start(command, folder.path().join("redis.log"))?));
        }
        let cluster = Cluster { nodes, _folder: folder };
        for address in cluster.addresses() {
            until(AGREED_WITHIN, "a node listens", async || cli(address, &["ping"]).await.is_ok())
                .await?;
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"]);
        let created =
            create.args(cluster.addresses().map(|address| address.to_string())).output().await?;
        if !created.status.success() {
            bail!("cannot make a cluster: {}", String::from_utf8_lossy(&created.stdout));
        }
        for address in cluster.addresses() {
            until(AGREED_WITHIN, "the nodes agree", async || {
                cli(address, &["cluster", "info"])
                    .await
                    .is_ok_and(|info| info.contains("cluster_state:ok"))
            })
            .await?;
            until(AGREED_WITHIN, "replicas follow", async || {
                let info = cli(address, &["info", "replication"]).await.unwrap_or_default();
                info.contains("role:master") || info.contains("master_link_status:up")
            })
            .await?;
        }
        Ok(cluster)
    }

    /// All nodes; the first three are the masters, with ascending slots.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.nodes.iter().map(|(address, _)| *address)
    }

    /// The masters.
    pub fn masters(&self) -> Vec<SocketAddr> {
        self.addresses().take(MASTERS).collect()
    }

    /// The process ids of all nodes.
    pub fn ids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|(_, process)| process.id()).collect()
    }
}

async fn cli(address: SocketAddr, words: &[&str]) -> anyhow::Result<String> {
    let port = address.port().to_string();
    let said = Command::new("redis-cli")
        .args(["-p", &port])
        .args(words)
        .output()
        .await
        .context("redis-cli")?;
    if !said.status.success() {
        bail!("redis-cli: {}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

fn free_with_bus() -> anyhow::Result<SocketAddr> {
    for _ in 0..100 {
        let address = free_address()?;
        let Some(bus) = address.port().checked_add(BUS) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok() {
            return Ok(address);
        }
    }
    bail!("found no free pair of ports")
}
