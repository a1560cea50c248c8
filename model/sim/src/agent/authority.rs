//! Who decides, from what Sentinels or the servers themselves say. Mirrors `src/sampler/authority.rs`, `sentinel.rs` and `urgency.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_model::input::{Role, SentinelWord, Standing, Topology};
use lockwatch_model::reading::Unknown;
use lockwatch_model::reply::Reply;
use lockwatch_model::spec::{RedisIndex, RedisKind};
use lockwatch_model::time::Mono;
use lockwatch_model::topology::replicated::Lead;
use lockwatch_model::topology::sentinel::{self, Quorum};

use super::node::Duty;
use super::{Asked, mono};
use crate::plan::{Plan as Story, address, sentinel_address};
use crate::queue::Event;
use crate::world::World;

const QUORUM_INTERVALS: u64 = 2;
const FORMER_MS: u64 = 300_000;

/// Who is asked what.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<(usize, Duty)>,
    /// Nobody decides, and why.
    pub(super) orphaned: Option<Unknown>,
    pub(super) is_told: bool,
    masters: Option<Result<Vec<Arc<str>>, Unknown>>,
    sentinels: Vec<SentinelWord>,
}

impl Plan {
    pub(super) fn knows_nothing(&self) -> bool {
        self.nodes.is_empty() && !self.is_told
    }

    pub(super) fn topology(&self) -> Topology {
        Topology {
            epoch: 1,
            redis: RedisIndex(0),
            masters: self.masters.clone().unwrap_or(Err(Unknown::NotReadYet)),
            nodes: self.nodes.iter().map(|(server, _)| address(*server)).collect(),
            sentinels: self.sentinels.clone(),
            uncovered_slots: 0,
        }
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Authority {
    kind: Kind,
    changed: bool,
}

#[derive(Debug)]
enum Kind {
    Standalone,
    Replicated(Replicated),
    Sentinel(Sentinels),
}

fn duty(decides: bool) -> Duty {
    Duty { standing: if decides { Standing::Decides } else { Standing::Witness }, owns: true }
}

impl Authority {
    pub(super) fn new(story: &Story, agent: usize, life: u32, world: &mut World) -> Authority {
        let (interval_ms, timeout_ms) =
            story.spec.redises.first().map_or((1_000, 3_000), |redis| (redis.interval_ms, redis.timeout_ms));
        let kind = match story.kind() {
            RedisKind::Standalone | RedisKind::Cluster => Kind::Standalone,
            RedisKind::Replicated => Kind::Replicated(Replicated {
                lead: Lead::new(story.servers),
                answered: vec![None; story.servers],
                silence_ms: timeout_ms + interval_ms * 2,
                failing: false,
            }),
            RedisKind::Sentinel => {
                for sentinel in 0..story.sentinels {
                    world.queue.push(world.now, Event::Sentinel { agent, life, sentinel, answer: None });
                }
                Kind::Sentinel(Sentinels {
                    quorum: Quorum::new(story.sentinels, interval_ms * QUORUM_INTERVALS),
                    count: story.sentinels,
                    interval_ms,
                    hurry: false,
                    asking: vec![false; story.sentinels],
                    master: Err(Unknown::NotReadYet),
                    newest: None,
                    former: BTreeMap::new(),
                    known: Vec::new(),
                })
            }
        };
        Authority { kind, changed: true }
    }

    /// A server told something, or failed to.
    pub(super) fn heard(&mut self, server: usize, role: Option<Role>, failed: Option<Unknown>, now: Mono) {
        match &mut self.kind {
            Kind::Standalone => {}
            Kind::Replicated(replicated) => self.changed |= replicated.heard(server, role, failed, now),
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
        }
    }

    pub(super) fn plan(&mut self, now: Mono) -> Option<Plan> {
        let due = self.next_wake().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.changed) && !due {
            return None;
        }
        Some(match &mut self.kind {
            Kind::Standalone => Plan { nodes: vec![(0, duty(true))], ..Plan::default() },
            Kind::Replicated(replicated) => replicated.plan(now),
            Kind::Sentinel(sentinels) => sentinels.plan(now),
        })
    }

    /// A Sentinel is to be asked, or has answered.
    pub(super) fn sentinel(
        &mut self,
        position: usize,
        answer: Option<Asked>,
        agent: usize,
        life: u32,
        world: &mut World,
    ) {
        let Kind::Sentinel(sentinels) = &mut self.kind else { return };
        let now = world.now;
        match answer {
            // Time to ask.
            None => {
                if !std::mem::replace(&mut sentinels.asking[position], true) {
                    let told = world.sentinels[position];
                    let (after, replies) = match told.reachable {
                        true => (2, Some(replies(told.names, world))),
                        false => (1_000, None),
                    };
                    let answer = Some(Asked { asked: now, replies });
                    world.queue.push(now + after, Event::Sentinel { agent, life, sentinel: position, answer });
                }
            }
            Some(Asked { asked, replies }) => {
                sentinels.asking[position] = false;
                let answer = match replies {
                    Some(replies) => sentinel::decode(&replies),
                    None => Err(Unknown::Timeout),
                };
                sentinels.quorum.answered(position, mono(asked), answer);
                let at = (asked + sentinels.interval_ms).max(now + 1);
                world.queue.push(at, Event::Sentinel { agent, life, sentinel: position, answer: None });
                self.changed = true;
            }
        }
    }

    /// Asks the Sentinels at once, where somebody said to hurry.
    pub(super) fn ask_hurriedly(&mut self, agent: usize, life: u32, world: &mut World) {
        let Kind::Sentinel(sentinels) = &mut self.kind else { return };
        if std::mem::take(&mut sentinels.hurry) {
            for sentinel in 0..sentinels.count {
                world.queue.push(world.now + 1, Event::Sentinel { agent, life, sentinel, answer: None });
            }
        }
    }
}

/// What a Sentinel says.
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
        Reply::Array(vec![text("name"), text("x"), text("ip"), ip, text("port"), port, text("flags"), text("slave")])
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
    fn heard(&mut self, node: usize, role: Option<Role>, failed: Option<Unknown>, now: Mono) -> bool {
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
        let lead = self.lead.master().ok().filter(|_| self.failing)?;
        Some(self.answered.get(lead).copied().flatten()?.plus_ms(self.silence_ms))
    }

    fn plan(&mut self, now: Mono) -> Plan {
        if let (Some(at), Ok(lead)) = (self.silent_at(), self.lead.master())
            && at <= now
        {
            self.failing = false;
            self.lead.heard(lead, now, None);
        }
        let lead = self.lead.master();
        let nodes = (0..self.answered.len()).map(|node| (node, duty(lead == Ok(node)))).collect();
        Plan {
            nodes,
            orphaned: lead.err(),
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
    asking: Vec<bool>,
    master: Result<usize, Unknown>,
    newest: Option<usize>,
    former: BTreeMap<usize, Mono>,
    known: Vec<usize>,
}

impl Sentinels {
    fn plan(&mut self, now: Mono) -> Plan {
        let number = |host: &str| host.rsplit('.').next().and_then(|last| last.parse::<usize>().ok()?.checked_sub(1));
        let master = self.quorum.master(now).and_then(|named| number(&named.host).ok_or(Unknown::ForeignAddress));
        let unheard = (0..self.count).any(|sentinel| self.quorum.word(sentinel).is_none());
        let early = matches!(self.master, Err(Unknown::NotReadYet)) && unheard && master == Err(Unknown::Quorum);
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
        let nodes = known.iter().map(|server| (*server, duty(master == Ok(*server)))).collect();
        self.master = match master {
            Err(_) if early => Err(Unknown::NotReadYet),
            other => other,
        };
        self.known = known;
        let word = |sentinel| SentinelWord {
            address: sentinel_address(sentinel),
            master: self.quorum.word(sentinel).map(|word| word.map(|named| named.address())),
        };
        Plan {
            nodes,
            orphaned: if early { None } else { master.err() },
            is_told: !early,
            masters: Some(self.master.map(|master| vec![address(master)])),
            sentinels: (0..self.count).map(word).collect(),
        }
    }

    fn next_wake(&self) -> Option<Mono> {
        let ends = || self.quorum.ends().into_iter().chain(self.former.values().copied()).min();
        self.master.is_ok().then(ends).flatten()
    }
}
