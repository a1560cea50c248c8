//! The agent: the real watcher and the real state, over virtual connections to the servers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_judge::event::Event as ModelEvent;
use lockwatch_judge::input::{Input, NodeNewsKind, Outcome};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::{StoreIndex, TaskIndex, WatchSpec};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::driver::{Failure, LinkId, Now};
use lockwatch_watch::redis::store::HostPort;
use lockwatch_watch::zookeeper::driver::{self, Action};
use lockwatch_watch::zookeeper::store::{Assignment, Store};
use lockwatch_watch::zookeeper::watcher::Watcher;

use super::coverage::{EnsembleCoverage, Seen};
use super::plan::EnsemblePlan;
use super::servers::{Ensemble, Mode, Op};
use super::wire::{self, Request};

/// The agent's monotonic clock when the world begins.
const MONO_MS: u64 = 7_000_000;
const WALL_MS: i64 = 1_800_000_000_000;
/// A session of the agent that was silent for so long has expired, in milliseconds.
const SESSION_MS: u64 = 10_000;

/// What comes over a connection, and when.
#[derive(Debug)]
pub(crate) enum Landing {
    ToServer(u64, Vec<u8>),
    ToAgent(u64, driver::Event),
}

/// A connection as its server sees it.
#[derive(Debug)]
struct Line {
    server: usize,
    has_session: bool,
    heard: u64,
    /// What came while the server was stopped.
    kept: VecDeque<Vec<u8>>,
}

/// The agent and its connections.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) state: State,
    watcher: Watcher,
    spec: Arc<WatchSpec>,
    lines: BTreeMap<u64, Line>,
    /// Servers that nothing gets to, or comes from.
    pub(crate) cut: Vec<bool>,
    pub(crate) paused_until: u64,
    pub(crate) wall_step_ms: i64,
    /// What is under way, in order.
    pub(crate) landings: BTreeMap<(u64, u64), Landing>,
    number: u64,
    /// Accepted readings and events since the oracle looked.
    pub(crate) inputs: Vec<Input>,
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) sessions: u64,
}

pub(crate) fn mono(now: u64) -> Mono {
    Mono::at(MONO_MS + now)
}

/// The true instant of one of the agent's.
pub(crate) fn truly(at: Mono) -> u64 {
    at.ms().saturating_sub(MONO_MS)
}

fn assignment(spec: &WatchSpec, servers: usize) -> Arc<Assignment> {
    let server = |number: usize| HostPort { host: format!("zk{number}"), port: 2181 };
    Arc::new(Assignment {
        epoch: spec.epoch,
        index: StoreIndex(0),
        store: Store {
            name: "zk".into(),
            servers: (0..servers).map(server).collect(),
            interval_ms: spec.stores[0].interval_ms,
            timeout_ms: spec.stores[0].timeout_ms,
        },
        tasks: Arc::new((0..).map(TaskIndex).zip(spec.tasks.iter().cloned()).collect()),
    })
}

impl Agent {
    pub(crate) fn new(plan: &EnsemblePlan) -> Agent {
        let now = Now { mono: mono(0), wall: AgentWall(WALL_MS) };
        let mut state = State::new();
        state.step(now.mono, Input::Config(Arc::clone(&plan.spec)));
        Agent {
            state,
            watcher: Watcher::new(assignment(&plan.spec, plan.servers), now, plan.seed),
            spec: Arc::clone(&plan.spec),
            lines: BTreeMap::new(),
            cut: vec![false; plan.servers],
            paused_until: 0,
            wall_step_ms: 0,
            landings: BTreeMap::new(),
            number: 0,
            inputs: Vec::new(),
            events: Vec::new(),
            sessions: 0,
        }
    }

    fn now(&self, now: u64) -> Now {
        let wall = WALL_MS + self.wall_step_ms + i64::try_from(now).unwrap_or(0);
        Now { mono: mono(now), wall: AgentWall(wall) }
    }

    /// When something is to be done for it.
    pub(crate) fn next(&self) -> u64 {
        let wake = self.watcher.next_wake().map_or(u64::MAX, truly).max(self.paused_until);
        self.landings.keys().next().map_or(wake, |(at, _)| wake.min(*at))
    }

    pub(crate) fn reload(&mut self, now: u64) {
        let spec = WatchSpec { epoch: self.spec.epoch + 1, ..WatchSpec::clone(&self.spec) };
        self.spec = Arc::new(spec);
        self.step(Input::Config(Arc::clone(&self.spec)), now);
        let assignment = assignment(&self.spec, self.cut.len());
        let input = driver::Input::Assigned { assignment, same_logins: true };
        self.watcher.handle(self.now(now), input);
    }

    fn step(&mut self, input: Input, now: u64) {
        self.inputs.push(input.clone());
        self.events.extend(self.state.step(mono(now), input));
    }

    pub(crate) fn tick(&mut self, now: u64) {
        if self.paused_until <= now {
            self.step(Input::Tick, now);
        }
    }

    pub(crate) fn snapshot(&mut self, now: u64) -> Snapshot {
        self.state.snapshot(mono(now))
    }

    fn land(&mut self, at: u64, landing: Landing) {
        self.number += 1;
        self.landings.insert((at, self.number), landing);
    }

    /// Does what is due.
    pub(crate) fn act(
        &mut self,
        ensemble: &mut Ensemble,
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        while let Some(entry) = self.landings.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Landing::ToServer(link, frame) => {
                    self.arrived(link, frame, ensemble, coverage, now)
                }
                Landing::ToAgent(link, event) if self.paused_until > now => {
                    self.land(self.paused_until, Landing::ToAgent(link, event));
                }
                Landing::ToAgent(link, event) => {
                    let input = driver::Input::Link(LinkId(link), event);
                    self.watcher.handle(self.now(now), input);
                }
            }
        }
        if self.paused_until > now {
            return;
        }
        while let Some(action) = self.watcher.poll(self.now(now)) {
            match action {
                Action::Dial(dial) => self.dial(dial, ensemble, now),
                Action::Send { link, frames } => {
                    for frame in wire::frames(&frames) {
                        self.land(now + 1, Landing::ToServer(link.0, frame));
                    }
                }
                Action::Close(link) => {
                    let Some(line) = self.lines.get(&link.0) else { continue };
                    // What was sent before still arrives.
                    let server = line.server;
                    let is_reached = !self.cut[server];
                    if is_reached && ensemble.servers[server].mode == Mode::Serves {
                        coverage.saw(Seen::Closed);
                    }
                    self.land(now + 2, Landing::ToServer(link.0, Vec::new()));
                }
                Action::Evidence(input) => {
                    observe(&input, coverage);
                    self.step(input, now);
                }
                Action::Exchange(_) | Action::Note(_) => {}
            }
        }
    }

    fn dial(&mut self, dial: driver::Dial, ensemble: &Ensemble, now: u64) {
        let server: usize = dial.to.host[2..].parse().expect("a number");
        self.sessions += 1;
        let link = dial.link.0;
        if self.cut[server] {
            return;
        }
        if ensemble.servers[server].mode == Mode::Dead {
            return self.fail(link, Unknown::Connect, now);
        }
        let line = Line { server, has_session: false, heard: now, kept: VecDeque::new() };
        self.lines.insert(link, line);
        self.land(now + 1, Landing::ToAgent(link, driver::Event::Reached));
        self.land(now + 1, Landing::ToServer(link, dial.greeting[4..].to_vec()));
    }

    fn fail(&mut self, link: u64, why: Unknown, now: u64) {
        self.lines.remove(&link);
        let event = driver::Event::Failed(Failure::new(why, "simulated"));
        self.land(now + 1, Landing::ToAgent(link, event));
    }

    /// Something comes to a server.
    fn arrived(
        &mut self,
        link: u64,
        frame: Vec<u8>,
        ensemble: &mut Ensemble,
        coverage: &mut EnsembleCoverage,
        now: u64,
    ) {
        if frame.is_empty() {
            self.lines.remove(&link);
            return;
        }
        let Some(line) = self.lines.get_mut(&link) else { return };
        let server = line.server;
        if self.cut[server] {
            return;
        }
        let own = &ensemble.servers[server];
        match own.mode {
            Mode::Frozen => return line.kept.push_back(frame),
            Mode::Dead | Mode::Looks => return self.fail(link, Unknown::Closed, now),
            Mode::Serves | Mode::Lonely => {}
        }
        line.heard = now;
        if !line.has_session {
            let is_behind = wire::connect(&frame) > own.zxid;
            if own.mode == Mode::Lonely || own.closes || is_behind {
                coverage.saw(if is_behind { Seen::BehindAtConnect } else { Seen::Refused });
                return self.fail(link, Unknown::Closed, now);
            }
            // Without a leader that answers, the request waits for ever.
            if ensemble.commits() {
                line.has_session = true;
                let lag_ms = own.lag_ms;
                ensemble.commit(Op::Session, now);
                let frame = wire::greeting(0x2_0000 + i64::try_from(link).unwrap_or(0), 10_000);
                self.land(now + lag_ms + 3, Landing::ToAgent(link, driver::Event::Frame(frame)));
            }
            return;
        }
        if own.mode == Mode::Lonely {
            coverage.saw(Seen::PastAnswer);
        }
        let frame = match wire::request(&frame) {
            Request::Node { xid, what, path } => ensemble.answer(server, link, xid, what, &path),
            Request::Ping => wire::pong(own.zxid),
            Request::Auth => return,
            Request::Close { .. } => {
                coverage.saw(Seen::Farewell);
                self.lines.remove(&link);
                return;
            }
        };
        self.land(now + 1, Landing::ToAgent(link, driver::Event::Frame(frame)));
    }

    /// A server announces changes.
    pub(crate) fn announced(&mut self, link: u64, frame: Vec<u8>, now: u64) {
        if self.lines.get(&link).is_some_and(|line| !self.cut[line.server]) {
            self.land(now + 1, Landing::ToAgent(link, driver::Event::Frame(frame)));
        }
    }

    /// All connections to a server end.
    pub(crate) fn reset(&mut self, server: usize, now: u64) {
        let links = self.lines.iter().filter(|(_, line)| line.server == server);
        let links: Vec<u64> = links.map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.fail(link, Unknown::Closed, now));
    }

    /// A server that was stopped goes on, with what came meanwhile.
    pub(crate) fn thawed(&mut self, server: usize, now: u64) {
        let mut kept = Vec::new();
        for (link, line) in self.lines.iter_mut().filter(|(_, line)| line.server == server) {
            kept.extend(line.kept.drain(..).map(|frame| (*link, frame)));
        }
        kept.into_iter().for_each(|(link, frame)| self.land(now, Landing::ToServer(link, frame)));
    }

    /// Sessions of a silent agent end.
    pub(crate) fn expire(&mut self, now: u64) {
        let silent = |line: &Line| line.has_session && now.saturating_sub(line.heard) > SESSION_MS;
        let links = self.lines.iter().filter(|(_, line)| silent(line));
        let links: Vec<u64> = links.map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.fail(link, Unknown::Closed, now));
    }

    /// The server of the oldest connection.
    pub(crate) fn watched(&self) -> usize {
        self.lines.values().next().map_or(0, |line| line.server)
    }

    pub(crate) fn connections(&self) -> usize {
        self.lines.len()
    }
}

fn observe(input: &Input, coverage: &mut EnsembleCoverage) {
    match input {
        Input::Sample(sample) => match &sample.outcome {
            Outcome::Failed { why, .. } => coverage.unknown(*why),
            Outcome::Read { readings, .. } => {
                let whys = readings.iter().filter_map(|(_, reading)| reading.guard.why_unknown());
                whys.for_each(|why| coverage.unknown(why));
            }
            Outcome::Parts { .. } => {}
        },
        Input::Node(news) => {
            if let NodeNewsKind::Failed { why: Unknown::Behind } = news.kind {
                coverage.saw(Seen::LeftBehind);
            }
        }
        _ => {}
    }
}
