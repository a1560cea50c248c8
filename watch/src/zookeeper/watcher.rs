//! The watcher of one ensemble: has a session with one of its servers, reads each task when it is
//! due or something of it changed, and makes evidence of all results.
//!
//! A server that has lost its majority goes on to answer for a while, with the past. That nobody
//! has a lock is therefore believed only of a server that has just granted a new session, which
//! takes a majority. Until then such a reading is held back.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{
    Attestation, Input as Evidence, NodeNews, NodeNewsKind, Outcome, Role, Sample, Standing,
    Topology,
};
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;
use lockwatch_judge::time::{Mono, ServerTime};

use super::codec::{self, Answer, Ask};
use super::driver::{Action, Dial, Event, Exchange, Input};
use super::line::Line;
use super::read;
use super::session::{News, Session};
use super::store::Assignment;
use super::tree::Answers;
use crate::redis::driver::{Failure, LinkId, Note, Now};

/// After a hint, a task is read again no sooner than this after its last reading, in milliseconds.
const HINT_PAUSE_MS: u64 = 20;
/// So long a proof holds, in milliseconds.
const PROOF_MS: u64 = 5_000;
/// The pause between two proofs, in milliseconds: each session costs the ensemble two changes.
const PROOF_PAUSE_MS: u64 = 1_000;
/// The pause after all servers were tried in vain, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// The lifetime of a session that is asked for, in milliseconds.
const SESSION_MS: u32 = 10_000;
/// So often a task is asked about again at once, if what was asked changed meanwhile.
const ROUNDS_MAX: u8 = 3;

/// Watches one ensemble. Call [`Watcher::poll`] until it returns nothing: after each
/// [`Watcher::handle`], and at [`Watcher::next_wake`].
#[derive(Debug)]
pub struct Watcher {
    assignment: Arc<Assignment>,
    tasks: Vec<Task>,
    line: Line,
    /// The session that reads and watches.
    main: Option<Session>,
    /// A new session that proves what the other one showed.
    proof: Option<Session>,
    dial: Redial,
    proving: Proving,
    /// Tasks that are being read, by the tag of their questions.
    readings: BTreeMap<u64, Reading>,
    out: Out,
}

/// When a task is read.
#[derive(Debug)]
struct Task {
    due: Mono,
    /// When it was read last.
    read: Mono,
    is_hinted: bool,
    is_busy: bool,
    /// When it was read last over a new session.
    proved: Option<Mono>,
    /// The paths that its newest reading asked about.
    paths: BTreeSet<alloc::string::String>,
}

impl Task {
    fn due(&self) -> Mono {
        match self.is_hinted {
            true => self.due.min(self.read.plus_ms(HINT_PAUSE_MS)),
            false => self.due,
        }
    }
}

/// Which server is tried next, and when.
#[derive(Debug)]
struct Redial {
    next: usize,
    at: Mono,
    /// Attempts in vain since the last session.
    in_vain: usize,
    why: Unknown,
    /// When to report again that nothing can be read.
    report_at: Mono,
}

/// What waits for a proof.
#[derive(Debug)]
struct Proving {
    /// The positions of tasks.
    waiting: BTreeSet<usize>,
    /// So many servers gave none.
    in_vain: usize,
    /// When to ask for the next one.
    at: Mono,
}

/// A task that is being read.
#[derive(Debug)]
struct Reading {
    position: usize,
    link: LinkId,
    sent: Now,
    /// Questions without an answer.
    open: usize,
    round: u8,
    answers: Answers,
}

/// What the driver is to do, and what all of it carries.
#[derive(Debug)]
struct Out {
    actions: VecDeque<Action>,
    links: u64,
    tags: u64,
    traced: Arc<BTreeSet<TaskIndex>>,
    reported: Option<Topology>,
}

impl Watcher {
    /// A watcher that begins at `now`. `seed` decides which server it tries first, so that not all
    /// agents are on one.
    pub fn new(assignment: Arc<Assignment>, now: Now, seed: u64) -> Watcher {
        let servers = u64::try_from(assignment.store.servers.len().max(1)).unwrap_or(1);
        let mut watcher = Watcher {
            tasks: Vec::new(),
            line: Line::default(),
            main: None,
            proof: None,
            dial: Redial {
                next: usize::try_from(seed % servers).unwrap_or(0),
                at: now.mono,
                in_vain: 0,
                why: Unknown::NotReadYet,
                report_at: now.mono,
            },
            proving: Proving { waiting: BTreeSet::new(), in_vain: 0, at: now.mono },
            readings: BTreeMap::new(),
            out: Out {
                actions: VecDeque::new(),
                links: 0,
                tags: 0,
                traced: Arc::default(),
                reported: None,
            },
            assignment,
        };
        watcher.begin_tasks(now.mono);
        watcher
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Link(link, event) => self.happened(link, event, now),
            Input::Assigned { assignment, same_logins } => {
                self.reassign(assignment, same_logins, now);
            }
            Input::Traced(tasks) => self.out.traced = tasks,
        }
    }

    /// The next thing to do at `now`; `None`: nothing until [`Watcher::next_wake`].
    pub fn poll(&mut self, now: Now) -> Option<Action> {
        if self.out.actions.is_empty() {
            self.launch(now);
        }
        self.out.actions.pop_front()
    }

    /// When to call [`Watcher::poll`] again if nothing happens.
    pub fn next_wake(&self) -> Option<Mono> {
        let timeout_ms = self.assignment.store.timeout_ms;
        let sessions = [&self.main, &self.proof].into_iter().flatten();
        let sessions = sessions.map(|session| session.next_wake(timeout_ms));
        let is_open = self.main.as_ref().is_some_and(Session::is_open);
        let dial = self.main.is_none().then_some(self.dial.at);
        let report = (!is_open).then_some(self.dial.report_at);
        let is_waiting = !self.proving.waiting.is_empty() && self.proof.is_none();
        let proof = is_waiting.then_some(self.proving.at);
        let tasks = self.tasks.iter().filter(|task| is_open && !task.is_busy).map(Task::due);
        sessions.chain(dial).chain(report).chain(proof).chain(tasks).min()
    }

    /// Does everything that is due now.
    fn launch(&mut self, now: Now) {
        self.look_after_sessions(now);
        if self.main.is_none() && self.dial.at <= now.mono {
            self.main = self.open(self.dial.next, now.mono);
        }
        if self.main.as_ref().is_some_and(Session::is_open) {
            for position in self.due(now.mono) {
                self.begin(position, false, now);
            }
        } else if self.dial.report_at <= now.mono {
            self.dial.report_at = now.mono.plus_ms(self.assignment.store.interval_ms);
            let all = (0..self.tasks.len()).collect();
            self.report_failed(None, all, self.dial.why, now.mono);
        }
        let is_waiting = !self.proving.waiting.is_empty() && self.proof.is_none();
        if is_waiting && self.proving.at <= now.mono {
            self.proof = self.open(self.next_prover(), now.mono);
        }
    }

    /// Closes sessions whose server owes an answer for too long, and pings the others.
    fn look_after_sessions(&mut self, now: Now) {
        let timeout_ms = self.assignment.store.timeout_ms;
        for is_proof in [false, true] {
            let session = if is_proof { &mut self.proof } else { &mut self.main };
            let Some(session) = session else { continue };
            if session.is_overdue(timeout_ms, now.mono) {
                let what = if session.is_open() { "answers" } else { "grants a session" };
                let words = alloc::format!("nobody {what} within {timeout_ms} ms");
                self.lost(is_proof, Failure::new(Unknown::Timeout, words), now);
            } else if let Some(frames) = session.ping(now.mono) {
                let link = session.link;
                self.out.actions.push_back(Action::Send { link, frames });
            }
        }
    }

    /// The positions of the tasks to be read now.
    fn due(&self, now: Mono) -> Vec<usize> {
        let is_due = |task: &Task| !task.is_busy && task.due() <= now;
        let due = self.tasks.iter().enumerate().filter(|(_, task)| is_due(task));
        due.map(|(position, _)| position).collect()
    }

    /// Begins with all tasks, each at another instant of the interval.
    fn begin_tasks(&mut self, now: Mono) {
        let interval_ms = self.assignment.store.interval_ms;
        let count = self.assignment.tasks.len();
        let offset_ms = |position: usize| {
            let [position, count] =
                [position, count.max(1)].map(|it| u64::try_from(it).unwrap_or(1));
            position.saturating_mul(interval_ms) / count
        };
        let begin = |position| Task {
            due: now.plus_ms(offset_ms(position)),
            read: Mono::at(0),
            is_hinted: false,
            is_busy: false,
            proved: None,
            paths: BTreeSet::new(),
        };
        self.tasks = (0..count).map(begin).collect();
    }

    /// Asks for a session with the server at this position.
    fn open(&mut self, position: usize, now: Mono) -> Option<Session> {
        let store = &self.assignment.store;
        let to = store.servers.get(position)?.clone();
        self.out.links += 1;
        let link = LinkId(self.out.links);
        let server: Arc<str> = to.to_string().into();
        self.out.actions.push_back(Action::Dial(Dial {
            link,
            to,
            greeting: codec::connect(SESSION_MS, self.line.newest()),
            attempt: self.dial.in_vain,
            timeout_ms: store.timeout_ms,
        }));
        Some(Session::new(link, server, position, now))
    }

    /// Begins to read a task.
    fn begin(&mut self, position: usize, is_proof: bool, now: Now) {
        let session = if is_proof { &self.proof } else { &self.main };
        let (Some(session), Some(task)) = (session, self.tasks.get_mut(position)) else { return };
        task.is_busy = true;
        task.is_hinted = false;
        task.due = now.mono.plus_ms(self.assignment.store.interval_ms);
        self.out.tags += 1;
        let reading = Reading {
            position,
            link: session.link,
            sent: now,
            open: 0,
            round: 1,
            answers: Answers::new(),
        };
        self.readings.insert(self.out.tags, reading);
        self.go_on(self.out.tags, now);
    }

    /// Asks what is still to be asked of a reading, or ends it.
    fn go_on(&mut self, tag: u64, now: Now) {
        let Some(reading) = self.readings.get_mut(&tag) else { return };
        let Some((_, spec)) = self.assignment.tasks.get(reading.position) else { return };
        let mut asks = read::asks(spec, &reading.answers);
        if asks.is_empty() && reading.round < ROUNDS_MAX && read::is_torn(spec, &reading.answers) {
            reading.round += 1;
            reading.sent = now;
            reading.answers.clear();
            asks = read::asks(spec, &reading.answers);
        }
        if asks.is_empty() {
            self.end(tag, now);
            return;
        }
        reading.open = asks.len();
        let session = [&mut self.main, &mut self.proof].into_iter().flatten();
        let mut session = session.filter(|session| session.link == reading.link);
        if let Some(session) = session.next() {
            let frames = session.ask(&asks, tag, now.mono);
            self.out.actions.push_back(Action::Send { link: session.link, frames });
        }
    }

    /// A question was answered.
    fn answered(&mut self, tag: u64, ask: Ask, answer: Option<Answer>, now: Now) {
        let Some(reading) = self.readings.get_mut(&tag) else { return };
        reading.answers.insert(ask, answer);
        reading.open = reading.open.saturating_sub(1);
        if reading.open == 0 {
            self.go_on(tag, now);
        }
    }

    /// All of a task was read.
    fn end(&mut self, tag: u64, now: Now) {
        let Some(reading) = self.readings.remove(&tag) else { return };
        let is_proof = self.proof.as_ref().is_some_and(|proof| proof.link == reading.link);
        let session = if is_proof { &self.proof } else { &self.main };
        let (Some(session), Some((index, spec))) =
            (session, self.assignment.tasks.get(reading.position))
        else {
            return;
        };
        let (server, zxid) = (Arc::clone(&session.server), session.zxid);
        let found = read::reading(spec, &reading.answers);
        let took_ms = now.mono.since_ms(reading.sent.mono);
        let outcome = if took_ms > self.assignment.store.timeout_ms {
            Err(Unknown::Late)
        } else if self.line.shows(zxid) {
            Err(Unknown::Behind)
        } else {
            Ok(found)
        };
        let (index, spec) = (*index, Arc::clone(spec));
        self.show(index, &server, &reading, &outcome, now);
        let Some(task) = self.tasks.get_mut(reading.position) else { return };
        task.read = reading.sent.mono;
        task.paths = reading.answers.keys().map(|ask| ask.path().into()).collect();
        if is_proof {
            task.proved = Some(reading.sent.mono);
            self.proving.waiting.remove(&reading.position);
        }
        let needs_proof = outcome.as_ref().is_ok_and(|found| read::is_bad_news(&spec, found))
            && task.proved.is_none_or(|at| now.mono.since_ms(at) > PROOF_MS);
        match outcome {
            Ok(_) if needs_proof => {
                // It stays busy until it was read again over a new session.
                self.proving.waiting.insert(reading.position);
                return;
            }
            Ok(found) => self.report_read(index, &server, &reading, found, now),
            Err(why) => {
                self.report_failed(Some(&server), vec![reading.position], why, reading.sent.mono);
            }
        }
        if let Some(task) = self.tasks.get_mut(reading.position) {
            task.is_busy = false;
        }
        if is_proof {
            self.end_proof(now);
        }
    }
}

impl Watcher {
    /// Something happened on a connection.
    fn happened(&mut self, link: LinkId, event: Event, now: Now) {
        let is_proof = self.proof.as_ref().is_some_and(|session| session.link == link);
        let session = if is_proof { &mut self.proof } else { &mut self.main };
        let Some(session) = session.as_mut().filter(|session| session.link == link) else { return };
        let news = match event {
            Event::Reached => {
                session.was_reached = true;
                return;
            }
            Event::Frame { received: _, frame } => session.take(&frame),
            Event::Failed(failure) => Err(failure),
        };
        match news {
            Ok(News::Granted) => self.granted(is_proof, now),
            Ok(News::Answered(tag, ask, answer)) => self.answered(tag, ask, answer, now),
            Ok(News::Changed(path)) => self.changed(&path),
            Ok(News::Nothing) => {}
            Err(failure) => self.lost(is_proof, failure, now),
        }
    }

    /// What is at this path changed: the tasks with it are read at once.
    fn changed(&mut self, path: &str) {
        for task in self.tasks.iter_mut().filter(|task| task.paths.contains(path)) {
            task.is_hinted = true;
        }
    }

    /// A server granted a session.
    fn granted(&mut self, is_proof: bool, now: Now) {
        self.line.granted();
        if is_proof {
            let waiting: Vec<usize> = self.proving.waiting.iter().copied().collect();
            for position in waiting {
                self.begin(position, true, now);
            }
            return;
        }
        self.dial.in_vain = 0;
        let Some(server) = self.main.as_ref().map(|main| Arc::clone(&main.server)) else { return };
        self.report_topology(&server);
        self.news(&server, NodeNewsKind::Connected { version: None, role: Some(Role::Member) });
        self.note(Note::Connected { node: server, version: None, role: None });
        // All tasks at once: what happened without a session is not known.
        for position in 0..self.tasks.len() {
            if self.tasks.get(position).is_some_and(|task| !task.is_busy) {
                self.begin(position, false, now);
            }
        }
    }

    /// A session is over, or was not granted.
    fn lost(&mut self, is_proof: bool, failure: Failure, now: Now) {
        let slot = if is_proof { &mut self.proof } else { &mut self.main };
        let Some(session) = slot.take() else { return };
        self.out.actions.push_back(Action::Close(session.link));
        let servers = self.assignment.store.servers.len();
        let mut failure = failure;
        if session.was_reached && !session.is_open() && failure.why == Unknown::Closed {
            self.line.refused(servers);
            let words = "the server closed the connection instead of granting a session: it has no \
                         majority of the ensemble behind it, or older data than others showed";
            failure = Failure::new(Unknown::Quorum, words);
        }
        let mut tasks = Vec::new();
        self.readings.retain(|_, reading| {
            let is_on_it = reading.link == session.link;
            tasks.extend(is_on_it.then_some(reading.position));
            !is_on_it
        });
        self.news(&session.server, NodeNewsKind::Failed { why: failure.why });
        let words = failure.detail.as_str().into();
        self.news(&session.server, NodeNewsKind::Said { why: failure.why, words });
        if is_proof {
            self.no_proof(failure.why, now);
            return;
        }
        for position in &tasks {
            if let Some(task) = self.tasks.get_mut(*position) {
                task.is_busy = false;
            }
        }
        self.report_failed(Some(&session.server), tasks, failure.why, now.mono);
        self.dial.why = failure.why;
        self.dial.next = (session.position + 1) % servers.max(1);
        self.dial.in_vain += 1;
        let is_round = self.dial.in_vain.is_multiple_of(servers.max(1));
        self.dial.at = now.mono.plus_ms(if is_round { RETRY_MS } else { 0 });
        self.dial.report_at = now.mono.plus_ms(self.assignment.store.interval_ms);
        self.note(Note::CannotConnect(session.server, failure));
    }

    /// The place of the server that is asked for a new session: another one than that of the
    /// session that watches, if there is one.
    fn next_prover(&self) -> usize {
        let main = self.main.as_ref().map_or(self.dial.next, |main| main.position);
        (main + 1 + self.proving.in_vain) % self.assignment.store.servers.len().max(1)
    }

    /// A server gave no proof. The next one is asked; if none gives it, what waits is unknown.
    fn no_proof(&mut self, why: Unknown, now: Now) {
        self.proving.in_vain += 1;
        self.proving.at = now.mono;
        if self.proving.in_vain < self.assignment.store.servers.len() {
            return;
        }
        self.proving.in_vain = 0;
        self.proving.at = now.mono.plus_ms(PROOF_PAUSE_MS);
        let waiting: Vec<usize> = core::mem::take(&mut self.proving.waiting).into_iter().collect();
        for position in &waiting {
            if let Some(task) = self.tasks.get_mut(*position) {
                task.is_busy = false;
            }
        }
        self.report_failed(None, waiting, why, now.mono);
    }

    /// Ends the session that proved, once nothing waits for it.
    fn end_proof(&mut self, now: Now) {
        let is_over = self.proving.waiting.is_empty();
        let Some(mut session) = self.proof.take_if(|_| is_over) else { return };
        let (link, frames) = (session.link, session.farewell());
        self.out.actions.extend([Action::Send { link, frames }, Action::Close(link)]);
        self.proving.in_vain = 0;
        self.proving.at = now.mono.plus_ms(PROOF_PAUSE_MS);
    }

    /// Applies a new assignment. What is being read belongs to the old one and is dropped.
    fn reassign(&mut self, assignment: Arc<Assignment>, same_logins: bool, now: Now) {
        let same_servers = self.assignment.store.servers == assignment.store.servers;
        self.assignment = assignment;
        self.readings.clear();
        self.proving.waiting.clear();
        self.out.reported = None;
        let over = match same_servers && same_logins {
            true => [None, self.proof.take()],
            false => [self.main.take(), self.proof.take()],
        };
        let closed = over.into_iter().flatten().map(|session| Action::Close(session.link));
        self.out.actions.extend(closed);
        if !(same_servers && same_logins) {
            self.line = Line::default();
            self.dial.next = 0;
            self.dial.at = now.mono;
        } else if let Some(server) = self.main.as_ref().filter(|main| main.is_open()) {
            let server = Arc::clone(&server.server);
            self.report_topology(&server);
        }
        self.begin_tasks(now.mono);
    }

    fn report_topology(&mut self, server: &Arc<str>) {
        let store = &self.assignment.store;
        let topology = Topology {
            epoch: self.assignment.epoch,
            store: self.assignment.index,
            masters: Ok(vec![Arc::clone(server)]),
            nodes: store.servers.iter().map(|server| server.to_string().into()).collect(),
            announcers: Vec::new(),
            uncovered: 0,
        };
        if self.out.reported.as_ref() != Some(&topology) {
            self.out.reported = Some(topology.clone());
            self.out.actions.push_back(Action::Evidence(Evidence::Topology(topology)));
        }
    }

    fn report_read(
        &mut self,
        task: TaskIndex,
        server: &Arc<str>,
        reading: &Reading,
        found: TaskReading,
        now: Now,
    ) {
        let sent = reading.sent;
        let attestation = Attestation {
            generation: Some(self.line.generation()),
            offset: self.line.offset(),
            role: Role::Member,
            // The ensemble shows no clock of its own.
            ..Attestation::master(ServerTime::at(sent.wall.0), ServerTime::at(now.wall.0))
        };
        let readings = vec![(task, found)];
        let outcome = Outcome::Read { attestation, readings };
        self.sample(Some(server), sent.mono, now.mono.since_ms(sent.mono), outcome);
    }

    /// These tasks, by their positions, were not read.
    fn report_failed(
        &mut self,
        server: Option<&Arc<str>>,
        positions: Vec<usize>,
        why: Unknown,
        sent: Mono,
    ) {
        if positions.is_empty() {
            return;
        }
        let task = |position: usize| self.assignment.tasks.get(position).map(|(task, _)| *task);
        let tasks = positions.into_iter().filter_map(task).collect();
        self.sample(server, sent, 0, Outcome::Failed { tasks, why });
    }

    fn sample(&mut self, server: Option<&Arc<str>>, sent: Mono, took_ms: u64, outcome: Outcome) {
        self.out.actions.push_back(Action::Evidence(Evidence::Sample(Sample {
            epoch: self.assignment.epoch,
            store: self.assignment.index,
            node: server.cloned(),
            standing: Standing::Decides,
            sent,
            took_ms,
            outcome,
        })));
    }

    fn news(&mut self, server: &Arc<str>, kind: NodeNewsKind) {
        self.out.actions.push_back(Action::Evidence(Evidence::Node(NodeNews {
            epoch: self.assignment.epoch,
            store: self.assignment.index,
            node: Arc::clone(server),
            kind,
        })));
    }

    fn note(&mut self, note: Note) {
        self.out.actions.push_back(Action::Note(note));
    }

    /// Shows what was asked about a task to those who trace it.
    fn show(
        &mut self,
        task: TaskIndex,
        server: &Arc<str>,
        reading: &Reading,
        outcome: &Result<TaskReading, Unknown>,
        now: Now,
    ) {
        if !self.out.traced.contains(&task) {
            return;
        }
        self.out.actions.push_back(Action::Exchange(Box::new(Exchange {
            task,
            node: Arc::clone(server),
            sent: reading.sent.mono,
            took_ms: now.mono.since_ms(reading.sent.mono),
            said: reading
                .answers
                .iter()
                .map(|(ask, answer)| (ask.clone(), answer.clone()))
                .collect(),
            zxid: self.line.newest(),
            reading: outcome.clone(),
        })));
    }
}
