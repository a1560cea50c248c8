//! Selects the deciding servers from the reports of Sentinels or of the servers themselves. Mirrors
//! `src/sampler/authority.rs`, `sentinel.rs` and `urgency.rs`.

mod cluster;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::input::{Announcer, Role, Standing, Topology};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::reply::Reply;
use lockwatch_watch::redis::topology::replicated::Lead;
use lockwatch_watch::redis::topology::sentinel::{self, Quorum};

use self::cluster::Cluster;
use super::node::{Duty, Heard};
use super::{Asked, mono};
use crate::plan::{Plan as Story, address, sentinel_address};
use crate::queue::Event;
use crate::world::World;

const QUORUM_INTERVALS: u64 = 2;
const FORMER_MS: u64 = 300_000;

/// The requests that each server gets.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<(usize, Duty)>,
    /// Tasks without a deciding server, and why.
    pub(super) orphans: Vec<(Vec<TaskIndex>, Unknown)>,
    /// The server with the keys beside a lock on another server, or why there is none.
    pub(super) besides: BTreeMap<TaskIndex, Result<usize, Unknown>>,
    pub(super) is_told: bool,
    masters: Option<Result<Vec<Arc<str>>, Unknown>>,
    sentinels: Vec<Announcer>,
    uncovered_slots: u32,
}

impl Plan {
    pub(super) fn knows_nothing(&self) -> bool {
        self.nodes.is_empty() && !self.is_told
    }

    pub(super) fn topology(&self, epoch: u32) -> Topology {
        Topology {
            epoch,
            store: StoreIndex(0),
            masters: self.masters.clone().unwrap_or(Err(Unknown::NotReadYet)),
            nodes: self.nodes.iter().map(|(server, _)| address(*server)).collect(),
            announcers: self.sentinels.clone(),
            uncovered: self.uncovered_slots,
        }
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Authority {
    kind: Kind,
    changed: bool,
    all: Arc<[TaskIndex]>,
    /// When each Sentinel, or the cluster, is read next. Plans for an earlier instant are void.
    due: Vec<u64>,
    asking: Vec<bool>,
    hurried: Vec<bool>,
}

#[derive(Debug)]
enum Kind {
    Standalone,
    Replicated(Replicated),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

fn duty(decides: bool, all: &Arc<[TaskIndex]>) -> Duty {
    Duty::new(if decides { Standing::Decides } else { Standing::Witness }, Arc::clone(all))
}

fn orphans(all: &[TaskIndex], why: Option<Unknown>) -> Vec<(Vec<TaskIndex>, Unknown)> {
    why.map(|why| (all.to_vec(), why)).into_iter().collect()
}

impl Authority {
    pub(super) fn new(story: &Story, agent: usize, life: u32, world: &mut World) -> Authority {
        let (interval_ms, timeout_ms) = story
            .spec
            .stores
            .first()
            .map_or((1_000, 3_000), |redis| (redis.interval_ms, redis.timeout_ms));
        let kind = match story.kind() {
            RedisKind::Standalone => Kind::Standalone,
            RedisKind::Cluster => Kind::Cluster(Cluster::new(interval_ms, timeout_ms, world)),
            RedisKind::Replicated => Kind::Replicated(Replicated {
                lead: Lead::new(story.servers),
                answered: vec![None; story.servers],
                silence_ms: timeout_ms + interval_ms * 2,
                failing: false,
            }),
            RedisKind::Sentinel => Kind::Sentinel(Sentinels {
                quorum: Quorum::new(story.sentinels, interval_ms * QUORUM_INTERVALS),
                count: story.sentinels,
                interval_ms,
                hurry: false,
                master: Err(Unknown::NotReadYet),
                newest: None,
                former: BTreeMap::new(),
                known: Vec::new(),
            }),
        };
        let asked = match story.kind() {
            RedisKind::Standalone | RedisKind::Replicated => 0,
            RedisKind::Sentinel => story.sentinels,
            RedisKind::Cluster => 1,
        };
        for sentinel in 0..asked {
            world.queue.push(world.now, Event::Sentinel { agent, life, sentinel, answer: None });
        }
        let all = (0..).take(story.spec.tasks.len()).map(TaskIndex).collect();
        Authority {
            kind,
            changed: true,
            all,
            due: vec![world.now; asked],
            asking: vec![false; asked],
            hurried: vec![false; asked],
        }
    }

    /// The next plan must be computed again.
    pub(super) fn forget_plan(&mut self) {
        self.changed = true;
    }

    /// Takes in a report or a failure of a server.
    pub(super) fn heard(&mut self, server: usize, heard: &Heard, now: Mono) {
        let Heard { role, failed, moved, .. } = *heard;
        match &mut self.kind {
            Kind::Standalone => {}
            Kind::Cluster(cluster) => cluster.heard(server, role, failed, moved),
            Kind::Replicated(replicated) => {
                self.changed |= replicated.heard(server, role, failed, now)
            }
            Kind::Sentinel(sentinels) => {
                let decides = sentinels.master == Ok(server);
                if decides && (failed.is_some() || role == Some(Role::Replica)) {
                    sentinels.hurry = true;
                }
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        match &self.kind {
            Kind::Standalone => None,
            Kind::Replicated(replicated) => replicated.silent_at(),
            Kind::Sentinel(sentinels) => sentinels.next_wake(),
            Kind::Cluster(cluster) => cluster.next_wake(),
        }
    }

    pub(super) fn plan(&mut self, now: Mono) -> Option<Plan> {
        let due = self.next_wake().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.changed) && !due {
            return None;
        }
        Some(match &mut self.kind {
            Kind::Standalone => Plan { nodes: vec![(0, duty(true, &self.all))], ..Plan::default() },
            Kind::Replicated(replicated) => replicated.plan(now, &self.all),
            Kind::Sentinel(sentinels) => sentinels.plan(now, &self.all),
            Kind::Cluster(cluster) => cluster.plan(now),
        })
    }

    /// A Sentinel or the cluster is to be read, or has answered.
    pub(super) fn asked(
        &mut self,
        position: usize,
        answer: Option<Asked>,
        agent: usize,
        life: u32,
        world: &mut World,
    ) {
        let now = world.now;
        let at = match (&mut self.kind, answer) {
            (Kind::Standalone | Kind::Replicated(_), _) => return,
            // The next read is due.
            (kind, None) => {
                if self.due[position] > now || self.asking[position] {
                    return;
                }
                self.asking[position] = true;
                let (after, replies) = match kind {
                    Kind::Cluster(cluster) => cluster.ask(agent, world),
                    _ => match world.sentinels[position] {
                        told if told.reachable => (2, Some(replies(told.names, world))),
                        _ => (1_000, None),
                    },
                };
                let answer = Some(Asked { asked: now, replies });
                world
                    .queue
                    .push(now + after, Event::Sentinel { agent, life, sentinel: position, answer });
                return;
            }
            (Kind::Sentinel(sentinels), Some(Asked { asked, replies })) => {
                let answer = match replies {
                    Some(replies) => sentinel::decode(&replies),
                    None => Err(Unknown::Timeout),
                };
                sentinels.quorum.answered(position, mono(asked), answer);
                self.changed = true;
                (asked + sentinels.interval_ms).max(now + 1)
            }
            (Kind::Cluster(cluster), Some(Asked { asked, replies })) => {
                self.changed |= cluster.learn(cluster::decode(replies));
                (now + cluster.pause_ms()).max(asked + cluster.hurry_ms())
            }
        };
        self.asking[position] = false;
        let at = if std::mem::take(&mut self.hurried[position]) { now + 1 } else { at };
        self.ask_at(position, at, agent, life, world);
    }

    fn ask_at(&mut self, position: usize, at: u64, agent: usize, life: u32, world: &mut World) {
        self.due[position] = at;
        world.queue.push(at, Event::Sentinel { agent, life, sentinel: position, answer: None });
    }

    /// Reads at once, if that was requested.
    pub(super) fn ask_hurriedly(&mut self, agent: usize, life: u32, world: &mut World) {
        let (hurry, pause_ms) = match &mut self.kind {
            Kind::Standalone | Kind::Replicated(_) => return,
            Kind::Sentinel(sentinels) => (&mut sentinels.hurry, 1),
            Kind::Cluster(cluster) => {
                let pause_ms = cluster.hurry_ms();
                (&mut cluster.hurry, pause_ms)
            }
        };
        if !std::mem::take(hurry) {
            return;
        }
        let at = world.now + pause_ms;
        for position in 0..self.due.len() {
            // A request in flight may have been sent before the event, so another one follows it.
            if self.asking[position] {
                self.hurried[position] = true;
            } else if self.due[position] > at {
                self.ask_at(position, at, agent, life, world);
            }
        }
    }
}

/// The replies of a Sentinel.
fn replies(names: usize, world: &World) -> Vec<Reply> {
    let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
    let of = |server: usize| {
        let address = address(server);
        let (host, port) = address.split_once(':').map_or(("", ""), |pair| pair);
        (text(host), text(port))
    };
    let (host, port) = of(names);
    let others = (0..world.servers.len()).filter(|server| *server != names);
    let replicas = others.map(|server| {
        let (ip, port) = of(server);
        Reply::Array(vec![
            text("name"),
            text("x"),
            text("ip"),
            ip,
            text("port"),
            port,
            text("flags"),
            text("slave"),
        ])
    });
    vec![Reply::Array(vec![host, port]), Reply::Array(replicas.collect())]
}

/// A master and replicas without Sentinel.
#[derive(Debug)]
struct Replicated {
    lead: Lead,
    answered: Vec<Option<Mono>>,
    silence_ms: u64,
    failing: bool,
}

impl Replicated {
    fn heard(
        &mut self,
        node: usize,
        role: Option<Role>,
        failed: Option<Unknown>,
        now: Mono,
    ) -> bool {
        let before = self.lead.master();
        if let Some(role) = role {
            if let Some(answered) = self.answered.get_mut(node) {
                *answered = Some(now);
            }
            self.lead.heard(node, now, Some(role));
            self.failing &= before != Ok(node);
        } else if failed.is_some() {
            if before == Ok(node) { self.failing = true } else { self.lead.heard(node, now, None) }
        }
        self.lead.master() != before
    }

    fn silent_at(&self) -> Option<Mono> {
        if !self.failing {
            return None;
        }
        let lead = self.lead.master().ok()?;
        Some(self.answered.get(lead).copied().flatten()?.plus_ms(self.silence_ms))
    }

    fn plan(&mut self, now: Mono, all: &Arc<[TaskIndex]>) -> Plan {
        if let (Some(at), Ok(lead)) = (self.silent_at(), self.lead.master())
            && at <= now
        {
            self.failing = false;
            self.lead.heard(lead, now, None);
        }
        let lead = self.lead.master();
        let nodes =
            (0..self.answered.len()).map(|node| (node, duty(lead == Ok(node), all))).collect();
        Plan {
            nodes,
            orphans: orphans(all, lead.err()),
            is_told: lead != Err(Unknown::NotReadYet),
            masters: Some(lead.map(|lead| vec![address(lead)])),
            ..Plan::default()
        }
    }
}

/// Servers that Sentinels watch.
#[derive(Debug)]
struct Sentinels {
    quorum: Quorum,
    count: usize,
    interval_ms: u64,
    hurry: bool,
    master: Result<usize, Unknown>,
    newest: Option<usize>,
    former: BTreeMap<usize, Mono>,
    known: Vec<usize>,
}

impl Sentinels {
    fn plan(&mut self, now: Mono, all: &Arc<[TaskIndex]>) -> Plan {
        let number = |host: &str| {
            host.rsplit('.').next().and_then(|last| last.parse::<usize>().ok()?.checked_sub(1))
        };
        let master = self
            .quorum
            .master(now)
            .and_then(|named| number(&named.host).ok_or(Unknown::ForeignAddress));
        let unheard = (0..self.count).any(|sentinel| self.quorum.word(sentinel).is_none());
        let early = matches!(self.master, Err(Unknown::NotReadYet))
            && unheard
            && master == Err(Unknown::Quorum);
        let mut known: Vec<usize> = master.iter().copied().collect();
        known.extend(self.quorum.peers(now).iter().filter_map(|peer| number(&peer.host)));
        if let Ok(master) = master {
            let before = self.newest.replace(master).filter(|before| *before != master);
            self.former.extend(before.map(|before| (before, now.plus_ms(FORMER_MS))));
            self.former.remove(&master);
            self.former.retain(|_, until| *until > now);
        }
        known.extend(self.former.keys().copied());
        if master.is_err() {
            known.append(&mut self.known);
        }
        let mut seen = Vec::new();
        known.retain(|server| {
            !seen.contains(server) && {
                seen.push(*server);
                true
            }
        });
        let nodes =
            known.iter().map(|server| (*server, duty(master == Ok(*server), all))).collect();
        self.master = match master {
            Err(_) if early => Err(Unknown::NotReadYet),
            other => other,
        };
        self.known = known;
        let word = |sentinel| Announcer {
            address: sentinel_address(sentinel),
            master: self.quorum.word(sentinel).map(|word| word.map(|named| named.address())),
        };
        Plan {
            nodes,
            orphans: if early { Vec::new() } else { orphans(all, master.err()) },
            is_told: !early,
            masters: Some(self.master.map(|master| vec![address(master)])),
            sentinels: (0..self.count).map(word).collect(),
            ..Plan::default()
        }
    }

    fn next_wake(&self) -> Option<Mono> {
        let ends = || self.quorum.ends().into_iter().chain(self.former.values().copied()).min();
        self.master.is_ok().then(ends).flatten()
    }
}
