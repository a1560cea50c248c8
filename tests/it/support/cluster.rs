//! A real Redis Cluster, made by `redis-cli --cluster create`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::network::{self, Member, Options, Place};
use super::redis::{CLIENT, RedisServer, Setup};
use super::replicas::{fed_replicas, password_lines};
use super::wait_until;

const MASTERS: usize = 3;
/// How long a silent node is not considered failing (`cluster-node-timeout`).
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for agreement between nodes.
const AGREE: Duration = Duration::from_secs(40);
/// Timeout of one attempt at a manual failover.
const ATTEMPT: Duration = Duration::from_secs(6);
/// Timeout of a node's reply.
const ANSWER: Duration = Duration::from_millis(500);
/// Number of keys that one step of a migration moves.
const STEP: &str = "100";

/// The nodes: 0 to 2 are the first masters; with replicas, 3 to 5 are those.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    password: Option<&'static str>,
    tls: Vec<String>,
}

impl Cluster {
    /// Three masters with `replicas` (0 or 1) each, in agreement; `None`, with a message, on a
    /// machine without Redis.
    pub(crate) fn start(test: &str, replicas: usize, options: &Options) -> Option<Cluster> {
        if !RedisServer::can_start(test) {
            return None;
        }
        let count = MASTERS * (1 + replicas);
        let start =
            |index| Member::start(index, options.wiring, |place| node_setup(place, options));
        let cluster = Cluster {
            members: (0..count).map(start).collect(),
            password: options.password,
            tls: options.tls.clone(),
        };
        let mut arguments = vec!["create".to_owned()];
        arguments.extend(cluster.members.iter().map(Member::announced));
        arguments.extend([
            "--cluster-replicas".to_owned(),
            replicas.to_string(),
            "--cluster-yes".to_owned(),
        ]);
        cluster.command(&arguments);
        cluster.wait_agreed();
        Some(cluster)
    }

    pub(crate) fn node(&self, index: usize) -> &RedisServer {
        &self.members[index].server
    }

    pub(crate) fn node_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.members[index].server
    }

    /// The announced addresses of all nodes.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members.iter().map(Member::announced).collect()
    }

    /// The node's cluster id.
    pub(crate) fn id(&self, index: usize) -> String {
        self.node(index).cli(&["cluster", "myid"])
    }

    pub(crate) fn slot(&self, key: &str) -> u16 {
        let node = self.members.iter().find(|member| member.server.runs()).unwrap();
        node.server.cli(&["cluster", "keyslot", key]).parse().unwrap()
    }

    /// The master that claims this slot. If two do, as in a partition, the one with the higher
    /// epoch.
    pub(crate) fn owner_of_slot(&self, slot: u16) -> Option<usize> {
        let claims = (0..self.members.len()).filter_map(|index| {
            let own = Own::of(self.node(index))?;
            (own.is_master && own.slots.iter().any(|(from, to)| (*from..=*to).contains(&slot)))
                .then_some((own.epoch, index))
        });
        claims.max().map(|(_, index)| index)
    }

    /// The master that owns the slot of this key.
    pub(crate) fn owner(&self, key: &str) -> usize {
        self.owner_of_slot(self.slot(key))
            .unwrap_or_else(|| panic!("nobody owns the slot of {key}"))
    }

    /// Runs a command on the master that owns this key.
    pub(crate) fn cli(&self, key: &str, arguments: &[&str]) -> String {
        self.node(self.owner(key)).cli(arguments)
    }

    /// The replicas of this master.
    pub(crate) fn replicas_of(&self, master: usize) -> Vec<usize> {
        let id = self.id(master);
        let follows =
            |index: &usize| Own::of(self.node(*index)).is_some_and(|own| own.master == id);
        (0..self.members.len()).filter(follows).collect()
    }

    /// Moves one slot and its keys to another master, as resharding does.
    pub(crate) fn move_slot(&self, slot: u16, to: usize) {
        self.begin_move(slot, to);
        while self.move_keys(slot, to) > 0 {}
        self.end_move(slot, to);
    }

    /// Starts the migration of a slot: from now on its owner answers `ASK` for keys that it no
    /// longer has.
    pub(crate) fn begin_move(&self, slot: u16, to: usize) {
        let from = self.owner_of_slot(slot).unwrap();
        let number = slot.to_string();
        assert_eq!(
            self.node(to).cli(&["cluster", "setslot", &number, "importing", &self.id(from)]),
            "OK"
        );
        assert_eq!(
            self.node(from).cli(&["cluster", "setslot", &number, "migrating", &self.id(to)]),
            "OK"
        );
    }

    /// Migrates some keys of such a slot, and returns how many.
    pub(crate) fn move_keys(&self, slot: u16, to: usize) -> usize {
        let from = self.node(self.owner_of_slot(slot).unwrap());
        let keys = from.cli(&["cluster", "getkeysinslot", &slot.to_string(), STEP]);
        let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            return 0;
        }
        let port = self.members[to].port.to_string();
        let mut migrate = vec!["migrate", "127.0.0.1", &port, "", "0", "5000"];
        migrate.extend(self.password.map(|password| ["auth", password]).into_iter().flatten());
        migrate.push("keys");
        migrate.extend(&keys);
        assert_eq!(from.cli(&migrate), "OK");
        keys.len()
    }

    /// Ends the migration: all masters get the new owner.
    pub(crate) fn end_move(&self, slot: u16, to: usize) {
        let id = self.id(to);
        let is_master = |index: &usize| Own::of(self.node(*index)).is_some_and(|own| own.is_master);
        let masters: Vec<usize> = (0..self.members.len()).filter(is_master).collect();
        // The new owner first; otherwise both owners would redirect clients to each other.
        for index in std::iter::once(to).chain(masters.into_iter().filter(|index| *index != to)) {
            assert_eq!(
                self.node(index).cli(&["cluster", "setslot", &slot.to_string(), "node", &id]),
                "OK"
            );
        }
    }

    /// Moves this many slots with their keys by `redis-cli --cluster reshard`.
    pub(crate) fn reshard(&self, from: usize, to: usize, slots: usize) {
        let arguments = [
            "reshard",
            &self.members[to].announced(),
            "--cluster-from",
            &self.id(from),
            "--cluster-to",
        ];
        let more = [&self.id(to), "--cluster-slots", &slots.to_string(), "--cluster-yes"];
        self.command(
            &arguments.iter().chain(&more).map(|word| (*word).to_owned()).collect::<Vec<_>>(),
        );
    }

    /// The lossless failover: `CLUSTER FAILOVER` on a replica, during which its master pauses
    /// writes.
    pub(crate) fn fail_over(&self, replica: usize) {
        let mut begun: Option<Instant> = None;
        wait_until(AGREE, "the replica takes over", || {
            // An attempt may fail silently after some seconds.
            if begun.is_none_or(|begun| begun.elapsed() > ATTEMPT) {
                let answer = self.node(replica).cli(&["cluster", "failover"]);
                begun = (answer == "OK").then(Instant::now);
            }
            Own::of(self.node(replica)).is_some_and(|own| own.is_master)
        });
    }

    /// Waits until one of `replicas` has taken over from its dead master.
    pub(crate) fn wait_taken_over(&self, replicas: &[usize]) -> usize {
        let mut new = None;
        wait_until(AGREE, "a replica takes over", || {
            let is_master =
                |index: &usize| Own::of(self.node(*index)).is_some_and(|own| own.is_master);
            new = replicas.iter().copied().find(is_master);
            new.is_some()
        });
        new.unwrap()
    }

    /// Removes a slot from every node, so that it is uncovered.
    pub(crate) fn uncover(&self, slot: u16) {
        for member in &self.members {
            member.server.cli(&["cluster", "delslots", &slot.to_string()]);
        }
        wait_until(AGREE, "the slot is uncovered", || {
            self.members.iter().all(|member| !claims_covered(&member.server))
        });
    }

    /// All other nodes forget this one, for a minute.
    pub(crate) fn forget(&self, index: usize) {
        let id = self.id(index);
        for (_, member) in self.members.iter().enumerate().filter(|(other, _)| *other != index) {
            member.server.cli(&["cluster", "forget", &id]);
        }
    }

    /// Makes a node forget all others and its keys: `CLUSTER RESET`.
    pub(crate) fn reset(&self, index: usize) {
        self.node(index).cli(&["flushall"]);
        assert_eq!(self.node(index).cli(&["cluster", "reset"]), "OK");
    }

    /// Cuts one node off from all others; clients still reach it.
    pub(crate) fn isolate(&self, index: usize) {
        network::isolate(&self.members, index);
    }

    /// Cuts the link between two nodes, replication included.
    pub(crate) fn cut(&self, one: usize, other: usize) {
        network::cut(&self.members[one], &self.members[other]);
    }

    /// Restores all links.
    pub(crate) fn heal(&self) {
        network::heal_all(&self.members);
    }

    /// Makes the announced ports unreachable for clients until `heal`: they must map them to the
    /// real ones.
    pub(crate) fn hide_announced(&self) {
        network::hide_announced(&self.members);
    }

    /// Waits until every running node reports that all slots are covered and all nodes known, and
    /// every replica follows.
    pub(crate) fn wait_agreed(&self) {
        let count = self.members.len().to_string();
        let agrees = |node: &RedisServer| {
            let state = node.try_cli(&["cluster", "info"], ANSWER).unwrap_or_default();
            let has = |line: &str| state.lines().any(|found| found.trim_end() == line);
            has("cluster_state:ok")
                && has(&format!("cluster_known_nodes:{count}"))
                && match node.info("role").as_deref() {
                    Some("master") => {
                        fed_replicas(node).iter().all(|replica| replica.contains("state=online"))
                    }
                    _ => node.info("master_link_status").as_deref() == Some("up"),
                }
        };
        for (index, member) in
            self.members.iter().enumerate().filter(|(_, member)| member.server.runs())
        {
            wait_until(AGREE, &format!("node {index} agrees"), || agrees(&member.server));
        }
    }

    /// Runs `redis-cli --cluster …` and panics unless it succeeds.
    fn command(&self, arguments: &[String]) {
        let mut command = Command::new(CLIENT);
        if let [_, ca, ..] = self.tls.as_slice() {
            command.args(["--tls", "--cacert", ca]);
        }
        command.arg("--cluster").args(arguments).stdin(Stdio::null());
        if let Some(password) = self.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

/// A node's own entry in `CLUSTER NODES`.
struct Own {
    is_master: bool,
    /// The id of its master, or `-`.
    master: String,
    /// The epoch of its claim.
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl Own {
    fn of(node: &RedisServer) -> Option<Own> {
        let answer = node.runs().then(|| node.try_cli(&["cluster", "nodes"], ANSWER)).flatten()?;
        let line = answer.lines().find(|line| line.contains("myself"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_id, _address, flags, master, _ping, _pong, epoch, _link, slots @ ..] =
            words.as_slice()
        else {
            return None;
        };
        Some(Own {
            is_master: flags.contains("master"),
            master: (*master).to_owned(),
            epoch: epoch.parse().ok()?,
            slots: slots.iter().filter_map(|range| slot_range(range)).collect(),
        })
    }
}

/// `7`, `0-5460`; `None` for a slot on the move, which is in brackets.
fn slot_range(text: &str) -> Option<(u16, u16)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// Whether this node reports that all slots are covered.
fn claims_covered(node: &RedisServer) -> bool {
    node.cli(&["cluster", "info"]).contains("cluster_slots_assigned:16384")
}

fn node_setup(place: Place, options: &Options) -> Setup {
    let mut lines = vec![
        place.source_line(),
        "cluster-enabled yes".to_owned(),
        format!("cluster-node-timeout {}", NODE_TIMEOUT.as_millis()),
        // A replica may take over however long it was cut off: tests decide what it lacks.
        "cluster-replica-validity-factor 0".to_owned(),
        "cluster-announce-ip 127.0.0.1".to_owned(),
        format!("cluster-announce-port {}", place.port),
        format!("cluster-announce-tls-port {}", place.port),
        format!("cluster-announce-bus-port {}", place.bus_port),
        "repl-diskless-sync-delay 0".to_owned(),
        // Members connect from addresses other than 127.0.0.1, which protected mode would refuse.
        "protected-mode no".to_owned(),
    ];
    lines.extend(password_lines(options));
    lines.extend(options.lines.iter().map(|line| (*line).to_owned()));
    Setup {
        lines: Some(lines),
        password: options.password.map(str::to_owned),
        tls: options.tls.clone(),
        ..Setup::default()
    }
}
