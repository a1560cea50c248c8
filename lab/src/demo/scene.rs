//! The demo of another kind of task than a lock: a private Redis and the agent. The demo itself plays
//! the workers, by the commands that they would send.

use std::path::Path;

use anyhow::Context;
use redis::aio::MultiplexedConnection;

use lockwatch::commands::demo::{Agent, PrivateRedis, Reach, Scratch, say, start_agent};

/// The running parts. Fields are dropped in order, so a part comes before the parts that it uses.
pub(super) struct Scene {
    data: MultiplexedConnection,
    pub(super) agent: Agent,
    redis: PrivateRedis,
    _directory: Scratch,
}

impl Scene {
    /// Starts Redis, and the agent with this `task`, a block of the list `tasks`.
    ///
    /// # Errors
    /// When a part cannot be started; the parts already started are killed.
    pub(super) async fn set_up(
        program: &Path,
        redis_server: Option<&Path>,
        reach: &Reach,
        task: &str,
    ) -> anyhow::Result<Scene> {
        let directory = Scratch::new()?;
        let redis = PrivateRedis::start(redis_server).await?;
        let address = redis.address();
        let text = format!(
            "redis:\n  main: {{url: \"redis://{address}/0\", interval: 500ms, timeout: 2s}}\n\
             tasks:\n{task}"
        );
        let config = directory.path().join("lockwatch.yml");
        std::fs::write(&config, &text)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let data = redis.connect().await.context("cannot connect to the demo's Redis")?;
        let agent =
            start_agent(program, &config, reach, directory.path().join("agent.log")).await?;
        say("lockwatch demo: everything below runs on this machine and ends with the demo \
             (Ctrl-C).");
        say(&format!("  redis     {address}, private and empty"));
        say(&format!("  agent     {}", agent.url()));
        say("  its configuration:");
        text.lines().for_each(|line| say(&format!("    {line}")));
        Ok(Scene { data, agent, redis, _directory: directory })
    }

    /// Sends a command as a worker would, and prints it.
    ///
    /// # Errors
    /// When the server refuses it, or cannot be reached.
    pub(super) async fn send(&mut self, words: &[&str]) -> anyhow::Result<()> {
        say(&format!("            > {}", words.join(" ")));
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        let _reply: redis::Value = command.query_async(&mut self.data).await?;
        Ok(())
    }

    /// The server's clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(super) async fn now_ms(&mut self) -> anyhow::Result<u64> {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut self.data).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    /// Stops everything.
    pub(super) async fn tear_down(self) {
        self.agent.stop().await;
        self.redis.stop().await;
        say("Everything that was started has been stopped.");
    }
}
