//! Determines which servers decide, from what Sentinels, a cluster or the servers themselves
//! report, and plans which server is asked for what.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockwatch_judge::input::{Announcer, Role, Standing, Topology};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::read::Scope;
use lockwatch_watch::redis::topology::Announced;
use lockwatch_watch::redis::topology::replicated::Lead;
use lockwatch_watch::redis::topology::sentinel::Quorum;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use self::cluster::Cluster;
use super::node::Heard;
use super::sentinel::{self, Word};
use super::urgency::{Urge, urgency};
use super::{Server, Tasks};
use crate::clock::Clock;
use crate::config::{Endpoint, HostPort, Peers, RedisConfig, SentinelConfig, Servers, ms};

/// How many intervals after its request an answer of a Sentinel counts.
const QUORUM_INTERVALS: u64 = 2;
/// How long a server that decided before is still read, in milliseconds: it may act as if it still
/// decided.
const FORMER_MS: u64 = 300_000;
/// Maximum number of Sentinel answers in the queue.
const WORDS: usize = 64;

/// Which server is asked for what.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Planned>,
    /// Tasks about which nobody decides, each with the reason.
    pub(super) orphans: Vec<(Tasks, Unknown)>,
    /// Keys that live on another server than their lock: for each task, the server (or why there is
    /// none) and the parts that it has.
    pub(super) beside: BTreeMap<TaskIndex, Vec<(Server, Scope)>>,
    /// Whether the topology must be reported to the engine.
    pub(super) is_told: bool,
    masters: Option<Result<Vec<Arc<str>>, Unknown>>,
    sentinels: Vec<Announcer>,
    uncovered_slots: u32,
}

/// One server of the plan and its duty.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) at: HostPort,
    pub(super) address: Arc<str>,
    pub(super) duty: Duty,
}

/// What one server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    pub(super) standing: Standing,
    /// Tasks whose lock this server reads.
    pub(super) own: Tasks,
    /// All tasks of the Redis, so that keys beside other servers' locks can be read here.
    pub(super) all: Tasks,
    /// Tasks of which only parts live here.
    scopes: Arc<BTreeMap<TaskIndex, Scope>>,
}

impl Duty {
    pub(super) fn none() -> Duty {
        Duty::new(Standing::Witness, &Tasks::default(), &Tasks::default())
    }

    fn new(standing: Standing, own: &Tasks, all: &Tasks) -> Duty {
        Duty { standing, own: Arc::clone(own), all: Arc::clone(all), scopes: Arc::default() }
    }

    /// Which parts of `task` live here.
    pub(super) fn scope(&self, task: TaskIndex) -> Scope {
        self.scopes.get(&task).copied().unwrap_or(Scope::ALL)
    }
}

impl Plan {
    /// Whether no server or Sentinel has reported yet which servers there are.
    pub(super) fn knows_nothing(&self) -> bool {
        self.nodes.is_empty() && !self.is_told
    }

    /// The topology to report to the engine.
    pub(super) fn topology(&self, epoch: u32, redis: StoreIndex) -> Topology {
        Topology {
            epoch,
            store: redis,
            masters: self.masters.clone().unwrap_or(Err(Unknown::NotReadYet)),
            nodes: self.nodes.iter().map(|node| Arc::clone(&node.address)).collect(),
            announcers: self.sentinels.clone(),
            uncovered: self.uncovered_slots,
        }
    }
}

/// The source from which it is known which servers decide.
pub(super) struct Authority {
    kind: Kind,
    /// Whether anything changed since the last plan.
    changed: bool,
}

enum Kind {
    Standalone,
    Replicated(Replicated),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Authority {
    /// Starts without knowledge, and begins to ask.
    pub(super) fn new(config: &RedisConfig, clock: Clock) -> Authority {
        let kind = match &config.servers {
            Servers::One(_) => Kind::Standalone,
            Servers::Nodes(nodes) => Kind::Replicated(Replicated::new(config, nodes)),
            Servers::Sentinel(sentinel) => Kind::Sentinel(Sentinels::new(config, sentinel, clock)),
            Servers::Cluster(cluster) => Kind::Cluster(Cluster::new(config, cluster)),
        };
        Authority { kind, changed: true }
    }

    /// Forces a new plan.
    pub(super) fn forget_plan(&mut self) {
        self.changed = true;
    }

    /// Waits until something is learned from another source than the servers of the plan. Never
    /// returns where there is no such source.
    pub(super) async fn changed(&mut self) {
        match &mut self.kind {
            Kind::Standalone | Kind::Replicated(_) => std::future::pending().await,
            Kind::Sentinel(sentinels) => match sentinels.words.recv().await {
                Some(word) => sentinels.quorum.answered(word.sentinel, word.asked, word.answer),
                None => std::future::pending().await,
            },
            Kind::Cluster(cluster) => match cluster.maps.recv().await {
                Some(told) => {
                    if !cluster.learn(told) {
                        return;
                    }
                }
                None => std::future::pending().await,
            },
        }
        self.changed = true;
    }

    /// Takes in what a server of the plan reported, or that it failed.
    pub(super) fn heard(&mut self, address: &str, heard: &Heard, now: Mono) {
        match &mut self.kind {
            Kind::Standalone => {}
            Kind::Replicated(replicated) => self.changed |= replicated.heard(address, heard, now),
            Kind::Sentinel(sentinels) => {
                let decides = sentinels.master.as_ref().is_ok_and(|master| **master == *address);
                if decides && (heard.failed.is_some() || heard.role == Some(Role::Replica)) {
                    sentinels.urge.hurry();
                }
            }
            Kind::Cluster(cluster) => cluster.heard(address, heard),
        }
    }

    /// When the plan may change without any report.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        match &self.kind {
            Kind::Standalone => None,
            Kind::Replicated(replicated) => replicated.silent_at(),
            Kind::Sentinel(sentinels) => sentinels.next_wake(),
            Kind::Cluster(cluster) => cluster.next_wake(),
        }
    }

    /// The new plan, if it may differ from the last one.
    pub(super) fn plan(&mut self, now: Mono, config: &RedisConfig, all: &Tasks) -> Option<Plan> {
        let due = self.next_wake().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.changed) && !due {
            return None;
        }
        Some(match &mut self.kind {
            Kind::Standalone => {
                let nodes = config.servers.configured();
                let nodes = nodes
                    .iter()
                    .map(|at| planned(at.clone(), Duty::new(Standing::Decides, all, all)));
                Plan { nodes: nodes.collect(), ..Plan::default() }
            }
            Kind::Replicated(replicated) => replicated.plan(now, all),
            Kind::Sentinel(sentinels) => sentinels.plan(now, all),
            Kind::Cluster(cluster) => cluster.plan(now, all),
        })
    }
}

fn planned(at: HostPort, duty: Duty) -> Planned {
    let address = at.to_string().into();
    Planned { at, address, duty }
}

/// Whether connections made for one configuration can be used for the other.
pub(super) fn same_servers(a: &RedisConfig, b: &RedisConfig) -> bool {
    let RedisConfig {
        name: _,
        servers,
        db,
        login,
        interval: _,
        timeout,
        assume_master,
        wake_ups: _,
    } = a;
    (servers, db, login, timeout, assume_master)
        == (&b.servers, &b.db, &b.login, &b.timeout, &b.assume_master)
}

/// A master and replicas without Sentinel.
struct Replicated {
    nodes: Vec<HostPort>,
    lead: Lead,
    /// When each server reported its role last.
    answered: Vec<Option<Mono>>,
    /// How long the lead must be silent until it counts as unreachable, in milliseconds.
    silence_ms: u64,
    /// Whether the lead currently fails to answer.
    failing: bool,
}

impl Replicated {
    fn new(config: &RedisConfig, nodes: &[HostPort]) -> Replicated {
        Replicated {
            nodes: nodes.to_vec(),
            lead: Lead::new(nodes.len()),
            answered: vec![None; nodes.len()],
            silence_ms: ms(config.timeout).saturating_add(ms(config.interval).saturating_mul(2)),
            failing: false,
        }
    }

    /// Returns whether another server may decide now.
    fn heard(&mut self, address: &str, heard: &Heard, now: Mono) -> bool {
        let Some(node) = self.nodes.iter().position(|at| at.to_string() == address) else {
            return false;
        };
        let before = self.lead.master();
        if let Some(role) = heard.role {
            if let Some(answered) = self.answered.get_mut(node) {
                *answered = Some(now);
            }
            self.lead.heard(node, now, Some(role));
            self.failing &= before != Ok(node);
        } else if heard.failed.is_some() {
            // A single lost reply does not depose the lead.
            if before == Ok(node) { self.failing = true } else { self.lead.heard(node, now, None) }
        }
        self.lead.master() != before
    }

    /// When a lead that does not answer is given up.
    fn silent_at(&self) -> Option<Mono> {
        if !self.failing {
            return None;
        }
        let lead = self.lead.master().ok()?;
        Some(self.answered.get(lead).copied().flatten()?.plus_ms(self.silence_ms))
    }

    fn plan(&mut self, now: Mono, all: &Tasks) -> Plan {
        if let (Some(at), Ok(lead)) = (self.silent_at(), self.lead.master())
            && at <= now
        {
            self.failing = false;
            self.lead.heard(lead, now, None);
        }
        let lead = self.lead.master();
        let standing = |node| if lead == Ok(node) { Standing::Decides } else { Standing::Witness };
        let nodes = self.nodes.iter().enumerate();
        let nodes: Vec<Planned> = nodes
            .map(|(node, at)| planned(at.clone(), Duty::new(standing(node), all, all)))
            .collect();
        let master = lead.map(|lead| {
            nodes.get(lead).map(|node| Arc::clone(&node.address)).into_iter().collect()
        });
        Plan {
            orphans: orphans(all, lead.err()),
            is_told: lead != Err(Unknown::NotReadYet),
            masters: Some(master),
            nodes,
            ..Plan::default()
        }
    }
}

fn foreign(announced: &Announced) {
    let remedy = lockwatch_watch::redis::remedy(Unknown::ForeignAddress);
    tracing::warn!(address = %announced, remedy, "a server is announced at an address that is not \
        allowed");
}

/// All tasks as orphans, if nobody decides.
fn orphans(all: &Tasks, why: Option<Unknown>) -> Vec<(Tasks, Unknown)> {
    why.map(|why| (Arc::clone(all), why)).into_iter().collect()
}

/// Servers that are watched by Sentinels.
struct Sentinels {
    quorum: Quorum,
    words: mpsc::Receiver<Word>,
    urge: Urge,
    configured: Vec<HostPort>,
    peers: Peers,
    /// The master of the last plan.
    master: Result<Arc<str>, Unknown>,
    /// The newest known master.
    newest: Option<HostPort>,
    /// Earlier masters, and until when they are read. Sentinels list them as replicas only later.
    former: BTreeMap<HostPort, Mono>,
    /// The servers of the last plan.
    known: Vec<HostPort>,
    _asking: Vec<AbortOnDropHandle<()>>,
}

impl Sentinels {
    fn new(config: &RedisConfig, sentinel: &SentinelConfig, clock: Clock) -> Sentinels {
        let (urge, turn) = urgency();
        let (sender, words) = mpsc::channel(WORDS);
        let master: Arc<str> = sentinel.master.as_str().into();
        let mut asking = Vec::new();
        for (position, at) in sentinel.nodes.iter().enumerate() {
            let endpoint = Endpoint {
                at: at.clone(),
                db: 0,
                login: sentinel.login.clone(),
                timeout: config.timeout,
                // A Sentinel has no master role to report.
                assume_master: true,
                readonly: false,
            };
            let listening = sentinel::listen(endpoint.clone(), urge.another());
            let (turn, sender, master) = (turn.clone(), sender.clone(), Arc::clone(&master));
            let asks =
                sentinel::ask(position, endpoint, master, config.interval, turn, sender, clock);
            asking.extend([
                AbortOnDropHandle::new(tokio::spawn(asks)),
                AbortOnDropHandle::new(tokio::spawn(listening)),
            ]);
        }
        Sentinels {
            quorum: Quorum::new(
                sentinel.nodes.len(),
                ms(config.interval).saturating_mul(QUORUM_INTERVALS),
            ),
            words,
            urge,
            configured: sentinel.nodes.clone(),
            peers: sentinel.peers.clone(),
            master: Err(Unknown::NotReadYet),
            newest: None,
            former: BTreeMap::new(),
            known: Vec::new(),
            _asking: asking,
        }
    }

    fn plan(&mut self, now: Mono, all: &Tasks) -> Plan {
        let named = self.quorum.master(now);
        let resolve = |announced: &Announced| self.peers.resolve(announced, &self.configured);
        let master = named.and_then(|named| {
            resolve(&named).ok_or_else(|| {
                if self.master != Err(Unknown::ForeignAddress) {
                    foreign(&named);
                }
                Unknown::ForeignAddress
            })
        });
        let unheard =
            (0..self.configured.len()).any(|sentinel| self.quorum.word(sentinel).is_none());
        // At the start, a missing quorum is not worth reporting yet.
        let early = matches!(self.master, Err(Unknown::NotReadYet))
            && unheard
            && master == Err(Unknown::Quorum);
        let mut known: Vec<HostPort> = master.iter().cloned().collect();
        known.extend(self.quorum.peers(now).iter().filter_map(resolve));
        if let Ok(master) = &master {
            self.follow_former(master, now);
        }
        known.extend(self.former.keys().cloned());
        if master.is_err() {
            // Known servers stay witnesses.
            known.append(&mut self.known);
        }
        let mut seen = BTreeSet::new();
        known.retain(|at| seen.insert(at.clone()));
        let standing = |at: &HostPort| {
            if master.as_ref() == Ok(at) { Standing::Decides } else { Standing::Witness }
        };
        let nodes: Vec<Planned> =
            known.iter().map(|at| planned(at.clone(), Duty::new(standing(at), all, all))).collect();
        self.master = match &master {
            Ok(at) => Ok(at.to_string().into()),
            Err(_) if early => Err(Unknown::NotReadYet),
            Err(why) => Err(*why),
        };
        self.known = known;
        Plan {
            nodes,
            orphans: if early { Vec::new() } else { orphans(all, master.err()) },
            is_told: !early,
            masters: Some(self.master.clone().map(|master| vec![master])),
            sentinels: self.words(),
            ..Plan::default()
        }
    }

    /// Remembers the master before `master`.
    fn follow_former(&mut self, master: &HostPort, now: Mono) {
        let before = self.newest.replace(master.clone()).filter(|before| before != master);
        self.former.extend(before.map(|before| (before, now.plus_ms(FORMER_MS))));
        self.former.remove(master);
        self.former.retain(|_, until| *until > now);
    }

    /// When the plan may change without an answer of a Sentinel.
    fn next_wake(&self) -> Option<Mono> {
        // Without a master, the known servers stay.
        let ends = || self.quorum.ends().into_iter().chain(self.former.values().copied()).min();
        self.master.is_ok().then(ends).flatten()
    }

    fn words(&self) -> Vec<Announcer> {
        let word = |(position, at): (usize, &HostPort)| Announcer {
            address: at.to_string().into(),
            master: self.quorum.word(position).map(|word| word.map(|named| named.address())),
        };
        self.configured.iter().enumerate().map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockwatch_watch::redis::topology::sentinel::Answer;

    use super::*;
    use crate::config::Login;

    fn at(host: &str) -> HostPort {
        HostPort { host: host.to_owned(), port: 6379 }
    }

    /// Three Sentinels of a Redis that is read each second; none of them is reachable.
    fn sentinels() -> Sentinels {
        let nowhere = HostPort { host: "127.0.0.1".to_owned(), port: 1 };
        let sentinel = SentinelConfig {
            master: "main".to_owned(),
            nodes: vec![nowhere; 3],
            login: Login::default(),
            peers: Peers::default(),
        };
        let config = RedisConfig {
            name: "main".into(),
            servers: Servers::Sentinel(sentinel.clone()),
            db: 0,
            login: Login::default(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(3),
            assume_master: false,
            wake_ups: false,
        };
        Sentinels::new(&config, &sentinel, Clock::start())
    }

    /// All of them name `master`.
    fn name(sentinels: &mut Sentinels, asked: Mono, master: &str) {
        let master = Announced::new(master, 6379).unwrap();
        for sentinel in 0..3 {
            let answer = Answer { master: master.clone(), replicas: Vec::new() };
            sentinels.quorum.answered(sentinel, asked, Ok(answer));
        }
    }

    fn plan(
        sentinels: &mut Sentinels,
        now: u64,
    ) -> (Result<Vec<Arc<str>>, Unknown>, Vec<HostPort>) {
        let plan = sentinels.plan(Mono(now), &Tasks::default());
        (plan.masters.unwrap(), plan.nodes.into_iter().map(|node| node.at).collect())
    }

    #[tokio::test]
    async fn what_sentinels_say_counts_for_two_intervals() {
        let mut sentinels = sentinels();
        name(&mut sentinels, Mono(10_000), "a");
        assert_eq!(plan(&mut sentinels, 12_000).0, Ok(vec!["a:6379".into()]));
        assert_eq!(plan(&mut sentinels, 12_001).0, Err(Unknown::Quorum));
    }

    #[tokio::test]
    async fn a_master_that_was_replaced_is_read_for_five_more_minutes() {
        let mut sentinels = sentinels();
        name(&mut sentinels, Mono(10_000), "a");
        assert_eq!(plan(&mut sentinels, 10_000).1, [at("a")]);
        for (now, read) in [
            (11_000, vec![at("b"), at("a")]),
            (310_999, vec![at("b"), at("a")]),
            (311_000, vec![at("b")]),
        ] {
            name(&mut sentinels, Mono(now), "b");
            assert_eq!(plan(&mut sentinels, now).1, read, "{now}");
        }
    }
}
