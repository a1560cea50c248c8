//! The connections of an agent: how they are made, and what is sent over them.

use std::collections::{BTreeMap, VecDeque};

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::driver::{
    Dial, Dialled, Event as LinkEvent, Failure, LinkId, Manner, Now, Push,
};
use lockwatch_watch::redis::reply::{Command, Reply};

use crate::event::Event;
use crate::peers;
use crate::plan::{sentinel_address, server_at};
use crate::request::Request;
use crate::serve;
use crate::server::Health;
use crate::world::{Cut, World};

/// Maximum time for connecting, in milliseconds.
const DIAL_MS: u64 = 1_000;
/// Time until a Sentinel has answered, in milliseconds.
const SENTINEL_MS: u64 = 2;

/// The connections of a process of an agent.
#[derive(Debug)]
pub(crate) struct Net {
    agent: usize,
    life: u32,
    pub(super) wires: BTreeMap<LinkId, Wire>,
    /// Batches of several slots since the last query.
    pub(crate) joined: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    peer: Peer,
    manner: Manner,
    is_open: bool,
    /// It was reset, and the agent has not noticed.
    is_broken: bool,
    /// The server's process at the other end.
    process: u64,
    /// The batches in flight, each with its number of replies.
    flights: VecDeque<(u64, usize)>,
    /// Replies that have come, with the batches that they are about. A network that loses some
    /// shifts the others.
    inbound: VecDeque<(u64, Reply)>,
    /// What was announced and not heard yet.
    pub(super) inbox: Vec<Push>,
    /// The watcher wants to hear.
    hears: bool,
    /// The newest reply about the layout of the cluster.
    layout: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Server(usize),
    Sentinel(usize),
}

impl Wire {
    /// The server that announces changes over it.
    pub(super) fn listens_to(&self) -> Option<usize> {
        match self.peer {
            Peer::Server(server) => self.is_open.then_some(server),
            Peer::Sentinel(_) => None,
        }
    }

    pub(super) fn is_dialling(&self) -> bool {
        !self.is_open
    }

    pub(super) fn dialled(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Replies to a batch have come. Returns the batches that are complete by that, each with its
    /// number if all its replies are its own.
    pub(super) fn landed(
        &mut self,
        number: u64,
        replies: Vec<Reply>,
    ) -> Vec<(Option<u64>, Vec<Reply>)> {
        self.inbound.extend(replies.into_iter().map(|reply| (number, reply)));
        let mut complete = Vec::new();
        while let Some((own, count)) = self.flights.front().copied()
            && self.inbound.len() >= count
        {
            self.flights.pop_front();
            let taken: Vec<(u64, Reply)> = self.inbound.drain(..count).collect();
            let number = taken.iter().all(|(of, _)| *of == own).then_some(own);
            complete.push((number, taken.into_iter().map(|(_, reply)| reply).collect()));
        }
        complete
    }

    /// The watcher hears once.
    pub(super) fn hear(&mut self) -> Option<LinkEvent> {
        self.hears = true;
        self.take_pushed()
    }

    pub(super) fn take_pushed(&mut self) -> Option<LinkEvent> {
        if !self.hears || self.inbox.is_empty() || !self.is_open {
            return None;
        }
        self.hears = false;
        let pushes = std::mem::take(&mut self.inbox);
        Some(LinkEvent::Pushed { bytes: 40 * pushes.len(), pushes })
    }

    /// Its connection to the server is reset; returns whether that is noticed at once.
    pub(super) fn breaks(&mut self, server: usize) -> bool {
        if self.peer != Peer::Server(server) || !self.is_open {
            return false;
        }
        self.is_broken = true;
        !self.flights.is_empty() || self.manner == Manner::Listen
    }

    /// Whether the replies are about the layout of a cluster, and it is not that of before.
    pub(super) fn is_of_another_layout(&mut self, replies: &[Reply]) -> bool {
        let [layout @ Reply::Array(_), Reply::Bytes(state)] = replies else { return false };
        if !state.starts_with(b"cluster_state") {
            return false;
        }
        self.layout.replace(layout.clone()).as_ref() != Some(layout)
    }
}

/// The connection is closed.
pub(super) fn closed() -> LinkEvent {
    failed(Unknown::Closed)
}

fn failed(why: Unknown) -> LinkEvent {
    LinkEvent::Failed(Failure::new(why, "simulated"))
}

impl Net {
    pub(super) fn new(agent: usize, life: u32) -> Net {
        Net { agent, life, wires: BTreeMap::new(), joined: 0 }
    }

    pub(super) fn dial(&mut self, dial: Dial, now: Now, world: &mut World) {
        let address = dial.to.to_string();
        let sentinel =
            (0..world.sentinels.len()).find(|sentinel| *sentinel_address(*sentinel) == *address);
        let peer = match (sentinel, server_at(&address)) {
            (Some(sentinel), _) => Peer::Sentinel(sentinel),
            (None, Some(server)) if server < world.servers.len() => Peer::Server(server),
            (None, _) => return self.soon(dial.link, failed(Unknown::Connect), 1, world),
        };
        let process = if let Peer::Server(server) = peer { world.lives[server] } else { 0 };
        let wire = Wire {
            peer,
            manner: dial.manner,
            is_open: false,
            is_broken: false,
            process,
            flights: VecDeque::new(),
            inbound: VecDeque::new(),
            inbox: Vec::new(),
            hears: false,
            layout: None,
        };
        self.wires.insert(dial.link, wire);
        match peer {
            Peer::Sentinel(sentinel) => self.dial_sentinel(sentinel, &dial, now, world),
            Peer::Server(server) => self.dial_server(server, dial, now, world),
        }
    }

    fn dial_sentinel(&self, sentinel: usize, dial: &Dial, now: Now, world: &mut World) {
        if !world.sentinels[sentinel].reachable {
            return self.soon(dial.link, failed(Unknown::Connect), DIAL_MS, world);
        }
        if dial.manner == Manner::Listen {
            world.ears.push((self.agent, self.life, dial.link, sentinel));
        }
        let commands = dial.commands.iter();
        let replies = commands.map(|command| peers::sentinel(sentinel, command, world)).collect();
        let dialled = Dialled { sent: now, received: now.mono, auth: None, replies, ended: None };
        self.soon(dial.link, LinkEvent::Dialled(Box::new(dialled)), 2 * SENTINEL_MS, world);
    }

    fn dial_server(&self, server: usize, dial: Dial, now: Now, world: &mut World) {
        let link = &world.links[self.agent][server];
        let delay = link.each_way_ms;
        let limit = DIAL_MS.min(dial.timeout_ms);
        let refused = match (link.cut, world.servers[server].health) {
            _ if delay * 2 > limit => Some(limit),
            (Some(Cut::Silently), _) => Some(limit),
            (Some(Cut::Loudly), _) | (_, Health::Down) => Some(delay * 2),
            _ => None,
        };
        if let Some(after) = refused {
            return self.soon(dial.link, failed(Unknown::Connect), after, world);
        }
        let connected = 2 * delay;
        let wall = AgentWall(now.wall.0 + i64::try_from(connected).unwrap_or(0));
        let sent = Now { mono: Mono::at(now.mono.ms() + connected), wall };
        // Without complete replies in time, the greeting has failed.
        let timeout = Dialled {
            sent,
            received: sent.mono,
            auth: None,
            replies: Vec::new(),
            ended: Some(Failure::new(Unknown::Timeout, "simulated")),
        };
        let timeout = LinkEvent::Dialled(Box::new(timeout));
        self.soon(dial.link, timeout, connected + dial.timeout_ms, world);
        let number = world.id();
        let mut request = self.request(server, dial.link, number, dial.commands, world);
        request.greeting = Some(sent);
        request.listens = dial.manner == Manner::Listen;
        world.queue.push(world.now + delay * 3 + 1, Event::Request(request));
    }

    pub(super) fn send(
        &mut self,
        link: LinkId,
        commands: Vec<Command>,
        now: Now,
        world: &mut World,
    ) {
        let Some(wire) = self.wires.get_mut(&link) else { return };
        let Wire { peer, manner, is_broken, process, .. } = *wire;
        if is_broken {
            return self.soon(link, closed(), 0, world);
        }
        let number = world.id();
        if manner == Manner::Talk {
            wire.flights.push_back((number, commands.len()));
        }
        match peer {
            Peer::Sentinel(sentinel) => {
                if world.sentinels[sentinel].reachable {
                    let commands = commands.iter();
                    let replies =
                        commands.map(|command| peers::sentinel(sentinel, command, world)).collect();
                    let event = LinkEvent::Replied { received: now.mono, replies };
                    let (agent, life) = (self.agent, self.life);
                    let (event, number) = (Box::new(event), Some(number));
                    let event = Event::Link { agent, life, link, event, number };
                    world.queue.push(world.now + SENTINEL_MS, event);
                }
            }
            Peer::Server(server) => {
                let mut request = self.request(server, link, number, commands, world);
                (request.process, request.listens) = (process, manner == Manner::Listen);
                self.joined += u64::from(request.tasks() > world.plan.sizes.slot_tasks);
                serve::send(request, world);
            }
        }
    }

    fn request(
        &self,
        server: usize,
        link: LinkId,
        number: u64,
        commands: Vec<Command>,
        world: &World,
    ) -> Box<Request> {
        let line = (self.agent, self.life, link);
        Box::new(Request::new(line, server, world.lives[server], number, commands))
    }

    pub(super) fn close(&mut self, link: LinkId, world: &mut World) {
        self.wires.remove(&link);
        let (agent, life) = (self.agent, self.life);
        for listener in &mut world.listeners[agent] {
            listener.take_if(|listener| *listener == (life, link));
        }
        world.ears.retain(|(of, _, other, _)| (*of, *other) != (agent, link));
        world.lines.remove(&(agent, life, link));
    }

    fn soon(&self, link: LinkId, event: LinkEvent, after: u64, world: &mut World) {
        let (agent, life) = (self.agent, self.life);
        let event = Event::Link { agent, life, link, event: Box::new(event), number: None };
        world.queue.push(world.now + after, event);
    }
}
