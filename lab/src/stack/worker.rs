//! A worker as a child process: contends for a lock under Redisson's protocol, writes claim and
//! progress, and misbehaves on command.

mod notes;
mod releases;
mod runner;
mod words;

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use super::process::{Signal, send_signal};
use super::program::Program;
pub use words::Lost;
use words::{News, Order};

pub use runner::{WorkerArgs, run};

/// Maximum time until a worker has obeyed an order.
const OBEY_WITHIN: Duration = Duration::from_secs(60);

/// The configuration of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSetup {
    /// Its Redis.
    pub redis: SocketAddr,
    /// The lock's key.
    pub lock: String,
    /// Lifetime of a hold, which is renewed every third of it.
    pub lease: Duration,
    /// The key of the hash for its progress (field `at`), if it writes any.
    pub progress: Option<String>,
    /// The key of the hash for its claim, if it writes any.
    pub claims: Option<String>,
    /// What the worker does when it learns that it lost the lock.
    pub after_loss: Lost,
}

/// A running worker. It does nothing until it is ordered to contend. Clones share the process,
/// which is killed when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Worker {
    child: Arc<Mutex<Child>>,
    stdin: Arc<Mutex<ChildStdin>>,
    news: watch::Receiver<Vec<(News, Instant)>>,
    /// Number of reports that were waited for already.
    heard: usize,
    lock: String,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(setup: &WorkerSetup) -> anyhow::Result<Worker> {
        let mut command = Command::new(Program::Lab.find()?);
        command.args(["worker", "--redis", &setup.redis.to_string(), "--lock", &setup.lock]);
        command.args(["--lease-ms", &setup.lease.as_millis().to_string()]);
        if let Some(hash) = &setup.progress {
            command.args(["--progress", hash]);
        }
        if let Some(hash) = &setup.claims {
            command.args(["--claims", hash]);
        }
        if setup.after_loss == Lost::WorkOn {
            command.arg("--work-on");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a worker")?;
        let stdin = child.stdin.take().context("a worker without standard input")?;
        let stdout = child.stdout.take().context("a worker without standard output")?;
        let (sender, news) = watch::channel(Vec::new());
        tokio::spawn(listen(stdout, sender));
        let (child, stdin) = (Arc::new(Mutex::new(child)), Arc::new(Mutex::new(stdin)));
        let mut worker = Worker { child, stdin, news, heard: 0, lock: setup.lock.clone() };
        worker.until(News::Up).await?;
        Ok(worker)
    }

    /// Makes it contend for the lock.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn contend(&mut self) -> anyhow::Result<()> {
        self.order(Order::Contend).await
    }

    /// Waits until it holds the lock; returns since when.
    ///
    /// # Errors
    /// When it does not get the lock within a minute.
    pub async fn holds(&mut self) -> anyhow::Result<Instant> {
        self.until(News::Holds).await
    }

    /// Waits until it knows that it lost the lock.
    ///
    /// # Errors
    /// When it does not within a minute.
    pub async fn loses(&mut self) -> anyhow::Result<Instant> {
        self.until(News::Lost).await
    }

    /// Makes it stop its work, release the lock if it holds it, and contend no more.
    ///
    /// # Errors
    /// When it does not.
    pub async fn release(&mut self) -> anyhow::Result<Instant> {
        self.order(Order::Release).await?;
        self.until(News::Released).await
    }

    /// Stops the progress of its work; lock and claim are still renewed.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn hang(&mut self) -> anyhow::Result<()> {
        self.order(Order::Hang).await
    }

    /// Resumes its work.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn work(&mut self) -> anyhow::Result<()> {
        self.order(Order::Work).await
    }

    /// Stops the renewals of the lock while everything else continues, like a dead watchdog.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn stop_renewing(&mut self) -> anyhow::Result<()> {
        self.order(Order::StopRenewing).await
    }

    /// Kills it, so that it releases nothing. Returns the instant of its death.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn crash(&mut self) -> anyhow::Result<Instant> {
        self.child
            .lock()
            .await
            .kill()
            .await
            .with_context(|| format!("cannot kill a worker of {}", self.lock))?;
        Ok(Instant::now())
    }

    /// Stops its process, as a long garbage collection does.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::Stop).await
    }

    /// Continues a frozen worker.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::Continue).await
    }

    async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        send_signal(self.child.lock().await.id().context("the worker has ended")?, signal).await
    }

    async fn order(&mut self, order: Order) -> anyhow::Result<()> {
        let line = format!("{}\n", order.name());
        let written = self.stdin.lock().await.write_all(line.as_bytes()).await;
        written.with_context(|| format!("a worker of {} has ended", self.lock))
    }

    /// The first report of this kind after the last one that was waited for, or the newest one if
    /// none came after it.
    async fn until(&mut self, wanted: News) -> anyhow::Result<Instant> {
        let heard = self.heard;
        let fits =
            |news: &Vec<(News, Instant)>| find(news, heard, wanted).is_some() || has_ended(news);
        let said = timeout(OBEY_WITHIN, self.news.wait_for(fits)).await;
        let found = {
            let news = said.with_context(|| {
                format!("a worker of {} does not say {wanted:?} in time", self.lock)
            })??;
            find(&news, heard, wanted)
        };
        let (at, instant) =
            found.with_context(|| format!("a worker of {} ended without {wanted:?}", self.lock))?;
        self.heard = at + 1;
        Ok(instant)
    }
}

fn find(news: &[(News, Instant)], heard: usize, wanted: News) -> Option<(usize, Instant)> {
    let is_new = |(at, _): &(usize, &(News, Instant))| *at >= heard || at + 1 == news.len();
    let fitting = news.iter().enumerate().filter(is_new).find(|(_, (said, _))| *said == wanted);
    fitting.map(|(at, (_, instant))| (at, *instant))
}

fn has_ended(news: &[(News, Instant)]) -> bool {
    news.last().is_some_and(|(said, _)| *said == News::Ended)
}

async fn listen(stdout: ChildStdout, sender: watch::Sender<Vec<(News, Instant)>>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(said) = News::ALL.into_iter().find(|news| news.name() == line) {
            sender.send_modify(|news| news.push((said, Instant::now())));
        }
    }
    sender.send_modify(|news| news.push((News::Ended, Instant::now())));
}
