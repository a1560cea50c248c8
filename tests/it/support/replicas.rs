//! A master and its replicas without Sentinel: the test itself performs failovers.

use std::time::Duration;

use super::network::{self, Member, Options, Place};
use super::redis::{RedisServer, Setup};
use super::wait_until;

/// Timeout for replicas to follow.
const FOLLOW: Duration = Duration::from_secs(20);
/// A full synchronization starts at once, without a wait for more replicas.
const FULL_SYNC: &str = "repl-diskless-sync-delay 0";

/// A master, number 0 at first, and its replicas.
pub(crate) struct Replicated {
    pub(crate) members: Vec<Member>,
}

impl Replicated {
    /// A master and this many replicas, in sync; `None`, with a message, on a machine without
    /// Redis.
    pub(crate) fn start(test: &str, replicas: usize, options: &Options) -> Option<Replicated> {
        if !RedisServer::can_start(test) {
            return None;
        }
        let replicated = Replicated { members: start_servers(1 + replicas, options) };
        replicated.wait_in_sync(0);
        Some(replicated)
    }

    pub(crate) fn server(&self, index: usize) -> &RedisServer {
        &self.members[index].server
    }

    /// `REPLICAOF NO ONE`: makes this replica a master too.
    pub(crate) fn promote(&self, index: usize) {
        self.server(index).replicate(None);
    }

    /// The lossless failover: the master pauses writes (`FAILOVER`), and the two change places.
    /// Other replicas follow the new master.
    pub(crate) fn hand_over(&self, master: usize, replica: usize) {
        let port = self.members[replica].port.to_string();
        assert_eq!(self.server(master).cli(&["failover", "to", "127.0.0.1", &port]), "OK");
        wait_until(FOLLOW, "they change places", || {
            follows(&self.members[master], &self.members[replica])
        });
        let others = (0..self.members.len()).filter(|index| ![master, replica].contains(index));
        others.for_each(|other| self.follow(other, replica));
        self.wait_in_sync(replica);
    }

    /// Makes one server the replica of another.
    pub(crate) fn follow(&self, replica: usize, master: usize) {
        self.server(replica).replicate(Some(&self.members[master].announced()));
    }

    /// Cuts the link between two servers in both directions; clients still reach both.
    pub(crate) fn cut(&self, one: usize, other: usize) {
        network::cut(&self.members[one], &self.members[other]);
    }

    /// Restores all links.
    pub(crate) fn heal(&self) {
        network::heal_all(&self.members);
    }

    /// Waits until all other running servers follow this one and have all its writes.
    pub(crate) fn wait_in_sync(&self, master: usize) {
        wait_in_sync(&self.members, master);
    }
}

pub(crate) fn start_servers(count: usize, options: &Options) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for index in 0..count {
        let master = members.first().map(|master| master.port);
        members.push(Member::start(index, options.wiring, |place| {
            server_setup(place, master, options)
        }));
    }
    members
}

fn server_setup(place: Place, master: Option<u16>, options: &Options) -> Setup {
    let mut lines = vec![
        place.source_line(),
        FULL_SYNC.to_owned(),
        "replica-announce-ip 127.0.0.1".to_owned(),
        format!("replica-announce-port {}", place.port),
    ];
    lines.extend(master.map(|port| format!("replicaof 127.0.0.1 {port}")));
    lines.extend(password_lines(options));
    lines.extend(options.lines.iter().map(|line| (*line).to_owned()));
    Setup {
        lines: Some(lines),
        password: options.password.map(str::to_owned),
        tls: options.tls.clone(),
        ..Setup::default()
    }
}

/// Configuration lines that require the password, and use it for replication.
pub(crate) fn password_lines(options: &Options) -> Vec<String> {
    let lines =
        |password| vec![format!("requirepass {password}"), format!("masterauth {password}")];
    options.password.map(lines).unwrap_or_default()
}

/// Waits until all other running members follow this one and have all its writes.
pub(crate) fn wait_in_sync(members: &[Member], master: usize) {
    let others = members.iter().enumerate().filter(|(index, _)| *index != master);
    for (index, replica) in others.filter(|(_, member)| member.server.runs()) {
        wait_until(FOLLOW, &format!("server {index} follows server {master}"), || {
            follows(replica, &members[master])
        });
    }
}

/// Whether this server follows that master and has all its writes.
pub(crate) fn follows(replica: &Member, master: &Member) -> bool {
    let is_at = |server: &RedisServer, field: &str, value: &str| {
        server.info(field).as_deref() == Some(value)
    };
    is_at(&replica.server, "master_port", &master.port.to_string())
        && is_at(&replica.server, "master_link_status", "up")
        && is_at(&master.server, "role", "master")
        && is_fed(replica.port, &master.server)
        && offset(&master.server, "master_repl_offset")
            <= offset(&replica.server, "slave_repl_offset")
}

/// Whether the master sends its writes to the replica with this port, which it only does after the
/// replica has acknowledged the initial synchronization.
fn is_fed(replica_port: u16, master: &RedisServer) -> bool {
    let port = format!("port={replica_port},");
    fed_replicas(master)
        .iter()
        .any(|replica| replica.contains(&port) && replica.contains("state=online"))
}

/// A master's `INFO` lines about its replicas.
pub(crate) fn fed_replicas(master: &RedisServer) -> Vec<String> {
    (0..).map_while(|number| master.info(&format!("slave{number}"))).collect()
}

fn offset(server: &RedisServer, field: &str) -> Option<u64> {
    server.info(field)?.parse().ok()
}
