//! Which connections are taken: a bound for all, a bound per peer, and room kept for peers that have none. Streams, which stay
//! for hours, have lower bounds of their own, so that they leave room for whoever asks and goes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;

/// Counts open connections.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    limits: Limits,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    all: Count,
    peers: HashMap<IpAddr, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    connections: usize,
    /// Connections that are busy with a stream.
    streams: usize,
}

/// The right to keep one connection open; ends when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    peer: IpAddr,
    gate: Gate,
}

/// The right to keep a connection busy with a stream; ends when dropped.
#[derive(Debug)]
pub(super) struct StreamPermit(Arc<Permit>);

impl Gate {
    pub(super) fn new(limits: Limits) -> Gate {
        Gate { limits, open: Arc::default() }
    }

    /// Takes a connection from `address`, unless there are too many.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Permit> {
        let peer = peer(address);
        let mut open = lock(&self.open);
        let of_peer = open.peers.get(&peer).copied().unwrap_or_default().connections;
        let kept = if of_peer == 0 { 0 } else { self.limits.connections_for_new_peers };
        let all = open.all.connections.saturating_add(kept);
        if of_peer >= self.limits.connections_per_peer || all >= self.limits.connections {
            return None;
        }
        open.all.connections += 1;
        open.peers.entry(peer).or_default().connections += 1;
        Some(Permit { peer, gate: self.clone() })
    }
}

impl Permit {
    /// Takes a stream on this connection, unless there are too many.
    pub(super) fn stream(self: &Arc<Permit>) -> Option<StreamPermit> {
        let limits = &self.gate.limits;
        let mut open = lock(&self.gate.open);
        let Open { all, peers } = &mut *open;
        let of_peer = peers.entry(self.peer).or_default();
        if of_peer.streams >= limits.streams_per_peer || all.streams >= limits.streams {
            return None;
        }
        all.streams += 1;
        of_peer.streams += 1;
        Some(StreamPermit(Arc::clone(self)))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = lock(&self.0.gate.open);
        open.all.streams = open.all.streams.saturating_sub(1);
        if let Some(of_peer) = open.peers.get_mut(&self.0.peer) {
            of_peer.streams = of_peer.streams.saturating_sub(1);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = lock(&self.gate.open);
        open.all.connections = open.all.connections.saturating_sub(1);
        match open.peers.get_mut(&self.peer) {
            Some(of_peer) if of_peer.connections > 1 => of_peer.connections -= 1,
            _ => {
                open.peers.remove(&self.peer);
            }
        }
    }
}

/// Whoever has one address of an IPv6 /64 network has them all.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

/// Counting cannot leave the counts half done, so a panic elsewhere is no reason to stop.
fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(Limits {
            connections: 10,
            connections_per_peer: 4,
            connections_for_new_peers: 3,
            streams: 5,
            streams_per_peer: 3,
            ..Limits::default()
        })
    }

    fn take(gate: &Gate, address: &str, times: usize) -> Vec<Permit> {
        (0..times).filter_map(|_| gate.admit(address.parse().unwrap())).collect()
    }

    #[test]
    fn one_peer_gets_its_share_only() {
        let gate = gate();
        let held = take(&gate, "10.0.0.1", 100);
        assert_eq!(held.len(), 4);
        drop(held);
        assert_eq!(take(&gate, "10.0.0.1", 100).len(), 4);
    }

    #[test]
    fn the_last_slots_are_for_new_peers() {
        let gate = gate();
        let (_one, _two) = (take(&gate, "10.0.0.1", 4), take(&gate, "10.0.0.2", 100));
        assert_eq!(lock(&gate.open).all.connections, 7);
        let others: Vec<Vec<Permit>> = (3..10).map(|n| take(&gate, &format!("10.0.0.{n}"), 2)).collect();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn nothing_is_remembered_of_peers_that_left() {
        let gate = gate();
        for n in 0..1000 {
            let held = take(&gate, &format!("10.0.{}.{}", n / 256, n % 256), 3);
            let streams: Vec<_> = held.into_iter().filter_map(|permit| Arc::new(permit).stream()).collect();
            assert_eq!(streams.len(), 3);
        }
        let open = lock(&gate.open);
        assert_eq!((open.all.connections, open.all.streams, open.peers.len()), (0, 0, 0));
    }

    #[test]
    fn streams_leave_room_for_who_asks_and_goes() {
        let gate = gate();
        let streams = |address: &str| -> Vec<StreamPermit> {
            take(&gate, address, 4).into_iter().filter_map(|permit| Arc::new(permit).stream()).collect()
        };
        let one = streams("10.0.0.1");
        assert_eq!(one.len(), 3, "the bound of a peer");
        assert_eq!(take(&gate, "10.0.0.1", 100).len(), 1, "what its streams leave to it");
        let other = streams("10.0.0.2");
        assert_eq!(other.len(), 2, "the bound of all");
        drop(one);
        assert_eq!(streams("10.0.0.3").len(), 3);
        drop(other);
        assert_eq!(streams("10.0.0.2").len(), 3);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_a_mapped_address_is_its_ipv4_peer() {
        assert_eq!(peer("2001:db8:1:2::1".parse().unwrap()), peer("2001:db8:1:2:ffff::9".parse().unwrap()));
        assert_ne!(peer("2001:db8:1:2::1".parse().unwrap()), peer("2001:db8:1:3::1".parse().unwrap()));
        assert_eq!(peer("::ffff:10.0.0.1".parse().unwrap()), peer("10.0.0.1".parse().unwrap()));
    }
}
