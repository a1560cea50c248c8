//! One server of a redis: its connection, the schedule of its requests, and their results. Mirrors
//! `src/sampler/node.rs` and the files below it.

mod greeting;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use lockwatch_judge::input::{NodeNewsKind, Outcome, Role, Standing};
use lockwatch_judge::reading::{
    ClaimsReading, LockReading, ProgressReading, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{StoreSpec, TaskIndex, TaskSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::accept::{Caps, Timing};
use lockwatch_watch::redis::read::{Scope, TaskRead};
use lockwatch_watch::redis::reply::Reply;
use lockwatch_watch::redis::schedule::{Batch, BatchKind, Schedule, Sizes, Watched};

use super::link::Link;
use super::question::{Answer, Question};
use super::{BatchTruth, Out, PartTruth, Request, Specs};
use crate::world::World;

const FLIGHTS: usize = 4;
const HINTED_FLIGHTS: usize = FLIGHTS - 1;
const ROUNDS: u8 = 4;
const REPLICA_EVERY: u64 = 5;

/// The tasks and parts that a server is read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    pub(super) standing: Standing,
    /// Tasks whose lock is read here.
    pub(super) own: Arc<[TaskIndex]>,
    /// Tasks of which only the lock is on this server.
    pub(super) locks: Arc<BTreeSet<TaskIndex>>,
}

impl Duty {
    pub(super) fn new(standing: Standing, own: Arc<[TaskIndex]>) -> Duty {
        Duty { standing, own, locks: Arc::default() }
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: usize,
    pub(super) address: Arc<str>,
    interval_ms: u64,
    timeout_ms: u64,
    has_others: bool,
    /// Whether the server reports changes.
    listens: bool,
    duty: Duty,
    schedule: Schedule,
    role: Option<Role>,
    pulse_at: Mono,
    link: Link,
    flights: VecDeque<Flight>,
    /// Keys beside locks of other servers that are to be read.
    besides: VecDeque<BesideRead>,
    /// Replies that arrived and were not processed yet, each with the batch that it answers.
    inbound: VecDeque<(u64, Reply)>,
    /// Batches that were dropped while in flight.
    stale: Vec<u64>,
    /// The server's process at the other end of the connection.
    process: u64,
    lost: Option<Unknown>,
    caps: Option<Caps>,
    opening: Option<Flight>,
    specs: Specs,
}

/// A batch in flight.
#[derive(Debug)]
struct Flight {
    number: u64,
    what: What,
    question: Question,
    round: u8,
    sent: Mono,
    sent_wall: AgentWall,
    /// What the oracle may know of earlier rounds.
    truth: Vec<PartTruth>,
}

#[derive(Debug)]
enum What {
    Scheduled(Batch),
    Pulse,
    Beside(BesideRead),
}

impl What {
    fn joins_slots(&self) -> bool {
        matches!(self, What::Scheduled(Batch { kind: BatchKind::Regular { slots: 2.., .. }, .. }))
    }
}

/// Keys beside locks of the server `of`.
#[derive(Clone, Debug)]
struct BesideRead {
    tasks: Vec<TaskIndex>,
    of: usize,
}

/// Results that concern other servers.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) role: Option<Role>,
    pub(super) failed: Option<Unknown>,
    /// A key is not on the expected server.
    pub(super) moved: bool,
    /// Tasks whose lock was read by a deciding server.
    pub(super) read: Vec<TaskIndex>,
    /// Switches of locks on another server: the server, when they were requested, and the task.
    pub(super) switches: Vec<(usize, Mono, TaskIndex, SwitchesReading)>,
}

impl Node {
    pub(super) fn new(
        server: usize,
        address: &Arc<str>,
        redis: &StoreSpec,
        sizes: Sizes,
        specs: &Specs,
        now: Mono,
    ) -> Node {
        Node {
            server,
            address: Arc::clone(address),
            interval_ms: redis.interval_ms,
            timeout_ms: redis.timeout_ms,
            has_others: !redis.authority.alone,
            listens: false,
            duty: Duty::new(Standing::Witness, Arc::default()),
            schedule: Schedule::sized(Vec::new(), redis.interval_ms, now, sizes),
            role: None,
            pulse_at: now,
            link: Link::new(now),
            flights: VecDeque::new(),
            besides: VecDeque::new(),
            inbound: VecDeque::new(),
            stale: Vec::new(),
            process: 0,
            lost: None,
            caps: None,
            opening: None,
            specs: Arc::clone(specs),
        }
    }

    pub(super) fn connection(&self) -> Option<u64> {
        self.link.connection()
    }

    /// Returns whether tasks are read at other instants from now on.
    pub(super) fn assign(&mut self, duty: &Duty, now: Mono) -> bool {
        if self.duty == *duty {
            return false;
        }
        let old = std::mem::replace(&mut self.duty, duty.clone());
        if old.standing != self.duty.standing {
            self.begin_anew(now);
        } else if old.own != self.duty.own {
            for Flight { what, .. } in self.flights.iter_mut().chain(&mut self.opening) {
                if let What::Scheduled(batch) = what {
                    batch.detach();
                }
            }
            self.schedule.change(self.watched(), now);
        }
        true
    }

    /// The configuration was loaded again. Batches in flight were requested under the old one and
    /// are dropped.
    pub(super) fn configure(&mut self, specs: &Specs, now: Mono) {
        self.specs = Arc::clone(specs);
        self.duty = Duty::new(Standing::Witness, Arc::default());
        self.begin_anew(now);
    }

    fn begin_anew(&mut self, now: Mono) {
        self.besides.clear();
        // Replies that still arrive for these are ignored; the real sampler drops the waiting
        // tasks, not the replies.
        self.stale.extend(self.flights.drain(..).map(|flight| flight.number));
        let stale = &self.stale;
        self.inbound.retain(|(of, _)| !stale.contains(of));
        if let Some(Flight { what: What::Scheduled(batch), .. }) = self.opening.take() {
            self.schedule.broken(&batch);
        }
        let slowly = self.duty.standing == Standing::Witness && self.role != Some(Role::Master);
        let every = if slowly { REPLICA_EVERY } else { 1 };
        self.schedule = self.schedule.anew(self.watched(), self.interval_ms * every, now);
        self.pulse_at = now.plus_ms(self.interval_ms);
    }

    fn watched(&self) -> Vec<Watched> {
        let watched = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| Watched {
            proves_holders: self.has_others,
            ..Watched::new(*task, spec)
        };
        self.specs.iter().filter(|(task, _)| self.owns(*task)).map(watched).collect()
    }

    /// Whether the lock of a task is read here.
    fn owns(&self, task: TaskIndex) -> bool {
        self.duty.own.contains(&task)
    }

    /// Sends everything that is due now.
    pub(super) fn launch(&mut self, world: &mut World, out: &mut Out) {
        let now = out.now;
        self.listen(world, out);
        if self.link.next_dial().is_some_and(|at| at <= now) {
            self.dial(world, out);
        }
        if self.link.connection().is_none() {
            return self.miss(out);
        }
        self.time_out(world, out);
        while self.flights.len() < FLIGHTS
            && self.link.connection().is_some()
            && let Some(caps) = self.caps
            && let Some((what, reads)) = self.next_batch(now, caps)
        {
            out.joined += u64::from(what.joins_slots());
            self.fly(what, reads, 1, Vec::new(), world, out);
        }
        for _ in 0..self.schedule.take_skipped() {
            if self.duty.standing == Standing::Decides {
                out.news(&self.address, NodeNewsKind::TickSkipped);
            }
        }
    }

    /// The oldest batch has timed out.
    fn time_out(&mut self, world: &mut World, out: &mut Out) {
        let late = self
            .flights
            .front()
            .is_some_and(|flight| out.now.since_ms(flight.sent) >= self.timeout_ms);
        if late {
            let flight = self.flights.pop_front();
            self.lose(flight, Unknown::Timeout, world, out);
        }
    }

    fn miss(&mut self, out: &mut Out) {
        let tasks = self.schedule.missed(out.now);
        let Some(why) = self.lost else { return };
        for read in std::mem::take(&mut self.besides) {
            self.report_beside(&read, out.now, why, out);
        }
        if tasks.is_empty() || self.duty.standing == Standing::Witness {
            return;
        }
        out.failed(
            Some((self.server, &self.address)),
            self.duty.standing,
            (out.now, 0),
            tasks,
            why,
        );
    }

    /// Reads the keys beside locks on `of` as soon as possible.
    pub(super) fn read_beside(&mut self, tasks: Vec<TaskIndex>, of: usize, out: &mut Out) {
        let read = BesideRead { tasks, of };
        match (self.link.connection(), self.lost) {
            (Some(_), _) => {
                self.besides.retain(|waiting| waiting.of != read.of || waiting.tasks != read.tasks);
                self.besides.push_back(read);
            }
            (None, why) => {
                self.report_beside(&read, out.now, why.unwrap_or(Unknown::NotReadYet), out)
            }
        }
    }

    fn report_beside(&self, read: &BesideRead, now: Mono, why: Unknown, out: &mut Out) {
        out.failed_beside(Some((self.server, &self.address)), now, &read.tasks, &self.specs, why);
    }

    /// Takes in switches of one of its locks that are on another server.
    pub(super) fn observe_switches(
        &mut self,
        task: TaskIndex,
        sent: Mono,
        switches: &SwitchesReading,
    ) {
        self.schedule.observe_switches(task, sent, Some(switches));
    }

    fn next_batch(&mut self, now: Mono, caps: Caps) -> Option<(What, Vec<(TaskIndex, TaskRead)>)> {
        if let Some(read) = self.besides.pop_front() {
            let specs = read.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
            let reads = specs
                .map(|(task, spec)| (task, TaskRead::new(spec, caps, true, Scope::BESIDE)))
                .collect();
            return Some((What::Beside(read), reads));
        }
        self.schedule.allow_glances(self.listens);
        if let Some(batch) = self.schedule.due(now) {
            self.pulse_at = now.plus_ms(self.interval_ms);
            let reads = self.reads(&batch, caps);
            return Some((What::Scheduled(batch), reads));
        }
        if self.pulses() && self.pulse_at <= now {
            self.pulse_at = now.plus_ms(self.interval_ms);
            return Some((What::Pulse, Vec::new()));
        }
        let batch = self.may_follow_hints().then(|| self.schedule.due_hinted(now)).flatten()?;
        let reads = self.reads(&batch, caps);
        Some((What::Scheduled(batch), reads))
    }

    fn may_follow_hints(&self) -> bool {
        self.flights.len() < HINTED_FLIGHTS
    }

    /// Subscribes to changes of a server that decides and is believed. Anything may have changed
    /// before. Mirrors `src/sampler/wake_ups.rs`.
    fn listen(&mut self, world: &mut World, out: &Out) {
        self.listens =
            world.plan.wakes && self.duty.standing == Standing::Decides && self.link.is_believed();
        let listener = self.listens.then_some(out.life);
        let before = std::mem::replace(&mut world.listeners[out.agent][self.server], listener);
        if self.listens && before != listener {
            self.schedule.hint_all(out.now);
        }
    }

    /// Whether its notifications are followed.
    pub(super) fn decides(&self) -> bool {
        self.duty.standing == Standing::Decides
    }

    /// A key of a task has changed. If its lock is read here, it is read at once.
    pub(super) fn hint(&mut self, task: usize, now: Mono) {
        let Some(index) = self.specs.get(task).map(|(index, _)| *index) else { return };
        if self.decides() && self.owns(index) {
            self.schedule.hint(index, now);
        }
    }

    fn pulses(&self) -> bool {
        self.duty.standing == Standing::Witness && self.role != Some(Role::Master)
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        let late = self.flights.front().map(|flight| flight.sent.plus_ms(self.timeout_ms));
        let due = match self.link.connection() {
            Some(_) if self.flights.len() >= FLIGHTS => None,
            Some(_) if !self.besides.is_empty() => Some(Mono(0)),
            Some(_) => {
                let hinted = self.may_follow_hints().then(|| self.schedule.next_hinted()).flatten();
                let pulse = self.pulses().then_some(self.pulse_at);
                self.schedule.next_wake().into_iter().chain(hinted).chain(pulse).min()
            }
            None => self.schedule.next_tick().into_iter().chain(self.link.next_dial()).min(),
        };
        due.into_iter().chain(late).min()
    }

    fn reads(&self, batch: &Batch, caps: Caps) -> Vec<(TaskIndex, TaskRead)> {
        let specs = batch.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
        let read = |(task, spec)| match self.duty.standing {
            Standing::Decides => {
                let scope = if self.duty.locks.contains(&task) { Scope::LOCK } else { Scope::ALL };
                let read = TaskRead::new(spec, caps, self.schedule.asks_extras(batch, task), scope);
                let known = self.schedule.known(batch, task);
                (task, if let Some(known) = known { read.glancing_at(known) } else { read })
            }
            Standing::Witness => (task, TaskRead::new(spec, caps, false, Scope::LOCK)),
        };
        specs.map(read).collect()
    }

    fn spec(&self, task: TaskIndex) -> Option<Arc<TaskSpec>> {
        self.specs.get(task.0 as usize).map(|(_, spec)| Arc::clone(spec))
    }

    fn flight(
        &mut self,
        what: What,
        reads: Vec<(TaskIndex, TaskRead)>,
        caps: Caps,
        round: u8,
        world: &mut World,
        out: &Out,
    ) -> (Flight, Box<Request>) {
        let number = world.id();
        let nonce = format!("{number:016x}").into_bytes();
        let (question, commands) = Question::new(reads, caps, self.standing(&what), nonce);
        let request =
            Request::new(out.agent, out.life, self.server, number, commands, question.places());
        let flight = Flight {
            number,
            what,
            question,
            round,
            sent: out.now,
            sent_wall: out.wall,
            truth: Vec::new(),
        };
        (flight, Box::new(request))
    }

    fn fly(
        &mut self,
        what: What,
        reads: Vec<(TaskIndex, TaskRead)>,
        round: u8,
        truth: Vec<PartTruth>,
        world: &mut World,
        out: &mut Out,
    ) {
        let (Some(connection), Some(caps)) = (self.link.connection(), self.caps) else {
            return self.broken(&what);
        };
        let (mut flight, mut request) = self.flight(what, reads, caps, round, world, out);
        flight.truth = truth;
        self.flights.push_back(flight);
        request.connection = connection;
        request.process = self.process;
        super::send(request, world);
    }

    /// Replies have come over the connection.
    pub(super) fn arrived(
        &mut self,
        connection: u64,
        replies: Vec<(u64, Reply)>,
        world: &mut World,
        out: &mut Out,
    ) -> Vec<Heard> {
        let mut heard = Vec::new();
        if self.link.connection() != Some(connection) {
            return heard;
        }
        self.inbound.extend(replies.into_iter().filter(|(of, _)| !self.stale.contains(of)));
        while let Some(needed) = self.flights.front().map(|flight| flight.question.replies)
            && self.inbound.len() >= needed
            && self.link.connection() == Some(connection)
        {
            let Some(flight) = self.flights.pop_front() else { break };
            let taken: Vec<(u64, Reply)> = self.inbound.drain(..needed).collect();
            let own = taken.iter().all(|(of, _)| *of == flight.number);
            let replies = taken.into_iter().map(|(_, reply)| reply).collect();
            heard.push(self.landed(flight, replies, own, world, out));
        }
        heard
    }

    /// The connection broke.
    pub(super) fn broke(&mut self, connection: u64, world: &mut World, out: &mut Out) -> Heard {
        let current = self.link.connection();
        if current.is_none() || (connection != u64::MAX && current != Some(connection)) {
            return Heard::default();
        }
        // Without a batch in flight, the break goes unnoticed until the next one is sent.
        match self.flights.pop_front() {
            Some(flight) => self.lose(Some(flight), Unknown::Closed, world, out),
            None => Heard::default(),
        }
    }

    fn landed(
        &mut self,
        flight: Flight,
        replies: Vec<Reply>,
        own: bool,
        world: &mut World,
        out: &mut Out,
    ) -> Heard {
        let Flight { number, what, question, round, sent, sent_wall, truth } = flight;
        let timing = Timing { sent, received: out.now, sent_wall, timeout_ms: self.timeout_ms };
        let told = out.take_truth(number, own);
        let tasks = question.tasks();
        match question.decode(timing, &replies) {
            Ok(answer) => self.believe(what, round, timing, answer, truth, told, world, out),
            Err(why) => {
                let instants = (sent, out.now.since_ms(sent));
                self.report_failure(
                    &what,
                    tasks,
                    instants,
                    why,
                    told.map(|told| (told, truth)),
                    out,
                );
                let role = (why == Unknown::NotMaster).then_some(Role::Replica);
                if self.link.survives(why, out.now) {
                    self.schedule.forget_known();
                    self.finished(&what);
                    return Heard { role, failed: Some(why), ..Heard::default() };
                }
                self.broken(&what);
                Heard { role, ..self.lose(None, why, world, out) }
            }
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a private step of landed, which has taken its arguments apart"
    )]
    fn believe(
        &mut self,
        what: What,
        round: u8,
        timing: Timing,
        answer: Answer,
        before: Vec<PartTruth>,
        told: Option<BatchTruth>,
        world: &mut World,
        out: &mut Out,
    ) -> Heard {
        self.link.succeeded(timing.received);
        let Answer { attestation, mut done, mut again } = answer;
        let beside = if let What::Beside(read) = &what { Some(read.of) } else { None };
        if beside.is_none() {
            // Tasks may have moved to another server meanwhile, which may have answered already.
            done.retain(|(task, _)| self.owns(*task));
            again.retain(|(task, _)| self.owns(*task));
        }
        let standing = self.standing(&what);
        let moved =
            standing == Standing::Decides && done.iter().any(|(_, reading)| has_moved(reading));
        let mut heard = Heard { role: Some(attestation.role), moved, ..Heard::default() };
        let instants = (timing.sent, timing.received.since_ms(timing.sent));
        if beside.is_none() && standing == Standing::Decides {
            for (task, reading) in &done {
                self.schedule.observe(*task, timing.sent, attestation.first, reading);
            }
            let known =
                done.iter().filter(|(_, reading)| !matches!(reading.lock, LockReading::Unknown(_)));
            heard.read = known.map(|(task, _)| *task).collect();
        }
        if let Some(of) = beside {
            for (task, reading) in &done {
                let switches = reading.beside.switches.clone();
                heard.switches.extend(switches.map(|switches| (of, timing.sent, *task, switches)));
            }
        }
        // Results of this round that the next one needs.
        let open: Vec<usize> = again.iter().map(|(task, _)| task.0 as usize).collect();
        let kept: Vec<PartTruth> = match &told {
            Some(told) => told
                .parts
                .iter()
                .filter(|part| open.contains(&part.task))
                .map(|part| part.at(timing.sent))
                .collect(),
            None => Vec::new(),
        };
        let tasks: Vec<TaskIndex> = done.iter().map(|(task, _)| *task).collect();
        let node = Some((self.server, &self.address));
        out.attempt(self.server, (standing, beside.is_some()), instants, &tasks, told, before);
        let outcome = match beside {
            Some(_) => {
                let readings =
                    done.into_iter().map(|(task, reading)| (task, reading.beside)).collect();
                Outcome::Beside { attestation: Some(attestation), readings }
            }
            None => Outcome::Read { attestation, readings: done },
        };
        out.sample(node, standing, instants, outcome);
        if again.is_empty() {
            self.finished(&what);
        } else if round < ROUNDS {
            self.fly(what, again, round + 1, kept, world, out);
        } else {
            self.finished(&what);
            let tasks = again.into_iter().map(|(task, _)| task).collect();
            self.report_failure(&what, tasks, instants, Unknown::Protocol, None, out);
        }
        heard
    }

    /// The attempt gave no information about `tasks`. `told`: what the server really did.
    fn report_failure(
        &self,
        what: &What,
        tasks: Vec<TaskIndex>,
        instants: (Mono, u64),
        why: Unknown,
        told: Option<(BatchTruth, Vec<PartTruth>)>,
        out: &mut Out,
    ) {
        match what {
            What::Scheduled(_) | What::Pulse => {
                let tasks = self.own_of(tasks);
                let (told, before) = told.unzip();
                let standing = self.duty.standing;
                out.attempt(
                    self.server,
                    (standing, false),
                    instants,
                    &tasks,
                    told,
                    before.unwrap_or_default(),
                );
                out.failed(Some((self.server, &self.address)), standing, instants, tasks, why);
            }
            What::Beside(read) => self.report_beside(read, instants.0, why, out),
        }
    }

    /// The role of the answers in the decision. The keys beside a lock are read from a server that
    /// decides about them.
    fn standing(&self, what: &What) -> Standing {
        if matches!(what, What::Beside(_)) { Standing::Decides } else { self.duty.standing }
    }

    fn lose(
        &mut self,
        flight: Option<Flight>,
        why: Unknown,
        world: &mut World,
        out: &mut Out,
    ) -> Heard {
        self.lost = Some(why);
        self.schedule.forget_known();
        self.link.give_up(out.now, &mut world.rng);
        self.inbound.clear();
        let all: Vec<Flight> = flight.into_iter().chain(self.flights.drain(..)).collect();
        for Flight { what, question, sent, .. } in all {
            self.broken(&what);
            self.report_failure(
                &what,
                question.tasks(),
                (sent, out.now.since_ms(sent)),
                why,
                None,
                out,
            );
        }
        Heard { failed: Some(why), ..Heard::default() }
    }

    /// A new role may change how often a witness is read.
    pub(super) fn note_role(&mut self, heard: &Heard, now: Mono) {
        if heard.role.is_some() && heard.role != self.role {
            self.role = heard.role;
            if self.duty.standing == Standing::Witness {
                self.begin_anew(now);
            }
        }
    }

    fn own_of(&self, mut tasks: Vec<TaskIndex>) -> Vec<TaskIndex> {
        tasks.retain(|task| self.owns(*task));
        tasks
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
}

/// Whether a reading shows that a key is not on the expected server.
fn has_moved(reading: &TaskReading) -> bool {
    let TaskReading { lock, beside, .. } = reading;
    let all = [
        if let LockReading::Unknown(why) = lock { Some(why) } else { None },
        if let Some(SwitchesReading::Unknown(why)) = &beside.switches { Some(why) } else { None },
        if let Some(ProgressReading::Unknown(why)) = &beside.progress { Some(why) } else { None },
        if let Some(ClaimsReading::Unknown(why)) = &beside.claims { Some(why) } else { None },
    ];
    all.into_iter().flatten().any(|why| matches!(why, Unknown::Moved | Unknown::ClusterDown))
}
