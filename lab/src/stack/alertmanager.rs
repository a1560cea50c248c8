//! A real Alertmanager, alone or in a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::http;
use super::port::free_address;
use super::process::Process;
use super::program::Program;

/// How soon a cluster is ready, and how long its second member waits for the first to notify:
/// shorter than by default.
const IN_A_CLUSTER: [&str; 4] = ["--cluster.settle-timeout", "1s", "--cluster.peer-timeout", "3s"];

/// A running or stopped Alertmanager.
#[derive(Debug)]
pub struct Alertmanager {
    process: Option<Process>,
    address: SocketAddr,
    folder: TempDir,
    /// What makes it a member of a cluster, or keeps it out of any.
    membership: Vec<String>,
}

impl Alertmanager {
    /// Starts it with this configuration.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start(config: &str) -> anyhow::Result<Alertmanager> {
        Alertmanager::start_as(config, ["--cluster.listen-address", ""].map(str::to_owned).to_vec())
            .await
    }

    /// Starts two of one cluster.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start_pair(config: &str) -> anyhow::Result<[Alertmanager; 2]> {
        let members = [free_address()?, free_address()?].map(|address| address.to_string());
        let [first, second] = [0, 1].map(|own: usize| {
            let mut arguments = IN_A_CLUSTER.map(str::to_owned).to_vec();
            for (index, member) in members.iter().enumerate() {
                let flag = if index == own { "--cluster.listen-address" } else { "--cluster.peer" };
                arguments.extend([flag.to_owned(), member.clone()]);
            }
            Alertmanager::start_as(config, arguments)
        });
        let (first, second) = tokio::try_join!(first, second)?;
        Ok([first, second])
    }

    async fn start_as(config: &str, membership: Vec<String>) -> anyhow::Result<Alertmanager> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let mut alertmanager = Alertmanager { process: None, address, folder, membership };
        std::fs::write(alertmanager.config_file(), config)
            .context("cannot write Alertmanager's configuration")?;
        alertmanager.start_again().await?;
        Ok(alertmanager)
    }

    /// The address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("alertmanager.yml")
    }

    /// The alerts that it knows, as in `/api/v2/alerts`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn alerts(&self) -> anyhow::Result<Vec<Value>> {
        let answer = http::get(self.address, "/api/v2/alerts").await?.json()?;
        answer.as_array().cloned().context("no list of alerts")
    }

    /// Posts alerts, as Prometheus does: a list of `{labels, annotations, startsAt, endsAt}`.
    ///
    /// # Errors
    /// When it refuses them.
    pub async fn push(&self, alerts: &Value) -> anyhow::Result<()> {
        http::post(self.address, "/api/v2/alerts", "application/json", &alerts.to_string())
            .await?
            .ok()?;
        Ok(())
    }

    /// Stops it by SIGTERM, as a deployment does.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.end().await,
            None => Ok(()),
        }
    }

    /// Kills it, as in a crash.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts it with its previous data.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(Program::Alertmanager.find()?);
        command
            .arg("--config.file")
            .arg(self.config_file())
            .arg("--storage.path")
            .arg(self.folder.path().join("data"));
        command.args(["--web.listen-address", &self.address.to_string()]).args(&self.membership);
        let mut process = Process::start(command, self.folder.path().join("alertmanager.log"))?;
        let address = self.address;
        let is_ready =
            async || http::get(address, "/-/ready").await.is_ok_and(|answer| answer.status == 200);
        process.ready(is_ready).await.context("alertmanager")?;
        self.process = Some(process);
        Ok(())
    }
}
