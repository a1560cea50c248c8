//! One server of a redis: its connection, when it is asked what, and what comes of that.
//!
//! A server that decides is asked for everything that its tasks need, at the configured pace. A witness is asked for the locks
//! alone: at the same pace while it says that it is master, else at a slower one, with a pulse between that tells its role.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockwatch_model::accept::{Caps, Timing};
use lockwatch_model::input::{NodeNewsKind, Outcome, Role, Standing};
use lockwatch_model::read::{Scope, TaskRead};
use lockwatch_model::reading::{
    ClaimsReading, LockReading, PauseReading, ProgressReading, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_model::reply::{Command, Reply};
use lockwatch_model::schedule::{Batch, Schedule, Watched};
use lockwatch_model::spec::{RedisKind, TaskIndex, TaskSpec};
use lockwatch_model::time::{AgentWall, Mono, ServerTime};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::authority::Duty;
use super::link::{Dialled, Link};
use super::question::{Answer, Kept, Question};
use super::wake_ups::{Filter, Hints, WakeUps};
use super::{Gone, Out, spec, unreadable};
use crate::clock::Clock;
use crate::config::{Endpoint, RedisConfig, ms};
use crate::exchange::{self, Asked, Desk, Exchange, Worth};
use crate::redis;

/// Most batches under way on one connection.
const FLIGHTS: usize = 4;
/// Most rounds in which one task is read.
const ROUNDS: u8 = 4;
/// A replica's locks are read once in so many intervals.
const REPLICA_EVERY: u64 = 5;

/// One server.
pub(super) struct Node {
    address: Arc<str>,
    endpoint: Endpoint,
    redis: Arc<str>,
    interval_ms: u64,
    /// Other servers may show other holders.
    has_others: bool,
    duty: Duty,
    schedule: Schedule,
    /// The role that it gave last.
    role: Option<Role>,
    /// When a witness is asked for its role next.
    pulse_at: Mono,
    /// What is to be read beside locks of other servers, and which servers those are.
    beside: VecDeque<BesideRead>,
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
    wake_ups: WakeUps,
}

/// Parts of tasks whose locks live on the server `of`.
struct BesideRead {
    parts: Vec<(TaskIndex, Scope)>,
    of: Arc<str>,
}

/// A batch under way on the connection.
struct Flight {
    flying: Flying,
    reply: AbortOnDropHandle<Landing>,
}

/// A batch that was sent.
struct Flying {
    what: What,
    question: Question,
    round: u8,
    launched: Mono,
}

/// What a batch is about.
enum What {
    Scheduled(Batch),
    /// The server's role alone.
    Pulse,
    Beside(BesideRead),
}

/// The replies to a batch, and the instants around it.
pub(super) struct Landing {
    sent: Mono,
    sent_wall: AgentWall,
    received: Mono,
    replies: Result<Vec<Reply>, redis::Failure>,
}

/// What comes from a server.
pub(super) enum News {
    Dialled(Dialled),
    Landed(Result<Landing, JoinError>),
    Hinted(Hints),
}

/// What others have to know of it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The role that it gave.
    pub(super) role: Option<Role>,
    /// Why it gave none.
    pub(super) failed: Option<Unknown>,
    /// A key is not where it was thought to be.
    pub(super) moved: bool,
    /// Tasks whose lock was read by a server that decides.
    pub(super) read: Option<Vec<TaskIndex>>,
    /// Switches of locks that live on another server: which, when they were asked for, of which task.
    pub(super) switches: Vec<(Arc<str>, Mono, TaskIndex, SwitchesReading)>,
    /// It told of changes.
    pub(super) hints: Option<Hints>,
}

async fn ask(connection: Arc<redis::Connection>, commands: Vec<Command>, clock: Clock) -> Landing {
    let (sent_wall, sent) = (clock.wall(), clock.now());
    let replies = connection.exec(&commands).await;
    Landing { sent, sent_wall, received: clock.now(), replies }
}

impl Node {
    /// A server that has no duty yet.
    pub(super) fn new(address: Arc<str>, endpoint: Endpoint, config: &RedisConfig, now: Mono) -> Node {
        Node {
            address,
            endpoint,
            redis: Arc::clone(&config.name),
            interval_ms: ms(config.interval),
            has_others: config.servers.kind() != RedisKind::Standalone,
            duty: Duty::none(),
            schedule: Schedule::new(Vec::new(), ms(config.interval), now),
            role: None,
            pulse_at: now,
            beside: VecDeque::new(),
            link: Link::new(now),
            flights: VecDeque::new(),
            lost: None,
            caps: None,
            opening: None,
            nonces: 0,
            wake_ups: WakeUps::default(),
        }
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.address
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Gives it a duty. With another standing than before, what is under way is dropped and everything is due now; with
    /// other tasks, those that stay are not disturbed.
    pub(super) fn assign(&mut self, duty: &Duty, now: Mono) {
        if self.duty == *duty {
            return;
        }
        let old = std::mem::replace(&mut self.duty, duty.clone());
        if old.standing != self.duty.standing {
            self.begin_anew(now);
        } else if old.own != self.duty.own {
            let flying = self.flights.iter_mut().map(|flight| &mut flight.flying).chain(&mut self.opening);
            for Flying { what, .. } in flying {
                if let What::Scheduled(batch) = what {
                    batch.detach();
                }
            }
            self.schedule.change(self.watched(), now);
        }
    }

    /// The configuration changed: what is under way was asked for under the old one and is dropped.
    pub(super) fn configure(&mut self, config: &RedisConfig, now: Mono) {
        self.redis = Arc::clone(&config.name);
        self.interval_ms = ms(config.interval);
        self.has_others = config.servers.kind() != RedisKind::Standalone;
        self.duty = Duty::none();
        self.begin_anew(now);
    }

    fn begin_anew(&mut self, now: Mono) {
        self.flights.clear();
        self.beside.clear();
        if let Some(Flying { what: What::Scheduled(batch), .. }) = self.opening.take() {
            self.schedule.broken(&batch);
        }
        let slowly = self.duty.standing == Standing::Witness && self.role != Some(Role::Master);
        let every = if slowly { REPLICA_EVERY } else { 1 };
        self.schedule = Schedule::new(self.watched(), self.interval_ms.saturating_mul(every), now);
        self.pulse_at = now.plus_ms(self.interval_ms);
    }

    fn watched(&self) -> Vec<Watched> {
        let watched = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| Watched {
            proves_holders: self.has_others,
            ..Watched::new(*task, spec)
        };
        self.duty.own.iter().map(watched).collect()
    }

    /// Has the server tell of changes that `filter` lets through, if it decides.
    pub(super) fn listen(&mut self, filter: Option<&Arc<Filter>>, clock: Clock) {
        let filter = filter.filter(|_| self.duty.standing == Standing::Decides);
        self.wake_ups.follow(&self.endpoint, filter, self.link.connection().is_some(), clock);
    }

    /// A key of `task` has changed, as some server says: if its lock is read here, it is read at once.
    pub(super) fn hint(&mut self, task: TaskIndex, now: Mono) {
        if self.duty.standing == Standing::Decides && self.owns(task) {
            let hinted = self.schedule.hint(task, now);
            self.wake_ups.count_hint(hinted);
        }
    }

    /// Any key may have changed.
    pub(super) fn hint_all(&mut self, now: Mono) {
        if self.duty.standing == Standing::Decides {
            self.schedule.hint_all(now);
        }
    }

    /// Takes in switches of one of its locks that live on another server.
    pub(super) fn observe_switches(&mut self, task: TaskIndex, sent: Mono, switches: &SwitchesReading) {
        self.schedule.observe_switches(task, sent, Some(switches));
    }

    /// Reads `parts` of tasks whose locks live on `of`, as soon as possible.
    pub(super) async fn read_beside(
        &mut self,
        parts: Vec<(TaskIndex, Scope)>,
        of: &Arc<str>,
        now: Mono,
        out: &Out,
    ) -> Result<(), Gone> {
        let read = BesideRead { parts, of: Arc::clone(of) };
        match (self.link.connection(), self.lost) {
            (Some(_), _) => {
                // Of a server that lags behind, only the newest question matters.
                self.beside.retain(|waiting| waiting.of != read.of || waiting.parts != read.parts);
                self.beside.push_back(read);
                Ok(())
            }
            (None, why) => self.report_beside(&read, now, why.unwrap_or(Unknown::NotReadYet), out).await,
        }
    }

    async fn report_beside(&self, read: &BesideRead, now: Mono, why: Unknown, out: &Out) -> Result<(), Gone> {
        let readings = unreadable(&read.parts, |task| self.spec(task), why);
        let outcome = Outcome::Beside { vouch: None, readings };
        out.sample(Some(&self.address), Standing::Decides, (now, 0), outcome).await
    }

    /// Does all that is due now.
    pub(super) async fn launch(&mut self, out: &Out) -> Result<(), Gone> {
        let now = out.clock.now();
        if let Some(news) = self.wake_ups.take_news(now) {
            out.news(&self.address, news).await?;
        }
        if self.link.is_due(now) {
            let opening = self.opening(now, out);
            self.link.dial(&self.endpoint, opening, now);
        }
        if self.link.connection().is_none() {
            return self.miss(now, out).await;
        }
        while self.flights.len() < FLIGHTS
            && let Some(connection) = self.link.connection()
            && let Some((what, reads)) = self.next_batch(now, connection.caps())
        {
            self.fly(what, reads, 1, out);
        }
        for _ in 0..self.schedule.take_skipped() {
            if self.duty.standing == Standing::Decides {
                out.news(&self.address, NodeNewsKind::TickSkipped).await?;
            }
        }
        Ok(())
    }

    /// Without a connection, each tick that passes is reported.
    async fn miss(&mut self, now: Mono, out: &Out) -> Result<(), Gone> {
        let tasks = self.schedule.missed(now);
        let Some(why) = self.lost else { return Ok(()) };
        for read in std::mem::take(&mut self.beside) {
            self.report_beside(&read, now, why, out).await?;
        }
        if tasks.is_empty() || self.duty.standing == Standing::Witness {
            return Ok(());
        }
        out.sample(Some(&self.address), Standing::Decides, (now, 0), Outcome::Failed { tasks, why }).await
    }

    /// What is due at `now`, and how its tasks are read.
    fn next_batch(&mut self, now: Mono, caps: Caps) -> Option<(What, Vec<(TaskIndex, TaskRead)>)> {
        if let Some(read) = self.beside.pop_front() {
            let reads = read
                .parts
                .iter()
                .filter_map(|(task, scope)| Some((*task, TaskRead::new(self.spec(*task)?, caps, scope.hosts, *scope))));
            let reads = reads.collect();
            return Some((What::Beside(read), reads));
        }
        if let Some(batch) = self.schedule.due(now) {
            self.pulse_at = now.plus_ms(self.interval_ms);
            let reads = self.reads(&batch, caps);
            return Some((What::Scheduled(batch), reads));
        }
        if self.pulses() && self.pulse_at <= now {
            self.pulse_at = now.plus_ms(self.interval_ms);
            return Some((What::Pulse, Vec::new()));
        }
        None
    }

    /// Whether its role is asked for more often than its locks.
    fn pulses(&self) -> bool {
        self.duty.standing == Standing::Witness && self.role != Some(Role::Master)
    }

    /// When to look again.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        match self.link.connection() {
            Some(_) if self.flights.len() >= FLIGHTS => None,
            Some(_) if !self.beside.is_empty() => Some(Mono(0)),
            Some(_) => self.schedule.next_wake().into_iter().chain(self.pulses().then_some(self.pulse_at)).min(),
            None => self.schedule.next_tick().into_iter().chain(self.link.next_dial()).min(),
        }
    }

    /// Whether a dial has ended or the oldest batch has landed. What comes must go to [`Node::take`].
    pub(super) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<News> {
        if let Poll::Ready(dialled) = self.link.poll_dialled(context) {
            return Poll::Ready(News::Dialled(dialled));
        }
        if let Some(flight) = self.flights.front_mut()
            && let Poll::Ready(landing) = Pin::new(&mut flight.reply).poll(context)
        {
            return Poll::Ready(News::Landed(landing));
        }
        self.wake_ups.poll_hints(context).map(News::Hinted)
    }

    /// Takes in what came; says what others have to know of it.
    pub(super) async fn take(&mut self, news: News, out: &Out) -> Result<Heard, Gone> {
        let heard = match news {
            News::Dialled(dialled) => self.greeted(dialled, out).await?,
            News::Landed(landing) => self.land(landing, out).await?,
            News::Hinted(hints) => {
                self.wake_ups.count(&hints);
                return Ok(Heard { hints: Some(hints), ..Heard::default() });
            }
        };
        if heard.role.is_some() && heard.role != self.role {
            self.role = heard.role;
            if self.duty.standing == Standing::Witness {
                self.begin_anew(out.clock.now());
            }
        }
        Ok(heard)
    }

    /// How the tasks of `batch` are read.
    fn reads(&self, batch: &Batch, caps: Caps) -> Vec<(TaskIndex, TaskRead)> {
        let specs = batch.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
        let read = |(task, spec)| match self.duty.standing {
            Standing::Decides => (task, TaskRead::new(spec, caps, batch.with_extras, self.duty.scope(task))),
            Standing::Witness => (task, TaskRead::new(spec, caps, false, Scope::LOCK)),
        };
        specs.map(read).collect()
    }

    fn question(
        &mut self,
        reads: Vec<(TaskIndex, TaskRead)>,
        caps: Caps,
        standing: Standing,
        desk: &Desk,
    ) -> (Question, Vec<Command>) {
        self.nonces += 1;
        let nonce = format!("{:016x}-{:x}", fastrand::u64(..), self.nonces).into_bytes();
        let (mut question, commands) = Question::new(reads, caps, standing, nonce);
        if let Some(wanted) = desk.wanted() {
            question.keep(|task| self.spec(task).is_some_and(|spec| wanted.contains(&spec.name)), &commands);
        }
        (question, commands)
    }

    /// The batch that shall go out with the next greeting: only after a reply was lost, see [`redis::Opening`].
    fn opening(&mut self, now: Mono, out: &Out) -> Option<redis::Opening> {
        let caps = self.caps.filter(|_| self.lost == Some(Unknown::Timeout))?;
        let batch = self.schedule.due(now)?;
        let reads = self.reads(&batch, caps);
        let (question, commands) = self.question(reads, caps, self.duty.standing, &out.desk);
        self.opening = Some(Flying { what: What::Scheduled(batch), question, round: 1, launched: now });
        Some(redis::Opening { commands, clock: out.clock })
    }

    /// Sends a round of a batch.
    fn fly(&mut self, what: What, reads: Vec<(TaskIndex, TaskRead)>, round: u8, out: &Out) {
        let Some(connection) = self.link.connection() else { return self.broken(&what) };
        let standing = self.standing(&what);
        let (question, commands) = self.question(reads, connection.caps(), standing, &out.desk);
        let reply = AbortOnDropHandle::new(tokio::spawn(ask(connection, commands, out.clock)));
        self.flights.push_back(Flight { flying: Flying { what, question, round, launched: out.clock.now() }, reply });
    }

    fn broken(&mut self, what: &What) {
        if let What::Scheduled(batch) = what {
            self.schedule.broken(batch);
        }
    }

    fn finished(&mut self, what: &What) {
        if let What::Scheduled(batch) = what {
            self.schedule.finished(batch);
        }
    }

    /// The oldest batch under way is over.
    async fn land(&mut self, landing: Result<Landing, JoinError>, out: &Out) -> Result<Heard, Gone> {
        let Some(Flight { flying, .. }) = self.flights.pop_front() else { return Ok(Heard::default()) };
        match landing {
            Ok(landing) => self.landed(flying, landing, out).await,
            Err(error) => {
                tracing::error!(redis = &*self.redis, node = &*self.address, %error, "a batch was dropped");
                self.lose(Some(flying), Unknown::Closed, out).await
            }
        }
    }

    /// What came of a batch.
    async fn landed(&mut self, flying: Flying, landing: Landing, out: &Out) -> Result<Heard, Gone> {
        let replies = match landing.replies {
            Ok(replies) => replies,
            Err(failure) => {
                tracing::debug!(redis = &*self.redis, node = &*self.address, %failure, "a batch failed");
                return self.lose(Some(flying), failure.why, out).await;
            }
        };
        let Landing { sent, sent_wall, received, .. } = landing;
        let timing = Timing { sent, received, sent_wall, timeout_ms: ms(self.endpoint.timeout) };
        let Flying { what, mut question, round, .. } = flying;
        let (tasks, kept) = (question.tasks(), question.take_kept());
        let decoded = question.decode(timing, &replies);
        let outcome = decoded.as_ref().map_err(|why| *why);
        self.show(kept, (&what, round), (sent, received.since_ms(sent)), (&replies, outcome), &out.desk);
        match decoded {
            Ok(answer) => self.believe(what, round, timing, answer, out).await,
            Err(why) => {
                let instants = (sent, received.since_ms(sent));
                self.report_failure(&what, tasks, instants, why, out).await?;
                let role = (why == Unknown::NotMaster).then_some(Role::Replica);
                if self.link.survives(why, received) {
                    self.finished(&what);
                    return Ok(Heard { role, failed: Some(why), ..Heard::default() });
                }
                self.broken(&what);
                Ok(Heard { role, ..self.lose(None, why, out).await? })
            }
        }
    }

    async fn report_failure(
        &self,
        what: &What,
        mut tasks: Vec<TaskIndex>,
        instants: (Mono, u64),
        why: Unknown,
        out: &Out,
    ) -> Result<(), Gone> {
        match what {
            What::Scheduled(_) | What::Pulse => {
                tasks.retain(|task| self.owns(*task));
                let outcome = Outcome::Failed { tasks, why };
                out.sample(Some(&self.address), self.duty.standing, instants, outcome).await
            }
            What::Beside(read) => self.report_beside(read, instants.0, why, out).await,
        }
    }

    /// The replies to a round of a batch may be believed.
    async fn believe(
        &mut self,
        what: What,
        round: u8,
        timing: Timing,
        answer: Answer,
        out: &Out,
    ) -> Result<Heard, Gone> {
        self.link.succeeded(timing.received);
        let Answer { vouch, mut done, mut again } = answer;
        if matches!(what, What::Scheduled(_)) {
            // Tasks may have gone to another server meanwhile, which has perhaps answered already.
            done.retain(|(task, _)| self.owns(*task));
            again.retain(|(task, _)| self.owns(*task));
        }
        let mut heard = Heard { role: Some(vouch.role), ..Heard::default() };
        let standing = self.standing(&what);
        // A witness may well be asked for what it never had.
        heard.moved = standing == Standing::Decides && done.iter().any(|(_, reading)| has_moved(reading));
        let instants = (timing.sent, timing.received.since_ms(timing.sent));
        let outcome = match &what {
            What::Scheduled(batch) => {
                if self.duty.standing == Standing::Decides {
                    heard.read = Some(self.observe(&done, timing.sent, vouch.first));
                    if round == 1 {
                        let withheld = batch.withheld.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
                        done.extend(withheld.map(|(task, spec)| (task, self.too_large(task, &spec))));
                    }
                }
                Outcome::Read { vouch, readings: done }
            }
            What::Pulse => Outcome::Read { vouch, readings: done },
            What::Beside(read) => {
                for (task, reading) in &done {
                    let switches = reading.beside.switches.clone();
                    heard.switches.extend(switches.map(|it| (Arc::clone(&read.of), timing.sent, *task, it)));
                }
                let readings = done.into_iter().map(|(task, reading)| (task, reading.beside)).collect();
                Outcome::Beside { vouch: Some(vouch), readings }
            }
        };
        out.sample(Some(&self.address), standing, instants, outcome).await?;
        if again.is_empty() {
            self.finished(&what);
        } else if round < ROUNDS {
            self.fly(what, again, round + 1, out);
        } else {
            self.finished(&what);
            let tasks = again.into_iter().map(|(task, _)| task).collect();
            self.report_failure(&what, tasks, instants, Unknown::Protocol, out).await?;
        }
        Ok(heard)
    }

    /// Plans what to read again soon; says whose locks were read.
    fn observe(&mut self, done: &[(TaskIndex, TaskReading)], sent: Mono, server: ServerTime) -> Vec<TaskIndex> {
        for (task, reading) in done {
            self.schedule.observe(*task, sent, server, reading);
        }
        let known = done.iter().filter(|(_, reading)| !matches!(reading.lock, LockReading::Unknown(_)));
        known.map(|(task, _)| *task).collect()
    }

    /// The reading of a task whose replies are too large.
    fn too_large(&self, task: TaskIndex, spec: &TaskSpec) -> TaskReading {
        let beside = self.duty.scope(task).unreadable(spec, Unknown::TooLarge);
        TaskReading { lock: LockReading::Unknown(Unknown::TooLarge), extras: Default::default(), beside }
    }

    /// Gives the connection up, and with it all that is under way.
    async fn lose(&mut self, flying: Option<Flying>, why: Unknown, out: &Out) -> Result<Heard, Gone> {
        self.lost = Some(why);
        self.wake_ups.is_up(false);
        self.link.give_up(out.clock.now());
        let others = self.flights.drain(..).map(|flight| flight.flying);
        let all: Vec<Flying> = flying.into_iter().chain(others).collect();
        for (position, Flying { what, mut question, launched, round }) in all.into_iter().enumerate() {
            let (now, tasks) = (out.clock.now(), question.tasks());
            let took = (launched, now.since_ms(launched));
            self.show(question.take_kept(), (&what, round), took, (&[], Err(why)), &out.desk);
            match (&what, why) {
                // Replies come in order: the first batch is the one whose reply it was.
                (What::Scheduled(batch), Unknown::TooLarge) if position == 0 => {
                    self.schedule.too_large(batch, &tasks, now);
                }
                _ => self.broken(&what),
            }
            self.report_failure(&what, tasks, (launched, now.since_ms(launched)), why, out).await?;
        }
        Ok(Heard { failed: Some(why), ..Heard::default() })
    }

    /// A dial is over.
    async fn greeted(&mut self, dialled: Dialled, out: &Out) -> Result<Heard, Gone> {
        let opening = self.opening.take();
        match dialled {
            Ok((connection, opened)) => {
                self.lost = None;
                let caps = connection.caps();
                let (version, role) = (connection.version().cloned(), connection.role());
                let told = role.map(Role::name);
                tracing::info!(
                    redis = &*self.redis,
                    node = &*self.address,
                    version = version.as_deref(),
                    role = told,
                    "connected"
                );
                self.link.made(connection, out.clock.now());
                self.wake_ups.is_up(true);
                out.news(&self.address, NodeNewsKind::Connected { version, role }).await?;
                let as_before = self.caps.replace(caps) == Some(caps);
                match (opening, opened) {
                    (Some(flying), Some(redis::Opened { sent, sent_wall, received, replies })) if as_before => {
                        self.landed(flying, Landing { sent, sent_wall, received, replies: Ok(replies) }, out).await
                    }
                    // It was made for another server.
                    (Some(flying), _) => {
                        self.broken(&flying.what);
                        Ok(Heard { role, ..Heard::default() })
                    }
                    (None, _) => Ok(Heard { role, ..Heard::default() }),
                }
            }
            Err(failure) => {
                if self.lost != Some(failure.why) {
                    tracing::warn!(redis = &*self.redis, node = &*self.address, %failure, "cannot connect");
                }
                out.news(&self.address, NodeNewsKind::Failed { why: failure.why }).await?;
                self.lose(opening, failure.why, out).await
            }
        }
    }

    /// What the answers are good for: whatever lives beside a lock is read of a server that decides about it.
    fn standing(&self, what: &What) -> Standing {
        if matches!(what, What::Beside(_)) { Standing::Decides } else { self.duty.standing }
    }

    /// Puts what was kept of a batch where those find it who wait for it.
    fn show(
        &self,
        kept: Vec<Kept>,
        (what, round): (&What, u8),
        (sent, took_ms): (Mono, u64),
        (all, outcome): (&[Reply], Result<&Answer, Unknown>),
        desk: &Desk,
    ) {
        let asked = match (what, self.duty.standing) {
            (What::Beside(_), _) => Asked::Beside,
            (_, Standing::Decides) => Asked::Decides,
            (_, Standing::Witness) => Asked::Witness,
        };
        for Kept { task, commands, replies } in kept {
            let Some(spec) = self.spec(task) else { continue };
            let replies = all.get(replies).unwrap_or_default();
            let reply = |position| replies.get(position);
            let pairs = commands.iter().enumerate();
            let said = pairs.map(|(position, command)| exchange::said(&spec, command, reply(position))).collect();
            let outcome = outcome.map(|answer| Worth {
                role: answer.vouch.role,
                role_verified: answer.vouch.role_verified,
                clock: answer.vouch.first,
                reading: answer.reading(task).map(|reading| exchange::decoded(&spec, reading, asked)),
            });
            let node = Arc::clone(&self.address);
            desk.put(&spec.name, Exchange { node, asked, round, sent, took_ms, said, outcome });
        }
    }

    fn spec(&self, task: TaskIndex) -> Option<Arc<TaskSpec>> {
        spec(&self.duty.all, task)
    }

    /// Whether the lock of a task is read here.
    fn owns(&self, task: TaskIndex) -> bool {
        self.duty.own.binary_search_by_key(&task, |(index, _)| *index).is_ok()
    }
}

/// Whether a reading shows that a key is not where it was thought to be.
fn has_moved(reading: &TaskReading) -> bool {
    let TaskReading { lock, beside, .. } = reading;
    let all = [
        if let LockReading::Unknown(why) = lock { Some(why) } else { None },
        if let Some(SwitchesReading::Unknown(why)) = &beside.switches { Some(why) } else { None },
        if let Some(ProgressReading::Unknown(why)) = &beside.progress { Some(why) } else { None },
        if let Some(ClaimsReading::Unknown(why)) = &beside.claims { Some(why) } else { None },
        if let Some(PauseReading::Unknown(why)) = &beside.pause { Some(why) } else { None },
    ];
    all.into_iter().flatten().any(|why| matches!(why, Unknown::Moved | Unknown::ClusterDown))
}
