//! A watcher of three servers that do what a test says, without a network: replies come at once,
//! and time passes only in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwatch_judge::input::{Attestation, Input as Evidence, NodeNewsKind, Outcome};
use lockwatch_judge::reading::{GuardReading, LockReading, TaskReading, Unknown};
use lockwatch_judge::spec::{LockSpec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::driver::{Failure, LinkId, Now};
use lockwatch_watch::redis::store::HostPort;
use lockwatch_watch::zookeeper::driver::{Action, Event, Input};
use lockwatch_watch::zookeeper::store::{Assignment, Store};
use lockwatch_watch::zookeeper::watcher::Watcher;

use super::wire::{self, Request, Stat, What};

/// What a server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// It answers those who have a session, and grants none.
    GrantsNone,
    /// Nobody listens.
    Down,
    /// It says nothing.
    Silent,
    /// It grants a session and closes it.
    ClosesAtOnce,
}

/// A server with its own copy of the data.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) mood: Mood,
    pub(super) zxid: i64,
    /// The data of each node.
    pub(super) nodes: BTreeMap<String, Vec<u8>>,
    /// Nodes that must not be read.
    pub(super) hidden: BTreeSet<String>,
}

pub(super) struct Bench {
    watcher: Watcher,
    pub(super) at: u64,
    pub(super) wall: i64,
    pub(super) servers: Vec<Server>,
    links: BTreeMap<LinkId, usize>,
    /// What was reported, each as a line without its instant.
    pub(super) reported: Vec<String>,
    pub(super) attestations: Vec<Attestation>,
    /// When a session was asked for, of which server, with which zxid.
    pub(super) asked: Vec<(u64, usize, i64)>,
    /// So many requests were sent about nodes.
    pub(super) requests: u64,
    /// Sessions that the watcher ended itself.
    pub(super) farewells: u64,
    /// The frames of sessions whose requests wait for [`Bench::reply`].
    pub(super) keeps: bool,
    pub(super) kept: Vec<(LinkId, Request)>,
}

/// A lock that is wanted at all times.
pub(super) fn lock(name: &str) -> TaskSpec {
    let path = format!("/{name}");
    let lock = LockSpec { never_expires: true, ..LockSpec::new(path.as_bytes(), "kazoo") };
    let codec = lockwatch_judge::spec::Codec::Raw;
    TaskSpec {
        wanted: Some(WantedSpec { source: WantedSource::Always, codec }),
        ..TaskSpec::new(name, StoreIndex(0), lock)
    }
}

/// The node of a contender for the lock `name`.
pub(super) fn contender(name: &str, number: usize) -> String {
    format!("/{name}/{number:032x}__lock__{number:010}")
}

pub(super) fn assignment(epoch: u32, servers: usize, tasks: Vec<TaskSpec>) -> Arc<Assignment> {
    let server = |number: usize| HostPort { host: format!("zk{number}"), port: 2181 };
    let tasks = (0..).map(TaskIndex).zip(tasks.into_iter().map(Arc::new)).collect();
    Arc::new(Assignment {
        epoch,
        index: StoreIndex(0),
        store: Store {
            name: "zk".into(),
            servers: (0..servers).map(server).collect(),
            interval_ms: 1_000,
            timeout_ms: 3_000,
        },
        tasks: Arc::new(tasks),
    })
}

impl Bench {
    /// Of so many servers, all of which have the nodes at these paths. The first one is asked
    /// first.
    pub(super) fn new(servers: usize, tasks: Vec<TaskSpec>, nodes: &[&str]) -> Bench {
        let at = 100_000;
        let wall = 1_800_000_000_000;
        let now = Now { mono: Mono::at(at), wall: AgentWall(wall) };
        let nodes = nodes.iter().map(|path| ((*path).to_owned(), b"10.1.1.1".to_vec())).collect();
        let server = Server { mood: Mood::Well, zxid: 100, nodes, hidden: BTreeSet::new() };
        Bench {
            watcher: Watcher::new(assignment(1, servers, tasks), now, 0),
            at,
            wall,
            servers: vec![server; servers],
            links: BTreeMap::new(),
            reported: Vec::new(),
            attestations: Vec::new(),
            asked: Vec::new(),
            requests: 0,
            farewells: 0,
            keeps: false,
            kept: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { mono: Mono::at(self.at), wall: AgentWall(self.wall) }
    }

    /// Lets so much time pass.
    pub(super) fn run(&mut self, ms: u64) {
        let end = self.at + ms;
        loop {
            self.act();
            let wake = self.watcher.next_wake().map_or(u64::MAX, Mono::ms);
            let next = wake.max(self.at + u64::from(wake <= self.at)).min(end);
            self.wall += (next - self.at) as i64;
            self.at = next;
            if next == end {
                return self.act();
            }
        }
    }

    /// What was reported since the last call.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reported)
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.watcher.handle(self.now(), input);
    }

    /// A frame comes over each open connection to a server.
    pub(super) fn frame(&mut self, server: usize, frame: &[u8]) {
        for link in self.links_to(server) {
            self.handle(Input::Link(link, Event::Frame(frame.to_vec())));
        }
    }

    pub(super) fn links_to(&self, server: usize) -> Vec<LinkId> {
        let to = self.links.iter().filter(|(_, of)| **of == server);
        to.map(|(link, _)| *link).collect()
    }

    /// Answers a request that was kept.
    pub(super) fn reply(&mut self, kept: usize) {
        let (link, request) = self.kept[kept].clone();
        let frame = self.answer(self.links[&link], &request).expect("an answer");
        self.handle(Input::Link(link, Event::Frame(frame)));
    }

    fn act(&mut self) {
        while let Some(action) = self.watcher.poll(self.now()) {
            match action {
                Action::Dial(dial) => {
                    let server: usize = dial.to.host[2..].parse().expect("a number");
                    let zxid = wire::connect(&dial.greeting[4..]);
                    self.asked.push((self.at, server, zxid));
                    self.links.insert(dial.link, server);
                    self.dialled(dial.link, server, zxid);
                }
                Action::Send { link, frames } => {
                    for frame in wire::frames(&frames) {
                        self.sent(link, wire::request(&frame));
                    }
                }
                Action::Close(link) => drop(self.links.remove(&link)),
                Action::Evidence(evidence) => self.evidence(evidence),
                Action::Exchange(_) | Action::Note(_) => {}
            }
        }
    }

    fn dialled(&mut self, link: LinkId, server: usize, zxid: i64) {
        let Server { mood, zxid: newest, .. } = self.servers[server];
        let fails = |why| Event::Failed(Failure::new(why, "a test"));
        let granted = Event::Frame(wire::greeting(0x1000 + self.asked.len() as i64, 10_000));
        let events = match mood {
            Mood::Down => vec![fails(Unknown::Connect)],
            Mood::Silent => vec![Event::Reached],
            Mood::Well if zxid <= newest => vec![Event::Reached, granted],
            Mood::Well | Mood::GrantsNone => vec![Event::Reached, fails(Unknown::Closed)],
            Mood::ClosesAtOnce => vec![Event::Reached, granted, fails(Unknown::Closed)],
        };
        events.into_iter().for_each(|event| self.handle(Input::Link(link, event)));
    }

    fn sent(&mut self, link: LinkId, request: Request) {
        let Some(server) = self.links.get(&link).copied() else { return };
        self.requests += u64::from(matches!(request, Request::Node { .. }));
        if matches!(request, Request::Close { .. }) {
            self.farewells += 1;
        } else if self.keeps && matches!(request, Request::Node { .. }) {
            self.kept.push((link, request));
        } else if let Some(frame) = self.answer(server, &request) {
            self.handle(Input::Link(link, Event::Frame(frame)));
        }
    }

    fn answer(&self, server: usize, request: &Request) -> Option<Vec<u8>> {
        let Server { mood, zxid, nodes, hidden } = &self.servers[server];
        let (xid, what, path) = match request {
            _ if matches!(mood, Mood::Silent | Mood::Down) => return None,
            Request::Ping => return Some(wire::pong(*zxid)),
            Request::Node { xid, what, path } => (*xid, *what, path),
            Request::Auth | Request::Close { .. } => return None,
        };
        let own = format!("{path}/");
        let names: Vec<&str> = nodes.keys().filter_map(|node| node.strip_prefix(&own)).collect();
        let stat = Stat { children: names.len() as i32, owner: 0xa1, ..Stat::default() };
        let is_there = nodes.contains_key(path) || !names.is_empty();
        if hidden.contains(path) {
            return Some(wire::header(xid, *zxid, wire::NO_AUTH));
        }
        if !is_there {
            return Some(wire::header(xid, *zxid, wire::NO_NODE));
        }
        let body = match what {
            What::Exists => wire::state(stat),
            What::Data => wire::data(nodes.get(path).map_or(b"", |data| data), stat),
            What::Children => wire::children(names.into_iter(), stat),
        };
        Some([wire::header(xid, *zxid, 0), body].concat())
    }

    fn evidence(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Sample(sample) => {
                let node = sample.node.as_deref().map_or("nobody", |node| &node[..3]);
                match sample.outcome {
                    Outcome::Read { attestation, readings } => {
                        self.attestations.push(attestation);
                        let said = readings.iter().map(|(task, reading)| said(*task, reading));
                        self.reported.extend(said.map(|said| format!("{node} {said}")));
                    }
                    Outcome::Failed { tasks, why } => {
                        let said = tasks.iter().map(|task| format!("{node} {}: {why:?}", task.0));
                        self.reported.extend(said);
                    }
                    Outcome::Parts { .. } => panic!("parts of their own"),
                }
            }
            Evidence::Node(news) => {
                if let NodeNewsKind::Failed { why } = news.kind {
                    self.reported.push(format!("{} failed: {why:?}", &news.node[..3]));
                }
            }
            _ => {}
        }
    }
}

fn said(task: TaskIndex, reading: &TaskReading) -> String {
    let of = match &reading.guard {
        GuardReading::Lock { lock: LockReading::Free, .. } => "free".to_owned(),
        GuardReading::Lock { lock: LockReading::Held(held), .. } => {
            let holder = held.holders.first().and_then(|holder| holder.thread.clone());
            format!("held by {}", String::from_utf8_lossy(&holder.unwrap_or_default()))
        }
        guard => format!("{:?}", guard.why_unknown()),
    };
    format!("{}: {of}", task.0)
}
