//! A worker as a child process: contends for a lock under Redisson's protocol, writes claim and
//! progress, and misbehaves on command.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use lockwatch::hold::{Access, Acquired, Attempt, Holder, Lock, Waiter, Watchdog};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use super::process::{Signal, send_signal};
use super::program::Program;
use super::redis::access;

/// Maximum time until a worker has obeyed an order.
const OBEY_WITHIN: Duration = Duration::from_secs(60);
/// Pause between two attempts to take a busy lock, or to reach Redis.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// How often progress is written.
const WORK_EVERY: Duration = Duration::from_millis(500);
/// How often the claim is written.
const CLAIM_EVERY: Duration = Duration::from_secs(1);
const THREAD: i64 = 1;

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

/// What a worker does when it learns that it lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Stops its work and contends again.
    GiveUp,
    /// Continues to work, as programs do that never check.
    WorkOn,
}

/// A running worker. It does nothing until it is told to contend. Clones share the process, which
/// is killed when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Worker {
    child: Arc<Mutex<Child>>,
    stdin: Arc<Mutex<ChildStdin>>,
    news: watch::Receiver<Vec<(News, Instant)>>,
    /// Number of reports that were waited for already.
    heard: usize,
    lock: String,
}

/// A report of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Up,
    Holds,
    Lost,
    Released,
    Ended,
}

impl News {
    const ALL: [News; 5] = [News::Up, News::Holds, News::Lost, News::Released, News::Ended];

    fn word(self) -> &'static str {
        match self {
            News::Up => "up",
            News::Holds => "holds",
            News::Lost => "lost",
            News::Released => "released",
            News::Ended => "ended",
        }
    }
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
        let (tell, news) = watch::channel(Vec::new());
        tokio::spawn(listen(stdout, tell));
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
        self.tell(Order::Contend).await
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
        self.tell(Order::Release).await?;
        self.until(News::Released).await
    }

    /// Stops the progress of its work; lock and claim are still renewed.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn hang(&mut self) -> anyhow::Result<()> {
        self.tell(Order::Hang).await
    }

    /// Resumes its work.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn work(&mut self) -> anyhow::Result<()> {
        self.tell(Order::Work).await
    }

    /// Stops the renewals of the lock while everything else continues, like a dead watchdog.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn stop_renewing(&mut self) -> anyhow::Result<()> {
        self.tell(Order::StopRenewing).await
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

    async fn tell(&mut self, order: Order) -> anyhow::Result<()> {
        let line = format!("{}\n", order.word());
        let told = self.stdin.lock().await.write_all(line.as_bytes()).await;
        told.with_context(|| format!("a worker of {} has ended", self.lock))
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

async fn listen(stdout: ChildStdout, tell: watch::Sender<Vec<(News, Instant)>>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(said) = News::ALL.into_iter().find(|news| news.word() == line) {
            tell.send_modify(|news| news.push((said, Instant::now())));
        }
    }
    tell.send_modify(|news| news.push((News::Ended, Instant::now())));
}

/// An order on the worker's standard input, one word per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Contend,
    Release,
    Hang,
    Work,
    StopRenewing,
}

impl Order {
    const ALL: [Order; 5] =
        [Order::Contend, Order::Release, Order::Hang, Order::Work, Order::StopRenewing];

    fn word(self) -> &'static str {
        match self {
            Order::Contend => "contend",
            Order::Release => "release",
            Order::Hang => "hang",
            Order::Work => "work",
            Order::StopRenewing => "stop-renewing",
        }
    }
}

/// What the command `worker` takes; the lab starts it.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    #[arg(long)]
    redis: SocketAddr,
    #[arg(long)]
    lock: String,
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    progress: Option<String>,
    #[arg(long)]
    claims: Option<String>,
    #[arg(long)]
    work_on: bool,
}

/// Runs a worker until its standard input closes.
///
/// # Errors
/// When its arguments are invalid.
pub async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let access = access(args.redis)?;
    let holder = Holder::new(&Holder::new_instance(), THREAD);
    let lease = Duration::from_millis(args.lease_ms);
    let mut runner = Runner {
        lock: Lock::new(access.clone(), args.lock.as_bytes(), holder.clone(), lease),
        notes: Notes {
            access,
            connection: None,
            instance: holder.instance().to_owned(),
            claims: args.claims,
            progress: args.progress,
        },
        orders: orders(),
        hangs: Arc::default(),
        after_loss: if args.work_on { Lost::WorkOn } else { Lost::GiveUp },
    };
    say(News::Up);
    while let Some(order) = runner.orders.recv().await {
        match order {
            Order::Contend => runner.contend().await?,
            Order::Release => say(News::Released),
            other => runner.note(Some(other)),
        }
    }
    Ok(())
}

struct Runner {
    lock: Lock,
    notes: Notes,
    orders: mpsc::UnboundedReceiver<Order>,
    hangs: Arc<AtomicBool>,
    after_loss: Lost,
}

/// Why a hold ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Lost,
    Told,
}

impl Runner {
    /// Contends until it is told to release, or its orders end.
    async fn contend(&mut self) -> anyhow::Result<()> {
        let mut waiter = None;
        loop {
            match self.lock.acquire().await {
                Ok(Attempt::Acquired(acquired)) => {
                    waiter = None;
                    say(News::Holds);
                    if self.hold(acquired).await == Ended::Told {
                        return Ok(());
                    }
                    say(News::Lost);
                    continue;
                }
                // Subscribed, so that the lock has a visible waiter.
                Ok(Attempt::Busy { .. }) if waiter.is_none() => {
                    waiter = self.lock.waiter().await.ok()
                }
                Ok(Attempt::Busy { .. }) => {}
                // Redis cannot be reached at present.
                Err(_) => waiter = None,
            }
            if self.told_to_release(&mut waiter).await {
                say(News::Released);
                return Ok(());
            }
        }
    }

    async fn hold(&mut self, acquired: Acquired) -> Ended {
        let work = tokio::spawn(self.notes.clone().write(Arc::clone(&self.hangs)));
        let mut watchdog = Some(Watchdog::start(self.lock.clone(), acquired));
        let ended = loop {
            tokio::select! {
                () = lost(&mut watchdog) => match self.after_loss {
                    Lost::GiveUp => break Ended::Lost,
                    Lost::WorkOn => { say(News::Lost); watchdog = None; }
                },
                order = self.orders.recv() => match order {
                    Some(Order::StopRenewing) => watchdog = None,
                    Some(Order::Release) | None => break Ended::Told,
                    other => self.note(other),
                },
            }
        };
        stop(work).await;
        if let Some(watchdog) = watchdog {
            watchdog.stop().await;
        }
        self.notes.withdraw().await;
        if ended == Ended::Told {
            // If Redis cannot be reached, the lease runs out.
            let _released = self.lock.release().await;
            say(News::Released);
        }
        ended
    }

    /// Handles the orders about the work, which are valid at any time.
    fn note(&self, order: Option<Order>) {
        match order {
            Some(Order::Hang) => self.hangs.store(true, Ordering::SeqCst),
            Some(Order::Work) => self.hangs.store(false, Ordering::SeqCst),
            _ => {}
        }
    }

    /// Waits until the lock may be free; returns whether the order to release came meanwhile.
    async fn told_to_release(&mut self, waiter: &mut Option<Waiter>) -> bool {
        let order = tokio::select! {
            () = woken(waiter) => return false,
            order = self.orders.recv() => order,
        };
        self.note(order);
        matches!(order, Some(Order::Release) | None)
    }
}

/// Waits for a release, or for the time of the next attempt.
async fn woken(waiter: &mut Option<Waiter>) {
    let ended = match waiter {
        Some(waiter) => waiter.released(TRY_EVERY).await.is_err(),
        None => true,
    };
    if ended {
        *waiter = None;
        sleep(TRY_EVERY).await;
    }
}

/// Waits for a loss; forever if there is no watchdog.
async fn lost(watchdog: &mut Option<Watchdog>) {
    match watchdog {
        Some(watchdog) => {
            watchdog.lost().await;
        }
        None => std::future::pending().await,
    }
}

/// Aborts the work and waits for its end.
async fn stop(work: JoinHandle<()>) {
    work.abort();
    let _aborted = work.await;
}

/// What a worker writes besides the lock.
#[derive(Clone)]
struct Notes {
    access: Access,
    connection: Option<MultiplexedConnection>,
    instance: String,
    claims: Option<String>,
    progress: Option<String>,
}

impl Notes {
    /// Writes repeatedly, also after Redis was unreachable.
    async fn write(mut self, hangs: Arc<AtomicBool>) {
        let (mut work, mut claim) = (interval(WORK_EVERY), interval(CLAIM_EVERY));
        loop {
            let note = tokio::select! {
                _ = work.tick() => self.progress.clone().map(|hash| (hash, "at".to_owned())),
                _ = claim.tick() => self.claims.clone().map(|hash| (hash, self.instance.clone())),
            };
            let Some((hash, field)) = note else { continue };
            if field == self.instance || !hangs.load(Ordering::SeqCst) {
                self.set(&hash, &field).await;
            }
        }
    }

    async fn set(&mut self, hash: &str, field: &str) {
        if self.connection.is_none() {
            self.connection = self.access.connect().await.ok();
        }
        let Some(connection) = &mut self.connection else { return };
        if connection.hset(hash, field, unix_ms()).await.is_err() {
            self.connection = None;
        }
    }

    async fn withdraw(&mut self) {
        let Some(claims) = &self.claims else { return };
        if let Ok(mut connection) = self.access.connect().await {
            let _stays_if_redis_is_away = connection.hdel(claims, &self.instance).await;
        }
    }
}

/// Uses a thread, because a read from standard input cannot be cancelled.
fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (tell, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line
                .ok()
                .and_then(|line| Order::ALL.into_iter().find(|order| order.word() == line));
            if order.is_none_or(|order| tell.send(order).is_err()) {
                return;
            }
        }
    });
    orders
}

/// A closed pipe is ignored: the standard input then closes too.
fn say(news: News) {
    let mut out = std::io::stdout().lock();
    let _heard = writeln!(out, "{}", news.word()).and_then(|()| out.flush());
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}
