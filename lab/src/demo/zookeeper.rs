//! The story of a lock in ZooKeeper: a private server, and clients that take it as Kazoo does.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use lockwatch::commands::demo::{Agent, Reach, Scratch, say, start_agent};

use super::narrator::{Narrator, STATE};
use crate::stack::{ZooKeeper, ZooKeeperClient};

pub(super) const TASK: &str = "nightly";
const FOLDER: &str = "/nightly";
/// How long a session lasts without a sign of life.
const SESSION: Duration = Duration::from_secs(4);
const HOLDER: &str = "lockwatch_lock_holder";
const WAITERS: &str = "lockwatch_lock_waiters";

/// The running parts. Fields are dropped in order, so a part comes before the parts that it uses.
pub(super) struct Scene {
    pub(super) agent: Agent,
    server: ZooKeeper,
    _directory: Scratch,
}

impl Scene {
    /// Starts the server, and the agent that watches it.
    ///
    /// # Errors
    /// When a part cannot be started; the parts already started are killed.
    pub(super) async fn set_up(program: &Path, reach: &Reach) -> anyhow::Result<Scene> {
        let directory = Scratch::new()?;
        let server = ZooKeeper::start().await?;
        let address = server.address();
        // Times are short, so that the story is quick to watch.
        let text = format!(
            "zookeeper:
  main: {{servers: [\"{address}\"], interval: 500ms, timeout: 2s}}
labels: [standby]
tasks:
  - name: {TASK}
    lock: {{path: {FOLDER}, library: kazoo}}
    wanted: always
    grace: 4s
    settle: 2s
    labels: {{standby: required}}
"
        );
        let config = directory.path().join("lockwatch.yml");
        std::fs::write(&config, &text)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let agent =
            start_agent(program, &config, reach, directory.path().join("agent.log")).await?;
        say("lockwatch demo: everything below runs on this machine and ends with the demo \
             (Ctrl-C).");
        say(&format!("  zookeeper {address}, private and empty"));
        say(&format!("  agent     {}", agent.url()));
        say("  its configuration:");
        text.lines().for_each(|line| say(&format!("    {line}")));
        Ok(Scene { agent, server, _directory: directory })
    }

    /// A client that queues for the lock as Kazoo's clients do, with its host as data.
    async fn contend(&self, host: &str, id: char) -> anyhow::Result<ZooKeeperClient> {
        let mut client = self.server.client(SESSION)?;
        let id: String = std::iter::repeat_n(id, 32).collect();
        let command = format!("create -s -e {FOLDER}/{id}__lock__ {host}");
        client.send(&format!("create {FOLDER}")).await?;
        say(&format!("            {host}> {command}"));
        client.send(&command).await?;
        Ok(client)
    }

    /// Stops everything.
    pub(super) async fn tear_down(self) {
        self.agent.stop().await;
        drop(self.server);
        say("Everything that was started has been stopped.");
    }
}

/// Plays it.
///
/// # Errors
/// When the agent does not report what the story expects.
pub(super) async fn play(scene: &Scene, narrator: &Narrator) -> anyhow::Result<()> {
    let held_by = async |host: &str| {
        let what = format!("{host} holds the lock");
        narrator
            .until(&what, 30, |page| page.line(HOLDER, &[("holder_host", host)]).is_some())
            .await
    };
    narrator.chapter("A job takes its lock");
    narrator.tell("It creates a node that ends with its session. The lowest number has the lock:");
    let first = scene.contend("server-a", 'a').await?;
    held_by("server-a").await?;
    narrator.expect("running", 10).await?;
    narrator.tell("The holder is the session; the host is what the job wrote into its node:");
    narrator.show(&[(STATE, &[]), (HOLDER, &[])]).await?;
    narrator.let_read(8).await;

    narrator.chapter("Another server waits");
    let second = scene.contend("server-b", 'b').await?;
    narrator.until("somebody waits", 30, |page| page.value(WAITERS, &[]) == Some(1.0)).await?;
    narrator.show(&[(WAITERS, &[])]).await?;
    narrator.let_read(8).await;

    narrator.chapter("The holder is killed");
    narrator.tell("Nothing deletes its node before its session has run out, after 3 to 5 s:");
    first.kill().await?;
    held_by("server-b").await?;
    narrator.tell("The node went with the session, and the next one in the queue has the lock:");
    narrator.show(&[(STATE, &[]), (HOLDER, &[]), (WAITERS, &[])]).await?;
    narrator.let_read(8).await;

    narrator.chapter("The last one leaves");
    narrator.tell("It ends its session in order, so its node is gone at once:");
    second.quit().await?;
    narrator.expect("pending", 5).await?;
    narrator.expect("down", 15).await?;
    narrator.show(&[(STATE, &[]), ("lockwatch_lock_held", &[])]).await?;
    narrator.let_read(8).await;

    narrator.chapter("It is started again");
    let third = scene.contend("server-a", 'c').await?;
    held_by("server-a").await?;
    narrator.expect("running", 10).await?;
    narrator.show(&[(STATE, &[]), ("lockwatch_task_handovers_total", &[])]).await?;
    narrator.tell("That was the story. docs/zookeeper.md says what is shown, and what is not.");
    third.quit().await
}
