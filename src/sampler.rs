//! One task per redis: asks when the schedule says so, and hands everything that comes of it to the engine.
//!
//! Failure is data: a batch that fails, and each tick without a connection, is reported for exactly the tasks concerned. The
//! sampler owns its connection and gives it up after any doubt.

mod link;
mod pace;
mod question;

use std::collections::VecDeque;
use std::sync::Arc;

use lockwatch_model::accept::{Caps, Timing};
use lockwatch_model::input::{Input, NodeNews, NodeNewsKind, Outcome, Role, Sample, Standing};
use lockwatch_model::read::TaskRead;
use lockwatch_model::reading::Unknown;
use lockwatch_model::reply::{Command, Reply};
use lockwatch_model::schedule::{Batch, Schedule, Watched};
use lockwatch_model::spec::{RedisIndex, TaskIndex, TaskSpec};
use lockwatch_model::time::{AgentWall, Mono};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;

use crate::clock::Clock;
use crate::config::RedisConfig;
use crate::redis;
use link::Link;
use question::{Answer, Question};

/// Most batches under way on one connection.
const FLIGHTS: usize = 4;
/// Most rounds in which one task is read.
const ROUNDS: u8 = 4;

/// What a sampler has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The epoch of the configuration that this comes from.
    pub epoch: u32,
    /// Which redis this is.
    pub redis: RedisIndex,
    /// How to reach it.
    pub config: RedisConfig,
    /// The tasks whose keys live there, sorted by index.
    pub tasks: Vec<(TaskIndex, Arc<TaskSpec>)>,
}

/// Samples one redis until `assignments` is closed or the engine is gone. A new assignment keeps the connection if the
/// server and the login are the same.
pub async fn run(mut assignments: watch::Receiver<Arc<Assignment>>, inputs: mpsc::Sender<Input>, clock: Clock) {
    let assignment = Arc::clone(&assignments.borrow_and_update());
    let mut sampler = Sampler::new(assignment, inputs, clock);
    while sampler.launch().await.is_ok() {
        let wake = sampler.next_wake().map(|at| clock.instant(at));
        let went_on = tokio::select! {
            changed = assignments.changed() => match changed {
                Ok(()) => {
                    sampler.reassign(Arc::clone(&assignments.borrow_and_update()));
                    Ok(())
                }
                Err(_) => return,
            },
            dialled = sampler.link.dialled() => sampler.greeted(dialled).await,
            landed = landing(&mut sampler.flights) => sampler.land(landed).await,
            () = async { sleep_until(wake.unwrap_or_else(tokio::time::Instant::now)).await }, if wake.is_some() => Ok(()),
        };
        if went_on.is_err() {
            return;
        }
    }
}

/// The engine is gone.
struct Gone;

struct Sampler {
    assignment: Arc<Assignment>,
    schedule: Schedule,
    link: Link,
    /// Batches under way, in the order in which they were sent; replies come in the same order.
    flights: VecDeque<Flight>,
    /// Why there is no connection; `None` before the first dial ended, and while there is one.
    lost: Option<Unknown>,
    /// What the newest connection could do.
    caps: Option<Caps>,
    /// The batch that goes out with the greeting of the dial under way.
    opening: Option<Flying>,
    nonces: u64,
    inputs: mpsc::Sender<Input>,
    clock: Clock,
}

/// A batch under way on the connection.
struct Flight {
    flying: Flying,
    reply: AbortOnDropHandle<Landing>,
}

/// A batch that was sent.
struct Flying {
    batch: Batch,
    question: Question,
    round: u8,
    launched: Mono,
}

/// The replies to a batch, and the instants around it.
struct Landing {
    sent: Mono,
    sent_wall: AgentWall,
    received: Mono,
    replies: Result<Vec<Reply>, redis::Failure>,
}

/// Waits for the oldest batch under way.
async fn landing(flights: &mut VecDeque<Flight>) -> Result<Landing, tokio::task::JoinError> {
    match flights.front_mut() {
        Some(flight) => (&mut flight.reply).await,
        None => std::future::pending().await,
    }
}

async fn ask(connection: Arc<redis::Connection>, commands: Vec<Command>, clock: Clock) -> Landing {
    let (sent_wall, sent) = (clock.wall(), clock.now());
    let replies = connection.exec(&commands).await;
    Landing { sent, sent_wall, received: clock.now(), replies }
}

impl Sampler {
    fn new(assignment: Arc<Assignment>, inputs: mpsc::Sender<Input>, clock: Clock) -> Sampler {
        Sampler {
            schedule: schedule(&assignment, clock.now()),
            link: Link::new(clock.now()),
            flights: VecDeque::new(),
            lost: None,
            caps: None,
            opening: None,
            nonces: 0,
            assignment,
            inputs,
            clock,
        }
    }

    /// Does all that is due now.
    async fn launch(&mut self) -> Result<(), Gone> {
        let now = self.clock.now();
        if self.link.is_due(now) {
            let opening = self.opening(now);
            let at = self.assignment.config.servers.configured()[0].clone();
            self.link.dial(&self.assignment.config.endpoint(at), opening, now);
        }
        if self.link.connection().is_none() {
            let tasks = self.schedule.missed(now);
            if let (Some(why), false) = (self.lost, tasks.is_empty()) {
                self.report(now, 0, Outcome::Failed { tasks, why }).await?;
            }
            return Ok(());
        }
        while self.flights.len() < FLIGHTS
            && let Some(connection) = self.link.connection()
            && let Some(batch) = self.schedule.due(now)
        {
            let reads = self.reads(&batch, connection.caps());
            self.fly(batch, reads, 1);
        }
        for _ in 0..self.schedule.take_skipped() {
            self.news(NodeNewsKind::TickSkipped).await?;
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Mono> {
        match self.link.connection() {
            Some(_) if self.flights.len() >= FLIGHTS => None,
            Some(_) => self.schedule.next_wake(),
            None => self.schedule.next_tick().into_iter().chain(self.link.next_dial()).min(),
        }
    }

    /// How the tasks of `batch` are read.
    fn reads(&self, batch: &Batch, caps: Caps) -> Vec<(TaskIndex, TaskRead)> {
        let specs = batch.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
        specs.map(|(task, spec)| (task, TaskRead::new(spec, caps, batch.with_extras))).collect()
    }

    fn question(&mut self, reads: Vec<(TaskIndex, TaskRead)>, caps: Caps) -> (Question, Vec<Command>) {
        self.nonces += 1;
        let nonce = format!("{:016x}-{:x}", fastrand::u64(..), self.nonces).into_bytes();
        Question::new(reads, caps, nonce)
    }

    /// The batch that shall go out with the next greeting: only after a reply was lost, see [`redis::Opening`].
    fn opening(&mut self, now: Mono) -> Option<redis::Opening> {
        let caps = self.caps.filter(|_| self.lost == Some(Unknown::Timeout))?;
        let batch = self.schedule.due(now)?;
        let reads = self.reads(&batch, caps);
        let (question, commands) = self.question(reads, caps);
        self.opening = Some(Flying { batch, question, round: 1, launched: now });
        Some(redis::Opening { commands, clock: self.clock })
    }

    /// Sends a round of `batch`.
    fn fly(&mut self, batch: Batch, reads: Vec<(TaskIndex, TaskRead)>, round: u8) {
        let Some(connection) = self.link.connection() else { return self.schedule.broken(&batch) };
        let (question, commands) = self.question(reads, connection.caps());
        let reply = AbortOnDropHandle::new(tokio::spawn(ask(connection, commands, self.clock)));
        self.flights.push_back(Flight { flying: Flying { batch, question, round, launched: self.clock.now() }, reply });
    }

    /// The oldest batch under way is over.
    async fn land(&mut self, landing: Result<Landing, tokio::task::JoinError>) -> Result<(), Gone> {
        let Some(Flight { flying, .. }) = self.flights.pop_front() else { return Ok(()) };
        match landing {
            Ok(landing) => self.landed(flying, landing).await,
            Err(error) => {
                tracing::error!(redis = &*self.assignment.config.name, %error, "a batch was dropped");
                self.lose(Some(flying), Unknown::Closed).await
            }
        }
    }

    /// What came of a batch.
    async fn landed(&mut self, flying: Flying, landing: Landing) -> Result<(), Gone> {
        let replies = match landing.replies {
            Ok(replies) => replies,
            Err(failure) => {
                tracing::debug!(redis = &*self.assignment.config.name, %failure, "a batch failed");
                return self.lose(Some(flying), failure.why).await;
            }
        };
        let Landing { sent, sent_wall, received, .. } = landing;
        let timeout_ms = u64::try_from(self.assignment.config.timeout.as_millis()).unwrap_or(u64::MAX);
        let timing = Timing { sent, received, sent_wall, timeout_ms };
        let Flying { batch, question, round, .. } = flying;
        let tasks = question.tasks();
        match question.decode(timing, &replies) {
            Ok(answer) => self.believe(batch, round, timing, answer).await,
            Err(why) if self.link.survives(why, received) => {
                self.schedule.finished(&batch);
                self.report(sent, received.since_ms(sent), Outcome::Failed { tasks, why }).await
            }
            Err(why) => {
                self.report(sent, received.since_ms(sent), Outcome::Failed { tasks, why }).await?;
                self.schedule.broken(&batch);
                self.lose(None, why).await
            }
        }
    }

    /// The replies to a round of `batch` may be believed.
    async fn believe(&mut self, batch: Batch, round: u8, timing: Timing, answer: Answer) -> Result<(), Gone> {
        self.link.succeeded(timing.received);
        let Answer { vouch, mut done, again } = answer;
        for (task, reading) in &done {
            self.schedule.observe(*task, timing.sent, vouch.first, reading);
        }
        if round == 1 {
            let withheld = batch.withheld.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
            done.extend(withheld.map(|(task, spec)| (task, question::unreadable(&spec, Unknown::TooLarge))));
        }
        let took_ms = timing.received.since_ms(timing.sent);
        self.report(timing.sent, took_ms, Outcome::Read { vouch, readings: done }).await?;
        if again.is_empty() {
            self.schedule.finished(&batch);
        } else if round < ROUNDS {
            self.fly(batch, again, round + 1);
        } else {
            self.schedule.finished(&batch);
            let tasks = again.into_iter().map(|(task, _)| task).collect();
            self.report(timing.sent, took_ms, Outcome::Failed { tasks, why: Unknown::Protocol }).await?;
        }
        Ok(())
    }

    /// Gives the connection up, and with it all that is under way.
    async fn lose(&mut self, flying: Option<Flying>, why: Unknown) -> Result<(), Gone> {
        self.lost = Some(why);
        self.link.give_up(self.clock.now());
        let others = self.flights.drain(..).map(|flight| flight.flying);
        let all: Vec<Flying> = flying.into_iter().chain(others).collect();
        for (position, Flying { batch, question, launched, .. }) in all.into_iter().enumerate() {
            let (now, tasks) = (self.clock.now(), question.tasks());
            match why {
                // Replies come in order: the first batch is the one whose reply it was.
                Unknown::TooLarge if position == 0 => self.schedule.too_large(&batch, &tasks, now),
                _ => self.schedule.broken(&batch),
            }
            self.report(launched, now.since_ms(launched), Outcome::Failed { tasks, why }).await?;
        }
        Ok(())
    }

    /// A dial is over.
    async fn greeted(&mut self, dialled: link::Dialled) -> Result<(), Gone> {
        let opening = self.opening.take();
        match dialled {
            Ok((connection, opened)) => {
                self.lost = None;
                let caps = connection.caps();
                let (version, role) = (connection.version().cloned(), connection.role());
                tracing::info!(
                    redis = &*self.assignment.config.name,
                    version = version.as_deref(),
                    role = role.map(Role::name),
                    "connected"
                );
                self.link.made(connection, self.clock.now());
                self.news(NodeNewsKind::Connected { version, role }).await?;
                let as_before = self.caps.replace(caps) == Some(caps);
                match (opening, opened) {
                    (Some(flying), Some(redis::Opened { sent, sent_wall, received, replies })) if as_before => {
                        self.landed(flying, Landing { sent, sent_wall, received, replies: Ok(replies) }).await
                    }
                    // It was made for another server.
                    (Some(flying), _) => {
                        self.schedule.broken(&flying.batch);
                        Ok(())
                    }
                    (None, _) => Ok(()),
                }
            }
            Err(failure) => {
                if self.lost != Some(failure.why) {
                    tracing::warn!(redis = &*self.assignment.config.name, %failure, "cannot connect");
                }
                self.news(NodeNewsKind::Failed { why: failure.why }).await?;
                self.lose(opening, failure.why).await
            }
        }
    }

    /// Takes over another assignment. What is under way was asked for under the old one and is dropped.
    fn reassign(&mut self, assignment: Arc<Assignment>) {
        let old = std::mem::replace(&mut self.assignment, assignment);
        if old.config != self.assignment.config {
            self.link = Link::new(self.clock.now());
            self.lost = None;
            self.caps = None;
        }
        self.flights.clear();
        self.opening = None;
        self.schedule = schedule(&self.assignment, self.clock.now());
    }

    fn address(&self) -> Arc<str> {
        self.assignment.config.servers.configured()[0].to_string().into()
    }

    fn spec(&self, task: TaskIndex) -> Option<Arc<TaskSpec>> {
        let tasks = &self.assignment.tasks;
        let position = tasks.binary_search_by_key(&task, |(index, _)| *index).ok()?;
        tasks.get(position).map(|(_, spec)| Arc::clone(spec))
    }

    async fn report(&self, sent: Mono, took_ms: u64, outcome: Outcome) -> Result<(), Gone> {
        let Assignment { epoch, redis, .. } = *self.assignment;
        let node = Some(self.address());
        let sample = Sample { epoch, redis, node, standing: Standing::Decides, sent, took_ms, outcome };
        self.inputs.send(Input::Sample(sample)).await.map_err(|_| Gone)
    }

    async fn news(&self, kind: NodeNewsKind) -> Result<(), Gone> {
        let Assignment { epoch, redis, .. } = *self.assignment;
        let node = self.address();
        self.inputs.send(Input::Node(NodeNews { epoch, redis, node, kind })).await.map_err(|_| Gone)
    }
}

fn schedule(assignment: &Assignment, start: Mono) -> Schedule {
    let interval_ms = u64::try_from(assignment.config.interval.as_millis()).unwrap_or(u64::MAX);
    let watched = assignment.tasks.iter().map(|(task, spec)| Watched::new(*task, spec));
    Schedule::new(watched.collect(), interval_ms, start)
}
