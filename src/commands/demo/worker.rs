//! One demo worker: contends for the lock while any user wants the task, and runs the script while
//! it holds the lock.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{Board, CLAIMS, HANG, HOSTS, LOCK, PROGRESS, say, server};
use crate::hold::{Acquired, Attempt, Holder, Lock, Lost, Waiter, Watchdog};

/// How often the switches are read.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the script writes its progress.
const WORK_EVERY: Duration = Duration::from_millis(500);
/// How often a worker claims that it runs the task.
const CLAIM_EVERY: Duration = Duration::from_secs(2);
/// The thread id of the worker, which takes locks on one thread.
const THREAD: i64 = 1;

/// What `lockwatch demo-worker` takes; `demo` starts it.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// The demo's Redis
    #[arg(long, value_name = "ADDRESS")]
    pub redis: SocketAddr,
    /// The worker's name
    #[arg(long)]
    pub name: String,
    /// The server that it pretends to run on
    #[arg(long)]
    pub host: String,
    /// Full lifetime of a hold
    #[arg(long, value_name = "MS")]
    pub lease_ms: u64,
}

/// Runs a worker until its standard input closes.
///
/// # Errors
/// When Redis fails. A lock that it held then stays until the lease runs out.
pub async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let told_to_stop = when_stdin_ends();
    let access = server::access(args.redis)?;
    let holder = Holder::new(&Holder::new_instance(), THREAD);
    let mut worker = Worker {
        name: args.name,
        board: Board::connect(&access).await?,
        data: access.connect().await?,
        lock: Lock::new(
            access,
            LOCK.as_bytes(),
            holder.clone(),
            Duration::from_millis(args.lease_ms),
        ),
        instance: holder.instance().to_owned(),
    };
    worker.data.hset(HOSTS, &worker.instance, &args.host).await?;
    worker.say(&format!("is up on {} as instance {}", args.host, worker.instance));
    worker.contend(&told_to_stop).await
}

struct Worker {
    name: String,
    board: Board,
    data: MultiplexedConnection,
    lock: Lock,
    instance: String,
}

/// Why a hold ended.
enum Ended {
    Lost(Lost),
    Unwanted,
    ToldToStop,
}

impl Worker {
    async fn contend(&mut self, stop: &CancellationToken) -> anyhow::Result<()> {
        let mut waiter = None;
        while !stop.is_cancelled() {
            if !self.board.wanted().await? {
                waiter = None;
                pause(stop, LOOK_EVERY).await;
                continue;
            }
            match self.lock.acquire().await? {
                Attempt::Acquired(acquired) => {
                    waiter = None;
                    self.hold(acquired, stop).await?;
                }
                Attempt::Busy { ttl_ms } => self.wait(&mut waiter, ttl_ms, stop).await?,
            }
        }
        Ok(())
    }

    /// The first call only subscribes, so that the lock is tried once more before waiting.
    async fn wait(
        &mut self,
        waiter: &mut Option<Waiter>,
        ttl_ms: Option<u64>,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let Some(waiter) = waiter else {
            self.say("finds the lock held and waits for it");
            *waiter = Some(self.lock.waiter().await?);
            return Ok(());
        };
        let left = Duration::from_millis(ttl_ms.unwrap_or(u64::MAX).max(1));
        tokio::select! {
            () = stop.cancelled() => {}
            woken = waiter.released(left.min(LOOK_EVERY)) => { woken?; }
        }
        Ok(())
    }

    async fn hold(&mut self, acquired: Acquired, stop: &CancellationToken) -> anyhow::Result<()> {
        self.say("got the lock and starts the script");
        let mut watchdog = Watchdog::start(self.lock.clone(), acquired);
        let script = Background::start(script(self.data.clone(), self.name.clone()));
        let claims = Background::start(claim(self.data.clone(), self.instance.clone()));
        let ended = tokio::select! {
            lost = watchdog.lost() => Ok(Ended::Lost(lost)),
            () = stop.cancelled() => Ok(Ended::ToldToStop),
            unwanted = until_unwanted(&mut self.board) => unwanted.map(|()| Ended::Unwanted),
        };
        script.end().await;
        claims.end().await;
        watchdog.stop().await;
        self.data.hdel(CLAIMS, &self.instance).await?;
        match ended? {
            Ended::Lost(lost) => {
                self.say(&format!("lost the lock ({lost:?}) and stopped the script"));
                return Ok(());
            }
            Ended::Unwanted => {
                self.say("stops the script and releases the lock: nobody wants it any more")
            }
            Ended::ToldToStop => {
                self.say("stops the script and releases the lock: it was told to end")
            }
        }
        self.lock.release().await?;
        Ok(())
    }

    fn say(&self, what: &str) {
        say(&format!("          ({} {what})", self.name));
    }
}

/// A background task beside the watchdog.
struct Background(JoinHandle<()>);

impl Background {
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Background {
        Background(tokio::spawn(work))
    }

    /// Aborts the task and waits for its end.
    async fn end(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

/// The work: writes its progress until it is made to die. Its death has no other effect, like that
/// of a real thread.
async fn script(mut data: MultiplexedConnection, name: String) {
    let (key, field) = PROGRESS;
    let mut work = interval(WORK_EVERY);
    loop {
        work.tick().await;
        let written = data.hset(key, field, unix_ms()).await;
        let dies = matches!(data.get(HANG).await, Ok(Some(whose)) if whose == name);
        if written.is_err() || dies {
            let _ = data.del(HANG).await;
            return;
        }
    }
}

/// Claims repeatedly that this instance runs the task. The worker does this, not the script.
async fn claim(mut data: MultiplexedConnection, instance: String) {
    let mut due = interval(CLAIM_EVERY);
    loop {
        due.tick().await;
        if data.hset(CLAIMS, &instance, unix_ms()).await.is_err() {
            return;
        }
    }
}

async fn until_unwanted(board: &mut Board) -> anyhow::Result<()> {
    while board.wanted().await? {
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn pause(stop: &CancellationToken, time: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep(time) => {}
    }
}

/// Cancels the token when standard input closes. Uses a thread, because a read from standard input
/// cannot be cancelled.
fn when_stdin_ends() -> CancellationToken {
    let ended = CancellationToken::new();
    let tell = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        tell.cancel();
    });
    ended
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}
