//! The process of a worker. It takes the lock with a guard's client, and misbehaves on command.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwatch::hold::{Client, Holder, unlock_channel};
use lockwatch_guard::{Action, Reply};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::notes::Notes;
use super::releases::Releases;
use super::words::{Lost, News, Order};
use crate::stack::access::lock_client;
use crate::stack::redis::REPLY_WITHIN;

/// Number of renewals per lease.
const RENEWALS: u32 = 3;
/// Pause between two attempts to take a busy lock, or to reach Redis.
const TRY_EVERY: Duration = Duration::from_millis(250);
const THREAD: i64 = 1;

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
    let holder = Holder::new(&Holder::new_instance(), THREAD);
    let lease = Duration::from_millis(args.lease_ms);
    let notes = Notes::new(args.redis, holder.instance(), args.progress, args.claims);
    let mut runner = Runner {
        client: lock_client(args.redis, &args.lock, holder, lease, REPLY_WITHIN)?,
        redis: args.redis,
        channel: unlock_channel(args.lock.as_bytes()),
        lease,
        notes,
        orders: orders(),
        hangs: Arc::default(),
        after_loss: if args.work_on { Lost::WorkOn } else { Lost::GiveUp },
    };
    say(News::Up);
    while let Some(order) = runner.orders.recv().await {
        match order {
            Order::Contend => runner.contend().await,
            Order::Release => say(News::Released),
            other => runner.note(Some(other)),
        }
    }
    Ok(())
}

struct Runner {
    client: Client,
    redis: SocketAddr,
    channel: Vec<u8>,
    lease: Duration,
    notes: Notes,
    orders: mpsc::UnboundedReceiver<Order>,
    hangs: Arc<AtomicBool>,
    after_loss: Lost,
}

/// Why a hold ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Lost,
    Released,
}

impl Runner {
    /// Contends until it is ordered to release, or its orders end.
    async fn contend(&mut self) {
        let mut releases = None;
        loop {
            let sent = Instant::now();
            match self.client.carry_out(Action::Take).await.0 {
                Reply::Taken { .. } => {
                    releases = None;
                    say(News::Holds);
                    if self.hold(sent + self.lease).await == Ended::Released {
                        return;
                    }
                    say(News::Lost);
                    continue;
                }
                // Subscribed, so that the lock has a visible waiter.
                Reply::Busy { .. } if releases.is_none() => {
                    releases = Releases::of(self.redis, &self.channel).await.ok();
                }
                Reply::Busy { .. } => {}
                // Redis cannot be reached at present.
                _ => releases = None,
            }
            if self.is_to_release(&mut releases).await {
                say(News::Released);
                return;
            }
        }
    }

    async fn hold(&mut self, mut held_until: Instant) -> Ended {
        let work = tokio::spawn(self.notes.clone().write(Arc::clone(&self.hangs)));
        let mut renews = true;
        let mut renew_at = Instant::now() + self.lease / RENEWALS;
        let ended = loop {
            let is_lost = tokio::select! {
                () = sleep_until(renew_at.min(held_until)), if renews => {
                    let renewed = self.renew(held_until).await;
                    held_until = renewed.unwrap_or(held_until);
                    renew_at = Instant::now() + self.lease / RENEWALS;
                    renewed.is_none()
                }
                order = self.orders.recv() => {
                    match order {
                        Some(Order::StopRenewing) => renews = false,
                        Some(Order::Release) | None => break Ended::Released,
                        other => self.note(other),
                    }
                    false
                }
            };
            match self.after_loss {
                Lost::GiveUp if is_lost => break Ended::Lost,
                Lost::WorkOn if is_lost => {
                    say(News::Lost);
                    renews = false;
                }
                _ => {}
            }
        };
        stop(work).await;
        self.notes.withdraw().await;
        if ended == Ended::Released {
            // If Redis cannot be reached, the lease runs out.
            let _released = self.client.carry_out(Action::Release).await;
            say(News::Released);
        }
        ended
    }

    /// Renews the hold. Returns until when it is certain, `None` if it is lost.
    async fn renew(&mut self, held_until: Instant) -> Option<Instant> {
        let sent = Instant::now();
        match timeout_at(held_until, self.client.carry_out(Action::Renew)).await {
            Ok((Reply::Renewed, _)) => Some(sent + self.lease),
            // It is tried again while the lease lasts.
            Ok((Reply::Failed, _)) if Instant::now() < held_until => Some(held_until),
            _ => None,
        }
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
    async fn is_to_release(&mut self, releases: &mut Option<Releases>) -> bool {
        let order = tokio::select! {
            () = woken(releases) => return false,
            order = self.orders.recv() => order,
        };
        self.note(order);
        matches!(order, Some(Order::Release) | None)
    }
}

/// Waits for a release, or for the time of the next attempt.
async fn woken(releases: &mut Option<Releases>) {
    let is_open = match releases {
        Some(releases) => timeout(TRY_EVERY, releases.next()).await != Ok(None),
        None => false,
    };
    if !is_open {
        *releases = None;
        sleep(TRY_EVERY).await;
    }
}

/// Aborts the work and waits for its end.
async fn stop(work: JoinHandle<()>) {
    work.abort();
    let _aborted = work.await;
}

/// Uses a thread, because a read from standard input cannot be cancelled.
fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line
                .ok()
                .and_then(|line| Order::ALL.into_iter().find(|order| order.name() == line));
            if order.is_none_or(|order| sender.send(order).is_err()) {
                return;
            }
        }
    });
    orders
}

/// A closed pipe is ignored: the standard input then closes too.
fn say(news: News) {
    let mut out = std::io::stdout().lock();
    let _heard = writeln!(out, "{}", news.name()).and_then(|()| out.flush());
}
