//! The servers of a virtual ensemble: one line of changes that a majority agrees on, and servers
//! that show it up to some point. One that has lost the others answers with the past for a while,
//! and grants no session.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{self, Stat, What};

/// A server without a majority goes on for at most so long: twice what Debian's has for a follower.
pub(crate) const LONELY_MS: u64 = 12_000;

/// A change.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A node that ends with the session, unless that is 0.
    Create(String, Vec<u8>, i64),
    Delete(String),
    Set(String, Vec<u8>),
    /// A session begins.
    Session,
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) zxid: i64,
    pub(crate) at: u64,
    pub(crate) op: Op,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) owner: i64,
    created: i64,
    modified: i64,
    created_ms: i64,
    children_changed: i64,
}

pub(crate) type Tree = BTreeMap<String, Node>;

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It has a leader, or leads.
    Serves,
    /// It has lost its majority, and does not know it.
    Lonely,
    /// It looks for a leader, and closes each connection.
    Looks,
    /// Its process is stopped.
    Frozen,
    Dead,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) mode: Mode,
    /// It cannot reach the others.
    pub(crate) is_cut: bool,
    pub(crate) lag_ms: u64,
    pub(crate) closes: bool,
    pub(crate) tree: Tree,
    pub(crate) zxid: i64,
    applied: usize,
    /// What it is to announce, by path and kind, to connections.
    watches: BTreeMap<(String, bool), BTreeSet<u64>>,
}

/// An event for a connection: what happened, and where.
pub(crate) type Announced = (u64, Vec<u8>);

#[derive(Debug)]
pub(crate) struct Ensemble {
    pub(crate) servers: Vec<Server>,
    pub(crate) leader: Option<usize>,
    pub(crate) log: Vec<Change>,
    /// What all committed changes make.
    pub(crate) tree: Tree,
    epoch: i64,
    counter: i64,
}

impl Ensemble {
    pub(crate) fn new(servers: usize) -> Ensemble {
        let server = Server {
            mode: Mode::Serves,
            is_cut: false,
            lag_ms: 2,
            closes: false,
            tree: Tree::new(),
            zxid: 1 << 32,
            applied: 0,
            watches: BTreeMap::new(),
        };
        Ensemble {
            servers: vec![server; servers],
            leader: Some(0),
            log: Vec::new(),
            tree: Tree::new(),
            epoch: 1,
            counter: 0,
        }
    }

    fn can_join(server: &Server) -> bool {
        !server.is_cut && matches!(server.mode, Mode::Serves | Mode::Looks)
    }

    pub(crate) fn has_majority(&self) -> bool {
        let members = self.servers.iter().filter(|server| Ensemble::can_join(server));
        members.count() * 2 > self.servers.len()
    }

    /// Whether a change can be committed now.
    pub(crate) fn commits(&self) -> bool {
        let Some(leader) = self.leader else { return false };
        let serves = |server: &Server| server.mode == Mode::Serves && !server.is_cut;
        serves(&self.servers[leader])
            && self.servers.iter().filter(|server| serves(server)).count() * 2 > self.servers.len()
    }

    pub(crate) fn commit(&mut self, op: Op, at: u64) {
        assert!(self.commits());
        self.counter += 1;
        let change = Change { zxid: (self.epoch << 32) + self.counter, at, op };
        apply(&mut self.tree, &change);
        self.log.push(change);
        let leader = self.leader.expect("it commits");
        self.servers[leader].lag_ms = 0;
    }

    /// A server applies what has reached it by now. Returns the events that it sends.
    pub(crate) fn catch_up(&mut self, server: usize, now: u64) -> Vec<Announced> {
        let own = &mut self.servers[server];
        let mut announced = Vec::new();
        while own.mode == Mode::Serves
            && !own.is_cut
            && let Some(change) = self.log.get(own.applied)
            && change.at + own.lag_ms <= now
        {
            apply(&mut own.tree, change);
            own.zxid = change.zxid;
            own.applied += 1;
            let mut fire = |path: &str, of_children: bool, kind: i32| {
                let links = own.watches.remove(&(path.to_owned(), of_children));
                let event = wire::event(kind, path);
                announced.extend(links.into_iter().flatten().map(|link| (link, event.clone())));
            };
            match &change.op {
                Op::Create(path, _, _) => {
                    fire(path, false, 1);
                    fire(parent(path), true, wire::CHILDREN);
                }
                Op::Delete(path) => {
                    fire(path, false, 2);
                    fire(path, true, 2);
                    fire(parent(path), true, wire::CHILDREN);
                }
                Op::Set(path, _) => fire(path, false, 3),
                Op::Session => {}
            }
        }
        announced
    }

    /// When a server applies its next change.
    pub(crate) fn next_change(&self) -> u64 {
        let serving = self.servers.iter().filter(|it| it.mode == Mode::Serves && !it.is_cut);
        let next = serving.filter_map(|it| Some(self.log.get(it.applied)?.at + it.lag_ms));
        next.min().unwrap_or(u64::MAX)
    }

    /// Those that can join elect a leader, if they are a majority. All of them have all changes
    /// then.
    pub(crate) fn elect(&mut self, now: u64) -> bool {
        if self.leader.is_some() || !self.has_majority() {
            return false;
        }
        let most = |server: &usize| (self.servers[*server].applied, *server);
        let members = (0..self.servers.len()).filter(|it| Ensemble::can_join(&self.servers[*it]));
        self.leader = members.max_by_key(most);
        self.epoch += 1;
        self.counter = 0;
        for server in 0..self.servers.len() {
            self.join(server, now);
        }
        true
    }

    /// A server that looks for a leader finds it.
    pub(crate) fn join(&mut self, server: usize, now: u64) {
        if self.leader.is_none() || !Ensemble::can_join(&self.servers[server]) {
            return;
        }
        let (lag_ms, epoch) = (self.servers[server].lag_ms, self.epoch);
        self.servers[server].mode = Mode::Serves;
        self.servers[server].lag_ms = 0;
        self.catch_up(server, now);
        self.servers[server].lag_ms = lag_ms;
        let newest = &mut self.servers[server].zxid;
        *newest = (*newest).max(epoch << 32);
    }

    /// Forgets all changes after `at`, on all servers.
    pub(crate) fn restore(&mut self, at: u64) {
        self.log.retain(|change| change.at <= at);
        let newest = self.log.last().map_or(1 << 32, |change| change.zxid);
        (self.epoch, self.counter, self.leader) = (newest >> 32, 0, None);
        self.tree = Tree::new();
        self.log.iter().for_each(|change| apply(&mut self.tree, change));
        for server in &mut self.servers {
            server.tree = self.tree.clone();
            (server.zxid, server.applied) = (newest, self.log.len());
            (server.is_cut, server.mode) = (false, Mode::Looks);
        }
    }

    /// The reply to a request about a node.
    pub(crate) fn answer(
        &mut self,
        server: usize,
        link: u64,
        xid: i32,
        what: What,
        path: &str,
    ) -> Vec<u8> {
        let own = &mut self.servers[server];
        own.watches.entry((path.to_owned(), what == What::Children)).or_default().insert(link);
        let names: Vec<&str> = children(&own.tree, path).collect();
        let node = own.tree.get(path).cloned().or_else(|| (!names.is_empty()).then(Node::default));
        let Some(node) = node else { return wire::header(xid, own.zxid, wire::NO_NODE) };
        let stat = Stat {
            created: node.created,
            modified: node.modified,
            created_ms: node.created_ms,
            owner: node.owner,
            data_bytes: node.data.len() as i32,
            children: names.len() as i32,
            children_changed: node.children_changed,
        };
        let body = match what {
            What::Exists => wire::state(stat),
            What::Data => wire::data(&node.data, stat),
            What::Children => wire::children(names.into_iter(), stat),
        };
        [wire::header(xid, own.zxid, 0), body].concat()
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The names of a node's children.
pub(crate) fn children<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = &'a str> {
    let own = format!("{path}/");
    let range = tree.range(own.clone()..);
    range.map_while(move |(node, _)| node.strip_prefix(&own))
}

fn apply(tree: &mut Tree, change: &Change) {
    let Change { zxid, at, op } = change;
    match op {
        Op::Create(path, data, owner) => {
            let node = Node {
                data: data.clone(),
                owner: *owner,
                created: *zxid,
                modified: *zxid,
                created_ms: i64::try_from(*at).unwrap_or(0),
                children_changed: *zxid,
            };
            tree.insert(path.clone(), node);
        }
        Op::Delete(path) => drop(tree.remove(path)),
        Op::Set(path, data) => {
            let node = tree.entry(path.clone()).or_default();
            (node.data, node.modified) = (data.clone(), *zxid);
        }
        Op::Session => {}
    }
}
