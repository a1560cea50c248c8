//! Servers that reach each other only over links that a test can cut, while clients reach all of
//! them.
//!
//! Each member announces a port where a proxy listens, and connects to the others from a source
//! address of its own, by which the proxies identify it. Clients connect from 127.0.0.1 and always
//! pass, on announced and on real ports. So a member that is cut off from all others still serves
//! its clients.

use std::net::{IpAddr, Ipv4Addr};

use super::proxy::Proxy;
use super::redis::{BUS, RedisServer, Setup};

/// The source address of clients.
const CLIENTS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How members reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// Through proxies: links can be cut, and the announced ports differ from the real ones, as
    /// behind NAT.
    #[default]
    Proxied,
    /// Directly, for tests of speed.
    Direct,
}

/// Options common to all servers of a topology.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) wiring: Wiring,
    /// The default user's password, for clients and replicas.
    pub(crate) password: Option<&'static str>,
    /// Additional lines of each server's configuration file, such as `min-replicas-to-write 1` or
    /// `user …`.
    pub(crate) lines: Vec<&'static str>,
    /// The arguments about TLS; none: plain TCP.
    pub(crate) tls: Vec<String>,
}

/// One server with its proxies.
pub(crate) struct Member {
    pub(crate) server: RedisServer,
    /// The port that it announces.
    pub(crate) port: u16,
    /// The source address of its connections to other members.
    source: IpAddr,
    /// Proxies to its port and, in a cluster, to its bus port; none if wired directly.
    gates: Vec<Proxy>,
}

/// A member's announced ports, for its configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The announced port.
    pub(crate) port: u16,
    /// The announced port of the cluster bus.
    pub(crate) bus_port: u16,
    source: IpAddr,
}

impl Place {
    /// The configuration line that sets the server's source address.
    pub(crate) fn source_line(&self) -> String {
        format!("bind-source-addr {}", self.source)
    }
}

impl Member {
    /// Starts the member number `index` of its topology, configured for its place.
    pub(crate) fn start(
        index: usize,
        wiring: Wiring,
        mut setup: impl FnMut(Place) -> Setup,
    ) -> Member {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 1, u8::try_from(index + 1).unwrap()));
        let (mut gates, mut announced) = (Vec::new(), 0);
        let server = RedisServer::launch(|port| {
            gates.clear();
            if wiring == Wiring::Proxied {
                gates.extend([Proxy::start(port), Proxy::start(port + BUS)]);
            }
            let ports: Vec<u16> = gates.iter().map(|gate| gate.port).collect();
            let place = match ports.as_slice() {
                [port, bus_port] => Place { port: *port, bus_port: *bus_port, source },
                _ => Place { port, bus_port: port + BUS, source },
            };
            announced = place.port;
            setup(place)
        });
        Member { server, port: announced, source, gates }
    }

    /// `host:port` as the others know it.
    pub(crate) fn announced(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All bytes that were sent to it through its announced port.
    pub(crate) fn requests(&self) -> Vec<Vec<u8>> {
        self.gates.first().map(Proxy::requests).unwrap_or_default()
    }

    fn hold(&self, source: IpAddr) {
        assert!(!self.gates.is_empty(), "links can be cut only where they are proxied");
        self.gates.iter().for_each(|gate| gate.hold(source));
    }

    fn let_go(&self, source: IpAddr) {
        self.gates.iter().for_each(|gate| gate.let_go(source));
    }
}

/// Cuts the link between two members in both directions, as a network without a route: bytes wait
/// but are not lost, and connections stay open.
pub(crate) fn cut(one: &Member, other: &Member) {
    one.hold(other.source);
    other.hold(one.source);
}

/// Ends `cut`: waiting bytes arrive now.
pub(crate) fn heal(one: &Member, other: &Member) {
    one.let_go(other.source);
    other.let_go(one.source);
}

/// Cuts the links between one member and all others.
pub(crate) fn isolate(members: &[Member], index: usize) {
    others(members, index).for_each(|other| cut(&members[index], other));
}

/// Ends all cuts between these members.
pub(crate) fn heal_all(members: &[Member]) {
    for (index, member) in members.iter().enumerate() {
        others(members, index).for_each(|other| heal(member, other));
        member.let_go(CLIENTS);
    }
}

/// Makes the announced ports unreachable for clients, as addresses inside a NAT are: clients must
/// map them to the real ones.
pub(crate) fn hide_announced(members: &[Member]) {
    members.iter().for_each(|member| member.hold(CLIENTS));
}

fn others(members: &[Member], index: usize) -> impl Iterator<Item = &Member> {
    members.iter().enumerate().filter(move |(other, _)| *other != index).map(|(_, member)| member)
}
