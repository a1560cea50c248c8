//! The real agent: the program `lockwatch` with a configuration file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use lockwatch::http::client;
use tempfile::TempDir;
use tokio::process::Command;

use super::http::{self, Response};
use super::port::free_address;
use super::process::{Footprint, Process, Signal, cpu_time, footprint};
use super::program::Program;
use super::web_file::{READY_MAX, WebFile};

/// Limit of open files for an agent: the default of Linux.
const OPEN_FILES: u32 = 1024;

/// A running or stopped agent.
#[derive(Debug)]
pub struct Agent {
    process: Option<Process>,
    address: SocketAddr,
    folder: TempDir,
    /// Additional command line arguments.
    arguments: Vec<String>,
    web_file: Option<WebFile>,
}

impl Agent {
    /// Starts an agent and waits until it has tried to reach every Redis.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start(config: &str) -> anyhow::Result<Agent> {
        Agent::start_with(config, &[]).await
    }

    /// Like [`Agent::start`], with additional command line arguments.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start_with(config: &str, arguments: &[&str]) -> anyhow::Result<Agent> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Agent::start_as(config, arguments, None).await
    }

    /// Like [`Agent::start`], behind a web file. Then [`Agent::metrics`] and [`Agent::reload`] are
    /// refused, because they do not log in.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start_behind(web_file: WebFile, config: &str) -> anyhow::Result<Agent> {
        let arguments = vec!["--web.config.file".to_owned(), web_file.path().display().to_string()];
        Agent::start_as(config, arguments, Some(web_file)).await
    }

    async fn start_as(
        config: &str,
        arguments: Vec<String>,
        web_file: Option<WebFile>,
    ) -> anyhow::Result<Agent> {
        let (address, folder) = (free_address()?, TempDir::new()?);
        let mut agent = Agent { process: None, address, folder, arguments, web_file };
        agent.configure(config)?;
        agent.start_again().await?;
        Ok(agent)
    }

    /// The address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, which begins with a slash, with this user's login in it if there is a
    /// web file.
    pub fn url_for(&self, user: &str, path: &str) -> String {
        match &self.web_file {
            Some(web_file) => web_file.url_for(user, self.address, path),
            None => format!("http://{}{path}", self.address),
        }
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("lockwatch.yml")
    }

    /// Its URL, without any login.
    pub fn url(&self) -> String {
        match &self.web_file {
            Some(web_file) => web_file.url(&self.address.to_string()),
            None => format!("http://{}", self.address),
        }
    }

    /// The certificate of its authority, and a file with a login, if it has a web file with both.
    pub fn login_files(&self) -> Option<[PathBuf; 2]> {
        self.web_file.as_ref().and_then(WebFile::login_files)
    }

    /// Its log file.
    pub fn log_file(&self) -> PathBuf {
        self.folder.path().join("lockwatch.log")
    }

    /// The current exposition.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        http::get(self.address, "/metrics").await?.ok()
    }

    /// Writes the configuration file; it takes effect with a reload or a restart.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, config: &str) -> anyhow::Result<()> {
        std::fs::write(self.config_file(), config).context("cannot write the agent's configuration")
    }

    /// Sends `POST /-/reload`; the response lists errors in the configuration.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn reload(&self) -> anyhow::Result<Response> {
        http::post(self.address, "/-/reload", "text/plain", "").await
    }

    /// Sends it a signal: [`Signal::Stop`] freezes it.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.as_ref().context("the agent does not run")?.signal(signal).await
    }

    /// The process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::id)
    }

    /// Its CPU time since it was started.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let id = self.process.as_ref().and_then(Process::id).context("the agent does not run")?;
        cpu_time(id).context("the agent has ended")
    }

    /// Its current memory and open files.
    ///
    /// # Errors
    /// When it does not run.
    pub fn footprint(&self) -> anyhow::Result<Footprint> {
        let id = self.process.as_ref().and_then(Process::id).context("the agent does not run")?;
        footprint(id).context("the agent has ended")
    }

    /// Kills it.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts it on the same address with the configuration as written.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        // With the default limit of open files, whatever the lab's own limit is.
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!(r#"ulimit -n {OPEN_FILES}; exec "$0" "$@""#)])
            .arg(Program::Lockwatch.find()?);
        command.arg("--config.file").arg(self.config_file());
        command
            .args(["--web.listen-address", &self.address.to_string(), "--web.enable-lifecycle"])
            .args(&self.arguments);
        let mut process = Process::start(command, self.log_file())?;
        let way = match &self.web_file {
            Some(web_file) => web_file.way_to(self.address),
            None => client::Server {
                url: format!("http://{}", self.address),
                body_max: READY_MAX,
                ..client::Server::default()
            },
        };
        let is_ready = async || {
            way.get("/-/ready", client::PATIENCE).await.is_ok_and(|answer| answer.status == 200)
        };
        process.ready(is_ready).await.context("lockwatch")?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills it and starts it again.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        self.start_again().await
    }
}
