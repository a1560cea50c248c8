//! The servers of a timeline: each is a simulated world with replication between them, and workers
//! can move from one to another.

use std::collections::{BTreeMap, VecDeque};

use lockwatch_judge::input::{Attestation, Fork, Refusal, Role, Standing, Topology};
use lockwatch_judge::reading::{Mode, Unknown};
use lockwatch_judge::spec::StoreIndex;
use lockwatch_watch::redis::RedisKind;
use std::sync::Arc;

use super::setup::Setup;
use super::text::duration;
use super::verbs;
use super::world::{Beat, Data, Timer, World};

/// The first server, which always exists.
pub(crate) const FIRST: &str = "a";
/// Bytes that one write adds to the replication history.
const WRITE_BYTES: u64 = 100;
/// Interval in milliseconds at which a master with replicas writes a `PING` into its history.
const PING_EVERY_MS: u64 = 10_000;
const PING_BYTES: u64 = 14;

/// Duration in milliseconds of the move of a key. The key keeps the lease that was left at its
/// start.
const MOVE_MS: i64 = 3;

/// All servers.
#[derive(Debug)]
pub(crate) struct Fleet {
    servers: Vec<Server>,
    /// The server of each worker.
    places: BTreeMap<String, usize>,
    /// The server that decides about the lock.
    lead: usize,
    quorum_lost_until: u64,
    /// The server of a cluster with the switches and the progress, if it is another one.
    switches_at: Option<usize>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) world: World,
    /// The server that it replicates, and whether the link works.
    follows: Option<(usize, bool)>,
    lag_ms: u64,
    /// Data in transit from the master, and when they arrive.
    stream: VecDeque<(u64, Data, u64)>,
    /// Its data when its history was last written.
    written: Data,
    pings: u64,
    /// Number of promotions; each one starts a new history.
    promotions: u64,
    state: Power,
    /// The end of its separation from the agent.
    cut_off_until: u64,
    /// Whether it has slots in a cluster.
    has_slots: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    Frozen,
    Killed,
}

impl Server {
    fn new(name: &str, world: World) -> Server {
        Server {
            name: name.to_owned(),
            written: world.data(),
            world,
            follows: None,
            lag_ms: 0,
            stream: VecDeque::new(),
            pings: 0,
            promotions: 0,
            state: Power::On,
            cut_off_until: 0,
            has_slots: true,
        }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> Arc<str> {
        Arc::from(format!("{}:6379", self.name))
    }

    /// The role that it reports.
    pub(crate) fn role(&self) -> Role {
        if self.follows.is_some() { Role::Replica } else { Role::Master }
    }

    /// Why the agent gets no answer, if so.
    pub(crate) fn silence(&self, now: u64) -> Option<Unknown> {
        match self.state {
            Power::Killed => Some(Unknown::Connect),
            Power::Frozen => Some(Unknown::Timeout),
            Power::On => (now < self.cut_off_until).then_some(Unknown::Timeout),
        }
    }

    /// Records a write of the present data in the history.
    fn write(&mut self, now: u64) {
        if self.state != Power::On || self.follows.is_some() {
            return;
        }
        let data = self.world.data();
        if data != self.written {
            self.written = data;
            self.world.offset += WRITE_BYTES;
        }
        let pings = now / PING_EVERY_MS;
        self.world.offset += (pings - self.pings.min(pings)) * PING_BYTES;
        self.pings = pings;
    }

    /// It resumes after a freeze. Leases ran out meanwhile, and its clients have given up their
    /// requests.
    fn wake(&mut self, now: u64) {
        self.state = Power::On;
        self.world.skip_to(now);
    }
}

impl Fleet {
    /// One server.
    pub(crate) fn new() -> Fleet {
        Fleet {
            servers: vec![Server::new(FIRST, World::new())],
            places: BTreeMap::new(),
            lead: 0,
            quorum_lost_until: 0,
            switches_at: None,
        }
    }

    /// The server that decides about the lock.
    pub(crate) fn lead(&self) -> &Server {
        &self.servers[self.lead]
    }

    /// The same, for modification.
    #[cfg(test)]
    pub(crate) fn lead_mut(&mut self) -> &mut World {
        &mut self.servers[self.lead].world
    }

    /// The other servers.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().enumerate().filter(|(at, _)| *at != self.lead).map(|(_, server)| server)
    }

    /// The server with the switches and the progress, if it is not the one with the lock.
    pub(crate) fn switch_server(&self) -> Option<&Server> {
        self.switches_at
            .map(|at| &self.servers[at])
            .filter(|server| server.name != self.lead().name)
    }

    /// Whether the deciding server is unknown.
    pub(crate) fn quorum_lost(&self, now: u64) -> bool {
        now < self.quorum_lost_until
    }

    /// The role in the decision of answers from a server that does not decide about the lock.
    pub(crate) fn standing(&self, server: &Server, kind: RedisKind) -> Standing {
        let decides =
            kind == RedisKind::Cluster && server.has_slots && server.role() == Role::Master;
        if decides { Standing::Decides } else { Standing::Witness }
    }

    /// What a server reports about itself.
    pub(crate) fn attestation(&self, server: &Server) -> Attestation {
        let several = self.servers.len() > 1;
        Attestation {
            role: server.role(),
            offset: several.then_some(server.world.offset),
            refuses_writes: server.world.refuses_writes.then_some(Refusal::NoReplicas),
            ..server.world.attestation()
        }
    }

    /// The known servers and which of them decide, if there may be several.
    pub(crate) fn topology(&self, now: u64, setup: &Setup) -> Option<Topology> {
        let cluster = setup.kind == RedisKind::Cluster;
        let masters = self.servers.iter().enumerate();
        let masters = masters.filter(|(at, server)| {
            *at == self.lead || (cluster && server.has_slots && server.role() == Role::Master)
        });
        let masters = masters.map(|(_, server)| server.address()).collect();
        (setup.kind != RedisKind::Standalone).then(|| Topology {
            epoch: setup.epoch,
            store: StoreIndex(0),
            masters: if self.quorum_lost(now) { Err(Unknown::Quorum) } else { Ok(masters) },
            nodes: self.servers.iter().map(Server::address).collect(),
            announcers: Vec::new(),
            uncovered: 0,
        })
    }

    /// The instant of the next event.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let awake = || self.servers.iter().filter(|server| server.state == Power::On);
        let own = awake().filter_map(|server| server.world.next_event());
        own.chain(awake().filter_map(|server| Some(server.stream.front()?.0))).min()
    }

    /// Processes all events that are due by `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        for server in self.servers.iter_mut().filter(|server| server.state == Power::On) {
            server.world.advance(now);
        }
        self.replicate(now);
    }

    /// Delivers writes to the replicas.
    fn replicate(&mut self, now: u64) {
        for server in &mut self.servers {
            server.write(now);
        }
        for at in 0..self.servers.len() {
            let Some((from, true)) = self.servers[at].follows else { continue };
            let master = &self.servers[from];
            if master.state != Power::On || self.servers[at].state != Power::On {
                continue;
            }
            let (data, offset) = (master.world.data(), master.world.offset);
            let replica = &mut self.servers[at];
            let newest =
                replica.stream.back().map_or(replica.world.offset, |(_, _, offset)| *offset);
            if offset > newest {
                replica.stream.push_back((now + replica.lag_ms, data, offset));
            }
            while replica.stream.front().is_some_and(|(due, _, _)| *due <= now)
                && let Some((_, data, offset)) = replica.stream.pop_front()
            {
                replica.world.put(data);
                replica.world.offset = offset;
            }
        }
    }

    /// Executes a verb. The error is for the author of the timeline.
    pub(crate) fn act(&mut self, now: u64, words: &[&str]) -> Result<(), String> {
        let (subject, rest) = words.split_first().ok_or_else(|| "an empty line".to_owned())?;
        let done = match (*subject, rest) {
            ("server", rest) => self.new_server(now, rest),
            ("at", [name, rest @ ..]) => {
                let at = self.named(name)?;
                verbs::act(&mut self.servers[at].world, rest)
            }
            ("deciding", [name]) => self.named(name).map(|at| self.decides(at)),
            ("quorum", ["lost", "for", long]) => {
                duration(long).map(|ms| self.quorum_lost_until = now + ms)
            }
            ("replication", [how @ ("stops" | "goes-on")]) => {
                (0..self.servers.len()).for_each(|at| self.link(at, *how == "goes-on"));
                Ok(())
            }
            ("slot", ["moves", "to", name]) => self.named(name).map(|at| self.move_slot(at)),
            ("switches", ["live", "at", name]) => {
                self.named(name).map(|at| self.switches_at = Some(at))
            }
            ("phantom", [who, "at", name, "for", long]) => {
                let (at, long) = (self.named(name)?, duration(long)?);
                phantom(&mut self.servers[at].world, who, long)
            }
            (who, ["works", "at", name]) => self.named(name).map(|at| self.works(who, at)),
            (name, rest) if self.named(name).is_ok() => {
                let at = self.named(name)?;
                self.server(now, at, rest).map_err(|why| format!("`{}`: {why}", words.join(" ")))
            }
            (who, _) => {
                let worker = who.starts_with(|c: char| c.is_ascii_uppercase());
                let at = match (worker, who) {
                    (true, who) => *self.places.entry(who.to_owned()).or_insert(self.lead),
                    (false, "switch" | "progress") => self.switches_at.unwrap_or(self.lead),
                    (false, _) => self.lead,
                };
                verbs::act(&mut self.servers[at].world, words)
            }
        };
        self.replicate(now);
        done
    }

    fn named(&self, name: &str) -> Result<usize, String> {
        let known = self.servers.iter().position(|server| server.name == name);
        known.ok_or_else(|| format!("there is no server `{name}`"))
    }

    fn new_server(&mut self, now: u64, words: &[&str]) -> Result<(), String> {
        let ([name] | [name, "replicates", _]) = words else {
            return Err("server b, or server b replicates a, please".to_owned());
        };
        if self.named(name).is_ok() {
            return Err(format!("there is a server `{name}` already"));
        }
        let mut world = World::new();
        world.generation.process = format!("run-{name}").into_bytes();
        world.generation.history = format!("repl-{name}").into_bytes();
        world.advance(now);
        self.servers.push(Server::new(name, world));
        if let [_, "replicates", master] = words {
            let master = self.named(master)?;
            self.follow(self.servers.len() - 1, master);
        }
        Ok(())
    }

    /// Executes a verb that concerns one server.
    fn server(&mut self, now: u64, at: usize, words: &[&str]) -> Result<(), String> {
        match words {
            ["is", "promoted"] => self.promote(at),
            ["becomes", "replica", "of", name] => {
                let master = self.named(name)?;
                self.follow(at, master);
            }
            // It has no data of the new master yet.
            ["is", "demoted"] => {
                self.servers[at].follows = Some((self.lead, false));
                self.servers[at].world.follows = true;
            }
            ["is", "cut", "from", name] => {
                let other = self.named(name)?;
                for (replica, master) in [(at, other), (other, at)] {
                    if self.servers[replica].follows.is_some_and(|(from, _)| from == master) {
                        self.link(replica, false);
                    }
                }
            }
            ["is", "cut", "off", "for", long] => {
                self.servers[at].cut_off_until = now + duration(long)?
            }
            ["lags", long] => self.servers[at].lag_ms = duration(long)?,
            ["freezes"] => self.servers[at].state = Power::Frozen,
            ["thaws"] => self.servers[at].wake(now),
            ["is", "killed"] => self.servers[at].state = Power::Killed,
            ["starts", how] => {
                self.servers[at].wake(now);
                verbs::act(&mut self.servers[at].world, &["restart", how])?;
            }
            ["refuses", "writes"] => self.servers[at].world.refuses_writes = true,
            ["takes", "writes"] => self.servers[at].world.refuses_writes = false,
            _ => return Err("a server cannot do that".to_owned()),
        }
        Ok(())
    }

    /// The server becomes master and starts its own history.
    fn promote(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.follows = None;
        server.world.follows = false;
        server.stream.clear();
        server.written = server.world.data();
        server.pings = server.world.now / PING_EVERY_MS;
        server.promotions += 1;
        let generation = &mut server.world.generation;
        let old = generation.history.clone();
        let own = format!(">{}{}", server.name, server.promotions);
        generation.history = [&old, own.as_bytes()].concat();
        generation.forked_from = Some(Fork { history: old, offset: server.world.offset + 1 });
    }

    /// The server takes over all data of `master`, and its history.
    fn follow(&mut self, at: usize, master: usize) {
        let from = &self.servers[master].world;
        let (data, offset, history) = (from.data(), from.offset, from.generation.history.clone());
        let server = &mut self.servers[at];
        server.follows = Some((master, true));
        server.has_slots = false;
        server.stream.clear();
        server.world.put(data);
        server.world.offset = offset;
        server.world.generation.history = history;
        server.world.generation.forked_from = None;
        server.world.follows = true;
    }

    fn link(&mut self, at: usize, up: bool) {
        let server = &mut self.servers[at];
        server.follows = server.follows.map(|(from, _)| (from, up));
        server.stream.clear();
    }

    fn decides(&mut self, at: usize) {
        self.servers[self.lead].has_slots = false;
        self.servers[at].has_slots = true;
        self.lead = at;
    }

    /// The lock's key moves with its remaining lease, and the workers that use it move, too.
    fn move_slot(&mut self, to: usize) {
        let from = std::mem::replace(&mut self.lead, to);
        let left_ms = self.servers[from].world.ttl_ms();
        let mut lock = self.servers[from].world.lock.take();
        let now = self.servers[to].world.server_now();
        if let Some(lock) = &mut lock {
            lock.deadline = left_ms.map(|left_ms| now + left_ms + MOVE_MS);
        }
        self.servers[to].world.lock = lock;
        let workers: Vec<_> =
            self.places.iter().filter(|(_, at)| **at == from).map(|(who, _)| who.clone()).collect();
        workers.iter().for_each(|who| self.works(who, to));
    }

    /// A worker's connection moves to another server, with all its activities.
    fn works(&mut self, who: &str, at: usize) {
        let from = self.places.insert(who.to_owned(), at).unwrap_or(self.lead);
        let world = &mut self.servers[from].world;
        let (timers, rest): (Vec<Timer>, Vec<Timer>) =
            world.timers.drain(..).partition(|timer| timer.what.who() == Some(who));
        world.timers = rest;
        let (waiters, rest): (Vec<_>, Vec<_>) =
            world.waiters.drain(..).partition(|(waiter, _)| waiter == who);
        world.waiters = rest;
        self.servers[at].world.timers.extend(timers);
        self.servers[at].world.waiters.extend(waiters);
    }
}

/// Takes the lock, and releases it after a moment.
fn phantom(world: &mut World, who: &str, long: u64) -> Result<(), String> {
    if world.lock.is_some() {
        return Err("the lock is held".to_owned());
    }
    world.acquire(who, Mode::Exclusive, 30_000);
    world.timers.push(Timer {
        what: Beat::GiveBack { who: who.to_owned() },
        every: long,
        next: world.now + long,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(fleet: &mut Fleet, now: u64, lines: &[&str]) {
        fleet.advance(now);
        for line in lines {
            fleet.act(now, &line.split_whitespace().collect::<Vec<_>>()).expect(line);
        }
    }

    fn holder(fleet: &Fleet, name: &str) -> Option<String> {
        let at = fleet.named(name).expect("a server");
        fleet.servers[at].world.lock.as_ref().and_then(|lock| lock.holders.keys().next().cloned())
    }

    #[test]
    fn a_replica_has_what_its_master_wrote_and_after_the_link_broke_it_has_not() {
        let mut fleet = Fleet::new();
        done(&mut fleet, 0, &["server b replicates a", "A locks 30s"]);
        assert_eq!(holder(&fleet, "b").as_deref(), Some("A"));
        done(&mut fleet, 1_000, &["replication stops", "A unlocks", "B locks 30s"]);
        assert_eq!(holder(&fleet, "b").as_deref(), Some("A"));
        done(&mut fleet, 2_000, &["b is promoted"]);
        let (a, b) = (&fleet.servers[0].world, &fleet.servers[1].world);
        let fork = b.generation.forked_from.as_ref().expect("a fork");
        assert_eq!((fork.history.as_slice(), fork.offset), (b"repl-1".as_slice(), b.offset + 1));
        assert!(a.offset > b.offset);
    }

    #[test]
    fn a_lagging_replica_gets_everything_later() {
        let mut fleet = Fleet::new();
        done(&mut fleet, 0, &["server b replicates a", "b lags 2s", "A locks 30s"]);
        assert_eq!(fleet.next_event(), Some(2_000));
        done(&mut fleet, 2_000, &[]);
        assert_eq!(holder(&fleet, "b").as_deref(), Some("A"));
    }

    #[test]
    fn a_frozen_server_renews_nothing_and_wakes_to_what_has_run_out() {
        let mut fleet = Fleet::new();
        done(&mut fleet, 0, &["A locks 30s", "A watchdog 30s every 10s"]);
        done(&mut fleet, 5_000, &["a freezes"]);
        done(&mut fleet, 40_000, &["a thaws"]);
        assert_eq!(holder(&fleet, "a"), None);
    }

    #[test]
    fn a_slot_moves_with_what_is_left_of_the_lease() {
        let mut fleet = Fleet::new();
        done(
            &mut fleet,
            0,
            &["server b", "at b clock forward 5s", "A locks 30s", "A watchdog 30s every 10s"],
        );
        done(&mut fleet, 4_000, &["slot moves to b"]);
        assert_eq!((holder(&fleet, "a"), holder(&fleet, "b").as_deref()), (None, Some("A")));
        assert_eq!(fleet.servers[1].world.ttl_ms(), Some(26_000 + MOVE_MS));
        done(&mut fleet, 10_000, &[]);
        assert_eq!(fleet.servers[1].world.ttl_ms(), Some(30_000));
    }

    #[test]
    fn a_phantom_gives_the_lock_back() {
        let mut fleet = Fleet::new();
        done(&mut fleet, 0, &["phantom B at a for 1.1s"]);
        assert_eq!(holder(&fleet, "a").as_deref(), Some("B"));
        done(&mut fleet, 1_100, &[]);
        assert_eq!(holder(&fleet, "a"), None);
    }
}
