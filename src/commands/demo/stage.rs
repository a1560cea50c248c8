//! Starts all parts of the demo, and stops them in order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::agent::{Agent, configuration, start_agent};
use super::board::{Board, EVERYBODY, Position};
use super::names::{USERS, say};
use super::process::WorkerProcess;
use super::scratch::Scratch;
use super::server::PrivateRedis;
use super::web::Reach;

/// The workers, and the simulated servers on which they run.
const WORKERS: [(&str, &str); 2] = [("worker-a", "server-a"), ("worker-b", "server-b")];

/// The lifetime of a hold without renewal: short, so that the demo is quick to watch.
pub const LEASE: Duration = Duration::from_secs(9);

/// The running parts. Fields are dropped in order, so a part comes before the parts that it uses.
pub struct Stage {
    program: PathBuf,
    /// The switches, and who holds the lock.
    pub board: Board,
    pub(super) workers: Vec<WorkerProcess>,
    /// The agent.
    pub agent: Agent,
    pub(super) redis: PrivateRedis,
    config: PathBuf,
    /// Whether users may flip their switch on the page.
    pub(super) on_page: bool,
    _directory: Scratch,
}

impl Stage {
    /// Starts Redis, the agent and the workers, with all switches off. `program` is the path of
    /// this program, for the child processes.
    ///
    /// # Errors
    /// When a part cannot be started; the parts already started are killed.
    pub async fn set_up(
        program: PathBuf,
        redis_server: Option<&Path>,
        reach: &Reach,
    ) -> anyhow::Result<Stage> {
        let directory = Scratch::new()?;
        let redis = PrivateRedis::start(redis_server).await?;
        let config = directory.path().join("lockwatch.yml");
        std::fs::write(&config, configuration(redis.address(), LEASE, reach.has_logins))
            .with_context(|| format!("cannot write {}", config.display()))?;
        let mut board = Board::connect(&redis).await?;
        for user in EVERYBODY {
            board.switch(user, Position::Off).await?;
        }
        let agent =
            start_agent(&program, &config, reach, directory.path().join("agent.log")).await?;
        let mut workers = Vec::new();
        for worker in WORKERS {
            workers.push(WorkerProcess::start(&program, redis.address(), worker, &config)?);
        }
        let on_page = reach.has_logins;
        Ok(Stage { program, board, workers, agent, redis, config, on_page, _directory: directory })
    }

    /// Prints the addresses of the parts.
    pub fn introduce(&self) {
        let redis = self.redis.address();
        say("lockwatch demo: everything below runs on this machine and ends with the demo \
            (Ctrl-C).");
        say(&format!("  redis     {redis}, private and empty: redis-cli -p {} …", redis.port()));
        for (worker, (_, host)) in self.workers.iter().zip(WORKERS) {
            let id = worker.id().map_or_else(|| "ended".to_owned(), |id| format!("process {id}"));
            say(&format!("  {}  {id}, pretends to run on {host}", worker.name()));
        }
        say(&format!("  users     {}: their switches are the hash {USERS}", EVERYBODY.join(", ")));
        say(&format!("  agent     {}", self.agent.url()));
        say(&format!("  its log   {}", self.agent.log().display()));
        say(&format!("  its configuration, {}:", self.config.display()));
        for line in configuration(redis, LEASE, self.on_page).lines() {
            say(&format!("    {line}"));
        }
    }

    /// The worker that runs on `host`.
    ///
    /// # Errors
    /// When there is none.
    pub fn worker_on(&mut self, host: &str) -> anyhow::Result<&mut WorkerProcess> {
        let position = WORKERS.iter().position(|(_, pretended)| *pretended == host);
        match position.and_then(|position| self.workers.get_mut(position)) {
            Some(worker) => Ok(worker),
            None => bail!("no worker runs on {host}"),
        }
    }

    /// Restarts every worker that has ended. Each gets a new instance id, as after a real restart.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn restart_ended(&mut self) -> anyhow::Result<()> {
        for (worker, of) in self.workers.iter_mut().zip(WORKERS) {
            if worker.has_ended() {
                *worker =
                    WorkerProcess::start(&self.program, self.redis.address(), of, &self.config)?;
            }
        }
        Ok(())
    }

    /// Stops everything.
    pub async fn tear_down(mut self) {
        // All at once, so that no worker takes over from another.
        self.workers.iter_mut().for_each(WorkerProcess::tell_to_stop);
        for worker in self.workers {
            worker.stop().await;
        }
        self.agent.stop().await;
        self.redis.stop().await;
        say("Everything that was started has been stopped.");
    }
}
