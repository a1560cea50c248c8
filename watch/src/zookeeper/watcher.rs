//! The watcher of one ensemble: has a session with one of its servers, reads each task when it is
//! due or something of it changed, and makes evidence of all results.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{
    Attestation, Input as Evidence, NodeNews, NodeNewsKind, Outcome, Role, SaidOf, Sample,
    Standing, Topology,
};
use lockwatch_judge::reading::{Parts, TaskReading, Unknown};
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::{Mono, ServerTime};

use super::codec::{self, Answer, Ask, Zxid};
use super::driver::{Action, Dial, Event, Exchange, Input};
use super::kept::Kept;
use super::line::Line;
use super::proving::{Known, Proving};
use super::read;
use super::schedule::Schedule;
use super::session::{Answered, News, Session};
use super::store::{Assignment, Store};
use super::tree::Answers;
use crate::redis::driver::{Failure, LinkId, Note, Now};

/// The pause after all servers were tried in vain, in milliseconds. No two sessions are asked for
/// within it.
const RETRY_MS: u64 = 1_000;
/// The lifetime of a session that is asked for, in milliseconds.
const SESSION_MS: u32 = 10_000;
/// So often a task is asked about again at once, if what was asked changed meanwhile.
const ROUNDS_MAX: u8 = 3;
/// So long a server may show less than another one did, in milliseconds.
const LAG_MS: u64 = 1_000;
/// The agent's wall clock is taken over by a new session if it has moved by more than this, in
/// milliseconds: the machine was suspended.
const DRIFT_MS: u64 = 10_000;

/// Watches one ensemble. Call [`Watcher::poll`] until it returns nothing: after each
/// [`Watcher::handle`], and at [`Watcher::next_wake`].
#[derive(Debug)]
pub struct Watcher {
    assignment: Arc<Assignment>,
    schedule: Schedule,
    /// What is known of the tasks, by their positions.
    known: Vec<Known>,
    /// What was read of their queues before, by their positions.
    kept: Vec<Kept>,
    line: Line,
    /// The session that reads and watches.
    main: Option<Session>,
    /// A new session that proves what the other one showed.
    proof: Option<Session>,
    dial: Redial,
    proving: Proving,
    /// Tasks that are being read, by the tag of their questions.
    readings: BTreeMap<u64, Reading>,
    /// The clock of the ensemble, which shows none of its own: the agent's wall clock at one
    /// instant. A step of that clock must not look like one of the ensemble's.
    clock: Now,
    out: Out,
}

/// Which server is tried next, and when.
#[derive(Debug)]
struct Redial {
    next: usize,
    at: Mono,
    /// Attempts in vain since the last session.
    in_vain: usize,
    why: Unknown,
    /// For so many more attempts the reason is that there is no majority.
    no_majority: usize,
    /// Why each server, by its position, could not be reached, as far as that was noted.
    noted: BTreeMap<usize, Unknown>,
    /// When to report again that nothing can be read.
    report_at: Mono,
}

impl Redial {
    /// There is no session, for this reason. What one server of an ensemble says of it, that it has
    /// no majority, explains more than that the others cannot be reached.
    fn failed(&mut self, why: Unknown, servers: usize) {
        let is_quorum = why == Unknown::Quorum;
        self.no_majority = if is_quorum { servers } else { self.no_majority.saturating_sub(1) };
        self.why = if self.no_majority > 0 { Unknown::Quorum } else { why };
    }
}

/// A task that is being read.
#[derive(Debug)]
struct Reading {
    position: usize,
    link: LinkId,
    sent: Mono,
    /// The instant that it surely shows, if its session was granted just before.
    proved: Option<Mono>,
    /// The newest change that any server had shown before.
    floor: Zxid,
    /// The first change that the server showed.
    zxid: Option<Zxid>,
    /// Questions without an answer.
    open: usize,
    round: u8,
    bytes: usize,
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

impl Out {
    /// Sends frames together with those that are about to be sent over the same connection: each
    /// write wakes both sides.
    fn send(&mut self, link: LinkId, frames: Vec<u8>) {
        match self.actions.back_mut() {
            Some(Action::Send { link: same, frames: before }) if *same == link => {
                before.extend(frames);
            }
            _ => self.actions.push_back(Action::Send { link, frames }),
        }
    }
}

impl Watcher {
    /// A watcher that begins at `now`. `seed` decides which server it tries first, so that not all
    /// agents are on one.
    pub fn new(assignment: Arc<Assignment>, now: Now, seed: u64) -> Watcher {
        let servers = u64::try_from(assignment.store.servers.len().max(1)).unwrap_or(1);
        let count = assignment.tasks.len();
        Watcher {
            schedule: Schedule::new(count, assignment.store.interval_ms, now.mono),
            known: (0..count).map(|_| Known::new(Some(now.mono))).collect(),
            kept: (0..count).map(|_| Kept::default()).collect(),
            line: Line::default(),
            main: None,
            proof: None,
            dial: Redial {
                next: usize::try_from(seed % servers).unwrap_or(0),
                at: now.mono,
                in_vain: 0,
                why: Unknown::NotReadYet,
                no_majority: 0,
                noted: BTreeMap::new(),
                report_at: now.mono.plus_ms(assignment.store.interval_ms),
            },
            proving: Proving::new(now.mono),
            readings: BTreeMap::new(),
            clock: now,
            out: Out {
                actions: VecDeque::new(),
                links: 0,
                tags: 0,
                traced: Arc::default(),
                reported: None,
            },
            assignment,
        }
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
        let main = self.main.as_ref();
        let dial = main.is_none().then_some(self.dial.at);
        let report = (!self.is_open()).then_some(self.dial.report_at);
        let tasks = self.schedule.next().filter(|_| main.is_some_and(Session::has_room));
        sessions.chain(dial).chain(report).chain(self.proof_at()).chain(tasks).min()
    }

    /// Whether there is a session that watches.
    fn is_open(&self) -> bool {
        self.main.as_ref().is_some_and(Session::is_open)
    }

    /// When to ask for a session that proves, if something waits for it.
    fn proof_at(&self) -> Option<Mono> {
        let is_missing = self.is_open() && self.proof.is_none() && !self.proving.waiting.is_empty();
        is_missing.then(|| self.proving.at())
    }

    /// Does everything that is due now.
    fn launch(&mut self, now: Now) {
        self.look_after_sessions(now);
        if self.main.is_none() && self.dial.at <= now.mono {
            self.main = self.open(self.dial.next, now.mono);
        }
        if !self.is_open() && self.dial.report_at <= now.mono {
            self.dial.report_at = now.mono.plus_ms(self.assignment.store.interval_ms);
            let all = (0..self.assignment.tasks.len()).collect();
            self.report_failed(None, all, self.dial.why, now.mono);
        }
        while self.main.as_ref().is_some_and(Session::has_room)
            && let Some(position) = self.schedule.take(now.mono)
        {
            self.begin(position, false, now.mono);
        }
        if self.proof_at().is_some_and(|at| at <= now.mono) {
            let main = self.main.as_ref().map_or(0, |main| main.position);
            let server = self.proving.server(self.assignment.store.servers.len(), main);
            self.proof = self.open(server, now.mono);
        }
        while self.proof.as_ref().is_some_and(Session::has_room)
            && let Some(position) = self.proving.queue.pop_front()
        {
            self.begin(position, true, now.mono);
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
                self.out.send(link, frames);
            }
        }
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
            greeting: codec::connect(SESSION_MS, self.line.named()),
            attempt: self.dial.in_vain,
            timeout_ms: store.timeout_ms,
        }));
        let mut session = Session::new(link, server, position, now);
        session.begins_line = self.line.is_doubted();
        Some(session)
    }

    /// Begins to read a task.
    fn begin(&mut self, position: usize, is_proof: bool, now: Mono) {
        let session = if is_proof { &self.proof } else { &self.main };
        let Some(session) = session else { return };
        self.out.tags += 1;
        let reading = Reading {
            position,
            link: session.link,
            sent: now,
            proved: session.proves(now),
            floor: if session.begins_line { Zxid::default() } else { self.line.newest() },
            zxid: None,
            open: 0,
            round: 1,
            bytes: 0,
            answers: Answers::new(),
        };
        self.readings.insert(self.out.tags, reading);
        self.go_on(self.out.tags, now);
    }

    /// Asks what is still to be asked of a reading, or ends it.
    fn go_on(&mut self, tag: u64, now: Mono) {
        let Some(reading) = self.readings.get_mut(&tag) else { return };
        let Some((_, spec)) = self.assignment.tasks.get(reading.position) else { return };
        let sessions = [&mut self.main, &mut self.proof].into_iter();
        let session = sessions.flatten().find(|session| session.link == reading.link);
        let Some(session) = session else { return };
        let mut asks = read::asks(spec, &reading.answers);
        if asks.is_empty() && reading.round < ROUNDS_MAX && read::is_torn(spec, &reading.answers) {
            reading.round += 1;
            (reading.sent, reading.proved) = (now, session.proves(now));
            reading.answers.clear();
            asks = read::asks(spec, &reading.answers);
        }
        if asks.is_empty() {
            self.end(tag, now);
            return;
        }
        reading.open = asks.len();
        let frames = session.ask(&asks, tag, now);
        self.out.send(session.link, frames);
    }

    /// A question was answered.
    fn answered(&mut self, answered: Answered, now: Mono) {
        let Answered { tag, ask, answer, zxid, bytes } = answered;
        let Some(reading) = self.readings.get_mut(&tag) else { return };
        reading.zxid.get_or_insert(zxid);
        reading.bytes += bytes;
        let spec = self.assignment.tasks.get(reading.position).map(|(_, spec)| spec);
        let is_queue = |path: &str| spec.and_then(|spec| read::folder(spec)) == Some(path);
        if let (Ask::Children(path), Some(Answer::Children(names, stat))) = (&ask, &answer)
            && is_queue(path)
            && let Some(kept) = self.kept.get(reading.position)
        {
            kept.fill((reading.link, now), (names, stat), &mut reading.answers);
        }
        reading.answers.insert(ask, answer);
        reading.open = reading.open.saturating_sub(1);
        if reading.open == 0 {
            self.go_on(tag, now);
        }
    }

    /// All of a task was read.
    fn end(&mut self, tag: u64, now: Mono) {
        let Some(reading) = self.readings.remove(&tag) else { return };
        let is_proof = self.proof.as_ref().is_some_and(|proof| proof.link == reading.link);
        let session = if is_proof { &mut self.proof } else { &mut self.main };
        let (Some(session), Some(known), Some((index, spec))) = (
            session,
            self.known.get(reading.position),
            self.assignment.tasks.get(reading.position),
        ) else {
            return;
        };
        let server = Arc::clone(&session.server);
        let zxid = reading.zxid.unwrap_or_default();
        let is_behind = zxid < reading.floor.max(known.zxid);
        session.behind = is_behind.then(|| session.behind.unwrap_or(reading.sent));
        let found = read::reading(spec, &reading.answers);
        let is_late = now.since_ms(reading.sent) > self.assignment.store.timeout_ms;
        let outcome = match (is_late, is_behind) {
            (true, _) => Err(Unknown::Late),
            (false, true) => Err(Unknown::Behind),
            (false, false) => Ok(found),
        };
        let (index, spec) = (*index, Arc::clone(spec));
        self.show(index, &server, &reading, &outcome, now);
        if let (false, Some(folder), Some(kept)) =
            (is_proof, read::folder(&spec), self.kept.get_mut(reading.position))
        {
            kept.keep((reading.link, reading.sent), folder, &reading.answers);
        }
        if !is_proof {
            let paths = reading.answers.keys().map(|ask| ask.path().into()).collect();
            self.schedule.read(reading.position, paths, reading.bytes, now);
        }
        match outcome {
            Ok(found) => {
                (self.dial.in_vain, self.dial.no_majority) = (0, 0);
                self.take((index, &spec), &server, &reading, found, now);
            }
            Err(why) if is_late => {
                self.report_failed(Some(&server), vec![reading.position], why, reading.sent);
            }
            // It may only need a moment.
            Err(_) if !is_proof => self.schedule.soon(reading.position, now),
            Err(_) => {}
        }
    }

    /// A reading of a task was accepted. Bad news waits for a proof.
    fn take(
        &mut self,
        (index, spec): (TaskIndex, &TaskSpec),
        server: &Arc<str>,
        reading: &Reading,
        found: TaskReading,
        now: Mono,
    ) {
        let Store { interval_ms, timeout_ms, .. } = self.assignment.store;
        let mut sent = reading.sent;
        let time = self.time(sent);
        let Some(known) = self.known.get_mut(reading.position) else { return };
        // A newer one was quicker, over the other session.
        if sent < known.sent {
            return;
        }
        let is_bad = known.is_bad_news(spec, &found, (sent, time));
        if is_bad {
            let pause_ms = interval_ms.saturating_add(timeout_ms);
            sent = match reading.proved {
                Some(proved) if proved >= known.sent => proved,
                None if known.is_repeated(spec, &found, (sent, pause_ms)) => return,
                Some(_) | None => {
                    self.proving.waiting.insert(reading.position);
                    return;
                }
            };
        }
        known.reported(&found, is_bad, sent, reading.zxid.unwrap_or_default());
        self.proving.waiting.remove(&reading.position);
        self.report_read(index, server, sent, found, now);
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
                session.reached = Some(now.mono);
                return;
            }
            Event::Frame(frame) => session.take(&frame, now.mono),
            Event::TooLarge { header, bytes } => session.take_too_large(&header, bytes),
            Event::Failed(failure) => Err(failure),
        };
        match news {
            Ok(News::Granted) => self.granted(is_proof, now),
            Ok(News::Answered(answered)) => {
                self.shown(is_proof, answered.zxid);
                self.answered(answered, now.mono);
            }
            Ok(News::Shown(zxid)) => self.shown(is_proof, zxid),
            // The other session is about to end.
            Ok(News::Changed(path)) if !is_proof => {
                for position in self.schedule.changed(&path) {
                    if let Some(kept) = self.kept.get_mut(position) {
                        kept.changed(&path);
                    }
                }
            }
            Ok(News::Changed(_) | News::Nothing) => {}
            Err(failure) => self.lost(is_proof, failure, now),
        }
        self.end_sessions(now);
    }

    /// A server showed its newest change.
    fn shown(&mut self, is_proof: bool, zxid: Zxid) {
        let session = if is_proof { &mut self.proof } else { &mut self.main };
        let begins = session.as_mut().is_some_and(|it| core::mem::take(&mut it.begins_line));
        if begins && self.line.begins(zxid) {
            self.known.iter_mut().for_each(|known| known.zxid = Zxid::default());
        }
        self.line.shows(zxid);
    }

    /// Ends the session that proved once nothing waits for it, and one that stays behind.
    fn end_sessions(&mut self, now: Now) {
        let is_asked = |session: &Session, readings: &BTreeMap<u64, Reading>| {
            readings.values().any(|reading| reading.link == session.link)
        };
        let is_over = self.proving.queue.is_empty();
        let readings = &self.readings;
        let proof =
            self.proof.take_if(|proof| is_over && proof.is_open() && !is_asked(proof, readings));
        if let Some(proof) = proof {
            self.dismiss(proof);
            // Nothing is known of that server any more.
            self.out.reported = None;
            if let Some(main) = self.main.as_ref().filter(|main| main.is_open()) {
                let server = Arc::clone(&main.server);
                self.report_topology(&server);
            }
        }
        let behind = self.main.as_ref().and_then(|main| main.behind);
        if behind.is_some_and(|since| now.mono.since_ms(since) >= LAG_MS) {
            let words = "the server is behind what another one showed";
            self.lost(false, Failure::new(Unknown::Behind, words), now);
        }
    }

    /// Ends a session that is not wanted any more.
    fn dismiss(&mut self, mut session: Session) {
        let link = session.link;
        let farewell = session.farewell().map(|frames| Action::Send { link, frames });
        self.out.actions.extend(farewell.into_iter().chain([Action::Close(link)]));
    }

    /// A server granted a session.
    fn granted(&mut self, is_proof: bool, now: Now) {
        self.line.granted();
        match &self.proof {
            Some(proof) if is_proof => {
                self.proving.granted(proof.position, &self.known, now.mono);
            }
            _ => self.watches(now),
        }
    }

    /// The main session was granted: all tasks are read at once, because what happened without a
    /// session is not known.
    fn watches(&mut self, now: Now) {
        let Some(main) = &self.main else { return };
        let server = Arc::clone(&main.server);
        let drift_ms = now.wall.0.saturating_sub(self.time(now.mono).ms());
        if drift_ms.unsigned_abs() > DRIFT_MS {
            self.clock = now;
        }
        self.dial.noted.clear();
        self.report_topology(&server);
        self.news(&server, NodeNewsKind::Connected { version: None, role: Some(Role::Member) });
        self.note(Note::Connected { node: server, version: None, role: None });
        self.schedule.all_at_once(now.mono);
    }

    /// A session is over, or was not granted.
    fn lost(&mut self, is_proof: bool, failure: Failure, now: Now) {
        let slot = if is_proof { &mut self.proof } else { &mut self.main };
        let Some(session) = slot.take() else { return };
        let (position, server) = (session.position, Arc::clone(&session.server));
        let mut failure = failure;
        if session.reached.is_some() && !session.is_open() && failure.why == Unknown::Closed {
            let words = "the server closed the connection instead of granting a session: it has no \
                         majority of the ensemble behind it, or older data than others showed, or \
                         too many connections from here (`maxClientCnxns`)";
            failure = Failure::new(Unknown::Quorum, words);
            if !is_proof {
                self.line.refused(self.assignment.store.servers.len());
            }
        }
        let is_brief = session.is_open() && now.mono.since_ms(session.asked) < RETRY_MS;
        let mut tasks = self.stop_reading(&session);
        self.dismiss(session);
        self.news(&server, NodeNewsKind::Failed { why: failure.why });
        let words = failure.detail.as_str().into();
        self.news(&server, NodeNewsKind::Said { why: failure.why, words });
        if is_proof {
            self.no_proof(now.mono);
            return;
        }
        tasks.extend(core::mem::take(&mut self.proving.waiting));
        self.report_failed(Some(&server), tasks, failure.why, now.mono);
        self.dial.failed(failure.why, self.assignment.store.servers.len());
        self.dial.report_at = now.mono.plus_ms(self.assignment.store.interval_ms);
        if self.dial.noted.insert(position, failure.why) != Some(failure.why) {
            self.note(Note::CannotConnect(server, failure));
        }
        self.redial(position, is_brief, now);
    }

    /// Forgets what is being read over a session. Returns the positions of those tasks.
    fn stop_reading(&mut self, session: &Session) -> Vec<usize> {
        let mut tasks = Vec::new();
        self.readings.retain(|_, reading| {
            let is_on_it = reading.link == session.link;
            tasks.extend(is_on_it.then_some(reading.position));
            !is_on_it
        });
        tasks
    }

    /// The session with the server at this position is over: another one is to watch.
    fn redial(&mut self, position: usize, is_brief: bool, now: Now) {
        let servers = self.assignment.store.servers.len().max(1);
        self.dial.next = (position + 1) % servers;
        self.dial.in_vain += 1;
        let waits = is_brief || self.dial.in_vain.is_multiple_of(servers);
        self.dial.at = now.mono.plus_ms(if waits { RETRY_MS } else { 0 });
        self.proving.queue.clear();
        if let Some(proof) = self.proof.take() {
            self.stop_reading(&proof);
            self.main = Some(proof);
            if self.is_open() {
                self.watches(now);
            }
        }
    }

    /// A server gave no proof. If none does, what waits is unknown. The session that watches goes
    /// on: it may be right, and what it shows of other tasks is no bad news.
    fn no_proof(&mut self, now: Mono) {
        self.proving.queue.clear();
        let unproved = self.proving.refused(self.assignment.store.servers.len(), now);
        let Some(server) = self.main.as_ref().map(|main| Arc::clone(&main.server)) else { return };
        for position in unproved {
            let Some((index, spec)) = self.assignment.tasks.get(position) else { continue };
            let (task, why) = (*index, Unknown::Quorum);
            let found = TaskReading { guard: spec.kind.unknown(why), parts: Parts::default() };
            let words = "no server grants a new session (no majority, or `maxClientCnxns` is \
                         reached), so what is read may be of the past";
            let said = SaidOf { task, why, words: words.into() };
            self.news(&server, NodeNewsKind::SaidOf(vec![said]));
            self.report_read(task, &server, now, found, now);
        }
    }

    /// Applies a new assignment. What is being read belongs to the old one and is dropped.
    fn reassign(&mut self, assignment: Arc<Assignment>, same_logins: bool, now: Now) {
        let old = core::mem::replace(&mut self.assignment, assignment);
        let (before, after) = (&old.store.servers, &self.assignment.store.servers);
        let is_same = before == after && same_logins;
        if !after.iter().any(|server| before.contains(server)) {
            self.line.over();
        }
        let count = self.assignment.tasks.len();
        self.schedule = Schedule::new(count, self.assignment.store.interval_ms, now.mono);
        // The state may know a task for longer than this watcher.
        self.known = (0..count).map(|_| Known::new(None)).collect();
        self.kept = (0..count).map(|_| Kept::default()).collect();
        self.readings.clear();
        self.proving = Proving::new(now.mono);
        self.out.reported = None;
        let over = [self.main.take_if(|_| !is_same), self.proof.take()];
        over.into_iter().flatten().for_each(|session| self.dismiss(session));
        if !is_same {
            self.dial.next %= self.assignment.store.servers.len().max(1);
            self.dial.at = now.mono;
        } else if let Some(main) = self.main.as_ref().filter(|main| main.is_open()) {
            let server = Arc::clone(&main.server);
            self.report_topology(&server);
        }
    }

    /// The ensemble's clock at an instant of the agent's.
    fn time(&self, at: Mono) -> ServerTime {
        let [later, earlier] = [at.since_ms(self.clock.mono), self.clock.mono.since_ms(at)];
        let [later, earlier] = [later, earlier].map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        ServerTime::at(self.clock.wall.0).plus_ms(later).plus_ms(-earlier)
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
        sent: Mono,
        found: TaskReading,
        now: Mono,
    ) {
        let attestation = Attestation {
            generation: Some(self.line.generation()),
            offset: self.line.offset(),
            role: Role::Member,
            ..Attestation::master(self.time(sent), self.time(now))
        };
        let outcome = Outcome::Read { attestation, readings: vec![(task, found)] };
        self.sample(Some(server), sent, now.since_ms(sent), outcome);
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
        now: Mono,
    ) {
        if !self.out.traced.contains(&task) {
            return;
        }
        self.out.actions.push_back(Action::Exchange(Box::new(Exchange {
            task,
            node: Arc::clone(server),
            sent: reading.sent,
            took_ms: now.since_ms(reading.sent),
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
