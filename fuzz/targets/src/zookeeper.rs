//! Hostile servers of an ensemble: the real watcher, and frames of any bytes.
//!
//! The input is a script: each step is a byte that says what comes, and over which connection, a
//! length, and so many bytes of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_judge::input::{Input as Evidence, Outcome, Sample};
use lockwatch_judge::reading::{GuardReading, LockReading, Unknown};
use lockwatch_judge::spec::{
    Codec, LockSpec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec,
};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::driver::{Failure, LinkId, Now};
use lockwatch_watch::redis::store::HostPort;
use lockwatch_watch::zookeeper::codec::HEADER_BYTES;
use lockwatch_watch::zookeeper::driver::{Action, Event, Input};
use lockwatch_watch::zookeeper::recipes;
use lockwatch_watch::zookeeper::store::{Assignment, Store};
use lockwatch_watch::zookeeper::watcher::Watcher;

use crate::ensemble::{self, Request, Stat, What};

/// Most requests without a reply: beyond the watcher's own bound only what belongs to one reading.
const IN_FLIGHT_MAX: usize = 300;
/// Most actions that follow from one event.
const ACTIONS_MAX: usize = 200;
pub(crate) fn run(data: &[u8]) {
    let [choice, script @ ..] = data else { return };
    let mut play = Play::new(*choice);
    play.act();
    let mut rest = script;
    while let [what, length, after @ ..] = rest {
        let (bytes, after) = after.split_at((*length as usize).min(after.len()));
        play.step(*what, bytes);
        play.act();
        rest = after;
    }
}

/// A connection as its server sees it.
#[derive(Default)]
struct Line {
    server: String,
    /// When it was reached, and the session asked of it.
    asked_at: u64,
    is_granted: bool,
    /// The node requests without a reply.
    asked: VecDeque<(i32, What)>,
}

struct Play {
    watcher: Watcher,
    at: u64,
    zxid: i64,
    lines: BTreeMap<LinkId, Line>,
    /// When sessions were asked for that were granted, by server.
    grants: Vec<(String, u64)>,
    /// All that servers said.
    said: Vec<u8>,
}

fn task(name: &str, recipe: &str, wanted: WantedSource) -> TaskSpec {
    let lock = LockSpec::new(format!("/{name}").as_bytes(), recipe);
    let wanted = Some(WantedSpec { source: wanted, codec: Codec::Raw });
    TaskSpec { wanted, ..TaskSpec::new(name, StoreIndex(0), lock) }
}

impl Play {
    fn new(choice: u8) -> Play {
        let recipe = recipes::ALL[usize::from(choice) % recipes::ALL.len()].name();
        let tasks = [
            task("a", recipe, WantedSource::Always),
            task("b", recipe, WantedSource::Hash(b"/b-wanted".to_vec())),
        ];
        let servers = usize::from(choice >> 6).max(1);
        let server = |number| HostPort { host: format!("zk{number}"), port: 2181 };
        let assignment = Assignment {
            epoch: 1,
            index: StoreIndex(0),
            store: Store {
                name: "zk".into(),
                servers: (0..servers).map(server).collect(),
                interval_ms: 1_000,
                timeout_ms: 3_000,
            },
            tasks: Arc::new((0..).map(TaskIndex).zip(tasks.map(Arc::new)).collect()),
        };
        let at = 1_000_000;
        Play {
            watcher: Watcher::new(Arc::new(assignment), now(at), u64::from(choice)),
            at,
            zxid: 100,
            lines: BTreeMap::new(),
            grants: Vec::new(),
            said: Vec::new(),
        }
    }

    /// What the script says next, over the oldest or the newest connection.
    fn step(&mut self, what: u8, bytes: &[u8]) {
        let links = || self.lines.keys().copied();
        let link = if what & 128 == 0 { links().next() } else { links().next_back() };
        let Some(link) = link else { return self.pass(bytes) };
        let line = self.lines.get_mut(&link).unwrap();
        self.said.extend(bytes);
        let code = bytes.first().map_or(0, |code| -i32::from(*code));
        match what & 15 {
            0 => self.frame(link, bytes.to_vec()),
            1 if !line.is_granted => {
                line.is_granted = true;
                self.grants.push((line.server.clone(), line.asked_at));
                self.frame(link, ensemble::greeting(7, 4_000 + i32::from(what)));
            }
            2 => {
                let header = self.header(link, 0);
                self.frame(link, [header, bytes.to_vec()].concat());
            }
            3 => {
                let what = line.asked.front().map(|(_, what)| *what);
                let frame = [self.header(link, 0), honest(what, bytes)].concat();
                self.frame(link, frame);
            }
            4 => {
                let frame = self.header(link, code);
                self.frame(link, frame);
            }
            5 => {
                let path = String::from_utf8_lossy(bytes).into_owned();
                self.frame(link, ensemble::event(code, &path));
            }
            6 => self.frame(link, ensemble::pong(self.zxid)),
            7 => {
                let bytes = bytes.len() << 16;
                let header = self.header(link, 0);
                self.event(link, Event::TooLarge { header, bytes });
            }
            8 => self.event(link, Event::Failed(Failure::new(Unknown::Closed, "a script"))),
            9 => self.zxid += i64::from(code) + 100,
            _ => self.pass(bytes),
        }
    }

    /// The header of the reply to the oldest request.
    fn header(&mut self, link: LinkId, error: i32) -> Vec<u8> {
        self.zxid += 1;
        let asked = self.lines.get_mut(&link).and_then(|line| line.asked.pop_front());
        ensemble::header(asked.map_or(1, |(xid, _)| xid), self.zxid, error)
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.at += bytes.iter().map(|byte| u64::from(*byte) * 4).sum::<u64>().clamp(1, 20_000);
    }

    fn frame(&mut self, link: LinkId, frame: Vec<u8>) {
        assert_eq!(HEADER_BYTES, ensemble::header(0, 0, 0).len());
        // Any bytes may be a greeting.
        let line = self.lines.get_mut(&link).unwrap();
        if !line.is_granted && frame.len() >= 20 {
            line.is_granted = true;
            self.grants.push((line.server.clone(), line.asked_at));
        }
        self.event(link, Event::Frame(frame));
    }

    fn event(&mut self, link: LinkId, event: Event) {
        self.watcher.handle(now(self.at), Input::Link(link, event));
    }

    /// Carries out what the watcher wants, and checks it.
    fn act(&mut self) {
        let mut actions = 0;
        while let Some(action) = self.watcher.poll(now(self.at)) {
            actions += 1;
            assert!(actions <= ACTIONS_MAX, "more than {ACTIONS_MAX} actions at one instant");
            match action {
                Action::Dial(dial) => {
                    ensemble::connect(&dial.greeting[4..]);
                    let server = dial.to.to_string();
                    let line = Line { server, asked_at: self.at, ..Line::default() };
                    self.lines.insert(dial.link, line);
                    assert!(self.lines.len() <= 2, "a session that watches, and one that proves");
                    self.event(dial.link, Event::Reached);
                }
                Action::Send { link, frames } => self.sent(link, &frames),
                Action::Close(link) => drop(self.lines.remove(&link)),
                Action::Evidence(Evidence::Sample(sample)) => self.check(&sample),
                Action::Evidence(_) | Action::Exchange(_) | Action::Note(_) => {}
            }
        }
        let wake = self.watcher.next_wake().expect("it always waits for something");
        assert!(wake > Mono::at(self.at), "it would be woken again at once");
    }

    fn sent(&mut self, link: LinkId, frames: &[u8]) {
        for frame in ensemble::frames(frames) {
            // Whatever writes is no request.
            let request = ensemble::request(&frame);
            let line = self.lines.get_mut(&link).expect("an open connection");
            assert!(line.is_granted, "nothing is asked without a session");
            if let Request::Node { xid, what, .. } = request {
                line.asked.push_back((xid, what));
            }
            assert!(line.asked.len() <= IN_FLIGHT_MAX, "{} requests in flight", line.asked.len());
        }
    }

    /// A lock that users may want is free only by a session that was just granted, and a holder is
    /// somebody that a server named.
    fn check(&self, sample: &Sample) {
        let Outcome::Read { readings, .. } = &sample.outcome else { return };
        let node = sample.node.as_deref().expect("a server");
        for (task, reading) in readings {
            let GuardReading::Lock { lock, .. } = &reading.guard else { continue };
            match lock {
                LockReading::Free if *task == TaskIndex(0) => {
                    let sent = sample.sent.ms();
                    let is_fresh = |(server, at): &(String, u64)| *server == *node && sent == *at;
                    assert!(self.grants.iter().any(is_fresh), "free without a proof");
                }
                LockReading::Held(held) => {
                    assert!(!held.holders.is_empty(), "held by nobody");
                    for holder in &held.holders {
                        let thread = holder.thread.as_deref().unwrap_or_default();
                        let is_named =
                            self.said.windows(thread.len().max(1)).any(|it| it == thread);
                        assert!(is_named, "nobody named {}", thread.escape_ascii());
                    }
                }
                LockReading::Free | LockReading::Unknown(_) => {}
            }
        }
    }
}

/// A body as a server would send it, of what the script says.
fn honest(what: Option<What>, bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let names: Vec<&str> = text.split(',').filter(|name| !name.is_empty()).collect();
    let stat = Stat { children: names.len() as i32, owner: 0xa1, ..Stat::default() };
    match what {
        Some(What::Children) => ensemble::children(names.into_iter(), stat),
        Some(What::Data) => ensemble::data(bytes, stat),
        Some(What::Exists) | None => ensemble::state(stat),
    }
}

fn now(at: u64) -> Now {
    Now { mono: Mono::at(at), wall: AgentWall(1_800_000_000_000) }
}
