//! A worker process: a candidate for every lock of the run, each following the script of its task
//! and logging its actions.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use lockwatch::hold::Holder;
use redis::aio::MultiplexedConnection;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::clock::{self, Micros, now};
use super::guard::{Guard, Try, connect};
use super::header::{Header, Library, TaskEntry};
use super::log::Log;
use super::master;
use super::script::{Ending, Play, Script, Step, StepKind, between};

/// Number of renewals per lease.
const RENEWALS: u32 = 3;
/// How often progress and claim are written.
const WORK_EVERY: Duration = Duration::from_millis(400);
/// Maximum pause between two attempts to take a busy lock.
const TRY_EVERY: Duration = Duration::from_millis(900);
/// Pause before the next attempt to reach Redis.
const AGAIN: Duration = Duration::from_millis(300);

/// What the command `host` takes; the campaign starts it.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// The folder of the run.
    #[arg(long)]
    dir: PathBuf,
    /// Which of the worker processes this is.
    #[arg(long)]
    index: usize,
}

/// Runs the candidates until standard input closes.
///
/// # Errors
/// When the description of the run cannot be read.
pub async fn run(args: HostArgs) -> anyhow::Result<()> {
    let header = Header::read(&args.dir)?;
    let log = Log::open(&args.dir, &format!("host-{}.log", args.index))?;
    let masters: Vec<_> = header.redises.iter().map(master::follow).collect();
    let instance = Holder::new_instance();
    for (index, task) in header
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| !task.redisson || args.index + 1 == header.hosts)
    {
        let master = masters.get(task.redis).context("a task of no redis")?.clone();
        // A candidate is a thread of its process, as in Redisson.
        let thread = i64::try_from(index)? + 1;
        let candidate = Candidate {
            index,
            host: args.index,
            task: task.clone(),
            lease: Duration::from_millis(header.times.lease),
            play: Play::new(Script::new(header.seed, index, task, header.times), header.began_us),
            holder: Holder::new(&instance, thread),
            random: fastrand::Rng::with_seed(
                header.seed ^ (args.index as u64) << 32 ^ index as u64,
            ),
            master,
            log: log.clone(),
        };
        tokio::spawn(candidate.live());
    }
    // A thread and not a task, because the runtime would wait for a task.
    let (tell, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let _rest = std::io::stdin().read_to_end(&mut Vec::new());
        let _nobody_waits = tell.send(());
    });
    ended.await.context("standard input cannot be read")
}

struct Candidate {
    index: usize,
    host: usize,
    task: TaskEntry,
    lease: Duration,
    play: Play,
    holder: Holder,
    random: fastrand::Rng,
    master: watch::Receiver<Option<SocketAddr>>,
    log: Log,
}

/// Why a hold ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    ByPlan(Ending),
    Lost,
}

impl Candidate {
    async fn live(mut self) {
        let (mut stands_back_until, mut hand) = (0, None);
        loop {
            let step = self.play.at(now());
            if !step.kind.contends() || now() < stands_back_until {
                let next =
                    if step.kind.contends() { stands_back_until.min(step.to) } else { step.to };
                sleep(between(now(), next).max(Duration::from_millis(1))).await;
                continue;
            }
            if self.master.has_changed().unwrap_or(false) {
                self.master.mark_unchanged();
                hand = None;
            }
            let Some(mut guard) = hand.take().or_else(|| self.guard()) else {
                sleep(AGAIN).await;
                continue;
            };
            let pause = match self.attempt(&mut guard).await {
                Some(Try::Taken) => {
                    let ended = self.hold(guard).await;
                    if ended != Ended::Lost {
                        let step = self.play.at(now());
                        stands_back_until = step.kind.stands_back_until(step.from);
                    }
                    continue;
                }
                // Shortly after the lease may have expired, with a random delay for each candidate.
                Some(Try::Busy(ttl)) => {
                    hand = Some(guard);
                    ttl.min(TRY_EVERY) + Duration::from_millis(self.random.u64(1..200))
                }
                None => AGAIN,
            };
            sleep(pause.min(between(now(), self.play.at(now()).to)).max(Duration::from_millis(1)))
                .await;
        }
    }

    fn guard(&self) -> Option<Guard> {
        let address = (*self.master.borrow())?;
        Guard::new(self.task.library, address, &self.task.lock(), &self.holder, self.lease).ok()
    }

    async fn attempt(&self, guard: &mut Guard) -> Option<Try> {
        let sent = now();
        let came = guard.acquire().await.ok();
        if came == Some(Try::Taken) {
            self.say("acquired", sent);
        }
        came
    }

    /// Holds the lock until the script or Redis ends the hold.
    async fn hold(&mut self, mut guard: Guard) -> Ended {
        let mut master = self.master.clone();
        let mut believed_until = now() + clock::micros(self.lease);
        let mut work = self.work();
        let mut began = self.play.at(now());
        let mut renew_at = now() + clock::micros(self.lease / RENEWALS);
        let mut work_at = now();
        loop {
            let step = self.play.at(now());
            if step.from != began.from {
                if let Some((ending, after)) = step.kind.ends_hold() {
                    clock::sleep_until(step.from + after).await;
                    self.end(ending, &mut guard).await;
                    return Ended::ByPlan(ending);
                }
                began = step;
                if step.kind == StepKind::Intruder && self.task.library == Library::Redisson {
                    self.intrude(step).await;
                }
            }
            if now() >= renew_at {
                if master.has_changed().unwrap_or(false) {
                    master.mark_unchanged();
                    if let Some(other) = self.guard() {
                        guard = other;
                    }
                }
                let sent = now();
                let left = between(sent, believed_until);
                match timeout(left, guard.renew()).await {
                    Ok(Ok(true)) => {
                        self.say("renewed", sent);
                        believed_until = sent + clock::micros(self.lease);
                    }
                    Ok(Ok(false)) => {
                        self.say("lost", sent);
                        return Ended::Lost;
                    }
                    Ok(Err(_)) if now() < believed_until => {}
                    Ok(Err(_)) | Err(_) => {
                        self.say("lost", sent);
                        return Ended::Lost;
                    }
                }
                renew_at = sent + clock::micros(self.lease / RENEWALS);
            }
            if now() >= work_at {
                if let Some(work) = &mut work {
                    work.write(step.kind != StepKind::Stall).await;
                }
                work_at = now() + clock::micros(WORK_EVERY);
            }
            let next =
                renew_at.min(step.to).min(if work.is_some() { work_at } else { Micros::MAX });
            sleep(between(now(), next).max(Duration::from_millis(1))).await;
        }
    }

    async fn end(&self, ending: Ending, guard: &mut Guard) {
        let sent = now();
        match ending {
            Ending::Crash => self.say("crashed", sent),
            // If Redis cannot be reached, the lease runs out.
            Ending::Release => match guard.release().await {
                Ok(true) => self.say("released", sent),
                Ok(false) => self.say("lost", sent),
                Err(_) => self.say("crashed", sent),
            },
        }
    }

    /// Adds a second holder to the lock, and removes it when the step is over.
    async fn intrude(&self, step: Step) {
        let Some(address) = *self.master.borrow() else { return };
        let (key, log, index) = (self.task.lock(), self.log.clone(), self.index);
        tokio::spawn(async move {
            let Ok(mut connection) = connect(address).await else { return };
            let field = Holder::new(&Holder::new_instance(), 1).field().to_owned();
            let sent = now();
            let put: Result<(), _> =
                redis::cmd("HSET").arg(&key).arg(&field).arg(1).query_async(&mut connection).await;
            if put.is_err() {
                return;
            }
            log.line(format_args!("{} {index} intruder acquired {sent}", now()));
            // Before the step is over, so that it does not outlive the lock.
            clock::sleep_until(step.to.saturating_sub(300_000)).await;
            let sent = now();
            let _gone: Result<(), _> =
                redis::cmd("HDEL").arg(&key).arg(&field).query_async(&mut connection).await;
            log.line(format_args!("{} {index} intruder released {sent}", now()));
        });
    }

    fn work(&self) -> Option<Work> {
        self.task.progress.then(|| Work {
            master: self.master.clone(),
            connection: None,
            progress: self.task.progress_key(),
            claims: self.task.claims(),
            instance: self.holder.instance().to_owned(),
        })
    }

    fn say(&self, event: &str, sent: Micros) {
        self.log.line(format_args!("{} {} {} {event} {sent}", now(), self.index, self.host));
    }
}

/// What a holder writes besides the lock.
struct Work {
    master: watch::Receiver<Option<SocketAddr>>,
    connection: Option<(SocketAddr, MultiplexedConnection)>,
    progress: String,
    claims: String,
    instance: String,
}

impl Work {
    async fn write(&mut self, moves: bool) {
        let Some(address) = *self.master.borrow() else { return };
        let kept = self.connection.take().filter(|(at, _)| *at == address);
        let connection = match kept {
            Some((_, connection)) => Some(connection),
            None => connect(address).await.ok(),
        };
        let Some(mut connection) = connection else { return };
        // Not a bare number: that would look like an instant of the server, which a clock fault
        // changes.
        let value = format!("at {}", now());
        let mut pipe = redis::pipe();
        pipe.cmd("HSET").arg(&self.claims).arg(&self.instance).arg(&value).ignore();
        if moves {
            pipe.cmd("SET").arg(&self.progress).arg(&value).ignore();
        }
        let written: Result<(), _> = pipe.query_async(&mut connection).await;
        if written.is_ok() {
            self.connection = Some((address, connection));
        }
    }
}
