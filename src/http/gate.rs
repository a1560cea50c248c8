//! Which connections are taken: a bound for all, a bound per peer, and room kept for peers that
//! have none. Where there is no room, whoever has kept the server waiting longest makes some: of
//! the same peer, or of one that has more connections. Streams, which stay for hours, have lower
//! bounds of their own, so that they leave room for whoever asks and goes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::stream::Serving;

/// Most connections that were sent away and have not gone yet: each is a file descriptor still.
const LEAVING_MAX: usize = 64;

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
    /// Of the peers that have needed one: held while something is made for one of its requests
    /// alone.
    turns: HashMap<IpAddr, Arc<AsyncMutex<()>>>,
    members: HashMap<u64, Member>,
    /// The number of the next connection.
    next: u64,
    /// Connections that were sent away and have not gone yet; they count nowhere else.
    leaving: usize,
}

/// A connection that was taken.
#[derive(Debug)]
struct Member {
    peer: IpAddr,
    serving: Serving,
    leave: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    connections: usize,
    /// Connections that are busy with a stream.
    streams: usize,
    /// Connections that wait for an explanation.
    explanations: usize,
}

impl Count {
    fn of(&mut self, stay: StayKind) -> &mut usize {
        match stay {
            StayKind::Stream => &mut self.streams,
            StayKind::Explanation => &mut self.explanations,
        }
    }
}

/// What keeps a connection busy for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StayKind {
    Stream,
    Explanation,
}

/// The right to keep one connection open; ends when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    number: u64,
    peer: IpAddr,
    gate: Gate,
    /// How far its request is.
    pub(super) serving: Serving,
    /// Cancelled when its place is given to another.
    pub(super) leave: CancellationToken,
}

/// The right to keep a connection busy with a stream or an explanation; ends when dropped.
#[derive(Debug)]
pub(super) struct StayPermit {
    permit: Arc<Permit>,
    kind: StayKind,
}

impl Gate {
    pub(super) fn new(limits: Limits) -> Gate {
        Gate { limits, open: Arc::default() }
    }

    /// Takes a connection from `address`, unless there are too many and none of them has kept the
    /// server waiting.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Permit> {
        let peer = peer(address);
        let mut open = lock(&self.open);
        let of_peer = open.peers.get(&peer).copied().unwrap_or_default().connections;
        let kept = if of_peer == 0 { 0 } else { self.limits.connections_for_new_peers };
        if of_peer >= self.limits.connections_per_peer {
            open.make_room(|of, _| of == peer)?;
        } else if open.all.connections.saturating_add(kept) >= self.limits.connections {
            // Only of a peer that has more than the new one would have: else they would chase each
            // other out.
            open.make_room(|_, connections| connections > of_peer + 1 || of_peer == 0)?;
        }
        open.all.connections += 1;
        open.peers.entry(peer).or_default().connections += 1;
        let number = open.next;
        open.next += 1;
        let (serving, leave) = (Serving::default(), CancellationToken::new());
        open.members
            .insert(number, Member { peer, serving: serving.clone(), leave: leave.clone() });
        Some(Permit { number, peer, gate: self.clone(), serving, leave })
    }
}

impl Open {
    /// Sends a connection away: among the peers that `may` (by their address and how many
    /// connections they have), one of whoever has most, and of these the one that has kept the
    /// server waiting longest.
    fn make_room(&mut self, may: impl Fn(IpAddr, usize) -> bool) -> Option<()> {
        if self.leaving >= LEAVING_MAX {
            return None;
        }
        let waited_for = self.members.iter().filter_map(|(number, member)| {
            let connections = self.peers.get(&member.peer)?.connections;
            // Not for how long: the clock may tick between two of them.
            let since_ms =
                member.serving.kept_waiting_since_ms().filter(|_| may(member.peer, connections))?;
            Some(((connections, Reverse(since_ms), Reverse(*number)), *number))
        });
        let (_, longest) = waited_for.max()?;
        let member = self.members.remove(&longest)?;
        self.uncount(member.peer);
        self.leaving += 1;
        member.leave.cancel();
        Some(())
    }

    fn uncount(&mut self, peer: IpAddr) {
        self.all.connections = self.all.connections.saturating_sub(1);
        match self.peers.get_mut(&peer) {
            Some(of_peer) if of_peer.connections > 1 => of_peer.connections -= 1,
            _ => {
                self.peers.remove(&peer);
                self.turns.remove(&peer);
            }
        }
    }
}

impl Permit {
    /// Takes a stream on this connection, unless there are too many.
    pub(super) fn stream(self: &Arc<Permit>) -> Option<StayPermit> {
        let limits = &self.gate.limits;
        self.stay(StayKind::Stream, limits.streams, limits.streams_per_peer)
    }

    /// Takes an explanation on this connection, unless there are too many.
    pub(super) fn explanation(self: &Arc<Permit>) -> Option<StayPermit> {
        let limits = &self.gate.limits;
        self.stay(StayKind::Explanation, limits.explanations, limits.explanations_per_peer)
    }

    /// Waits until nothing is made for another request of the same peer. What all ask for is made
    /// once and needs no turn; of what each may ask for in another way, one peer can only have so
    /// much made.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        let turn = {
            let mut open = lock(&self.gate.open);
            // One that was sent away may be the last of its peer, and nobody would remove what it
            // left.
            let is_there = open.peers.contains_key(&self.peer);
            if is_there {
                Arc::clone(open.turns.entry(self.peer).or_default())
            } else {
                Arc::default()
            }
        };
        turn.lock_owned().await
    }

    fn stay(
        self: &Arc<Permit>,
        kind: StayKind,
        most: usize,
        most_per_peer: usize,
    ) -> Option<StayPermit> {
        let mut open = lock(&self.gate.open);
        let Open { all, peers, .. } = &mut *open;
        // One that was sent away counts no more.
        let of_peer = peers.get_mut(&self.peer)?;
        if *of_peer.of(kind) >= most_per_peer || *all.of(kind) >= most {
            return None;
        }
        *all.of(kind) += 1;
        *of_peer.of(kind) += 1;
        Some(StayPermit { permit: Arc::clone(self), kind })
    }
}

impl Drop for StayPermit {
    fn drop(&mut self) {
        let mut open = lock(&self.permit.gate.open);
        let all = open.all.of(self.kind);
        *all = all.saturating_sub(1);
        if let Some(of_peer) = open.peers.get_mut(&self.permit.peer) {
            let of_peer = of_peer.of(self.kind);
            *of_peer = of_peer.saturating_sub(1);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = lock(&self.gate.open);
        match open.members.remove(&self.number) {
            Some(member) => open.uncount(member.peer),
            None => open.leaving = open.leaving.saturating_sub(1),
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
    use std::task::Poll;

    use super::super::stream::Stay;
    use super::*;

    fn gate() -> Gate {
        Gate::new(Limits {
            connections: 10,
            connections_per_peer: 4,
            connections_for_new_peers: 3,
            streams: 5,
            streams_per_peer: 3,
            explanations: 3,
            explanations_per_peer: 2,
            ..Limits::default()
        })
    }

    /// Connections whose requests are being served.
    fn take(gate: &Gate, address: &str, times: usize) -> Vec<Permit> {
        let busy = |permit: Permit| {
            permit.serving.begin();
            permit
        };
        (0..times).filter_map(|_| gate.admit(address.parse().unwrap()).map(busy)).collect()
    }

    /// Connections that have sent nothing yet, each for a while.
    fn open(gate: &Gate, address: &str, times: usize) -> Vec<Permit> {
        let silent = |permit: Permit| {
            permit.serving.has_waited(1_000);
            permit
        };
        (0..times).filter_map(|_| gate.admit(address.parse().unwrap()).map(silent)).collect()
    }

    fn stay(permits: &[Permit]) -> Vec<bool> {
        permits.iter().map(|permit| !permit.leave.is_cancelled()).collect()
    }

    #[test]
    fn whoever_keeps_the_server_waiting_makes_room_for_the_same_peer() {
        let gate = gate();
        let waiting = open(&gate, "10.0.0.1", 3);
        let busy = take(&gate, "10.0.0.1", 1);
        let newest = open(&gate, "10.0.0.1", 1);
        assert_eq!(
            (stay(&waiting), stay(&busy), stay(&newest)),
            (vec![false, true, true], vec![true], vec![true])
        );
        assert_eq!(lock(&gate.open).all.connections, 4);
        drop((waiting, busy, newest));
        let open = lock(&gate.open);
        assert_eq!(
            (open.all.connections, open.leaving, open.peers.len(), open.members.len()),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn whoever_has_most_makes_room_for_others() {
        let gate = gate();
        let (one, two) = (open(&gate, "10.0.0.1", 4), open(&gate, "10.0.0.2", 3));
        // The scraper keeps a connection, and opens another one.
        let scraper = open(&gate, "10.0.0.3", 1);
        let more = open(&gate, "10.0.0.3", 1);
        assert_eq!((stay(&one), stay(&two)), (vec![false, true, true, true], vec![true; 3]));
        assert_eq!((stay(&scraper), more.len()), (vec![true], 1));
        // Many with one each: the newest still gets in.
        let many: Vec<_> = (0..20).map(|n| open(&gate, &format!("10.1.0.{n}"), 1)).collect();
        assert!(many.iter().all(|peer| peer.len() == 1));
        assert!(lock(&gate.open).all.connections <= 10);
    }

    #[test]
    fn peers_do_not_chase_each_other_out() {
        let gate = gate();
        let (one, two) = (open(&gate, "10.0.0.1", 4), open(&gate, "10.0.0.2", 3));
        assert!(
            open(&gate, "10.0.0.2", 1).is_empty(),
            "the first would have fewer than the second"
        );
        assert_eq!((stay(&one), stay(&two)), (vec![true; 4], vec![true; 3]));
    }

    #[test]
    fn those_who_have_not_gone_yet_are_bounded() {
        let gate = gate();
        let held = open(&gate, "10.0.0.1", 1000);
        assert_eq!(held.len(), 4 + LEAVING_MAX);
        drop(held);
        assert_eq!(open(&gate, "10.0.0.1", 4).len(), 4);
    }

    #[test]
    fn nobody_loses_a_place_before_a_request_can_come() {
        let gate = gate();
        let busy = take(&gate, "10.0.0.1", 3);
        let fresh = gate.admit("10.0.0.1".parse().unwrap()).unwrap();
        assert!(open(&gate, "10.0.0.1", 1).is_empty());
        fresh.serving.has_waited(30);
        assert_eq!((open(&gate, "10.0.0.1", 1).len(), stay(&busy)), (1, vec![true; 3]));
        assert!(fresh.leave.is_cancelled());
    }

    #[test]
    fn explanations_are_bounded() {
        let gate = gate();
        let explain = |address: &str| -> Vec<StayPermit> {
            take(&gate, address, 4)
                .into_iter()
                .filter_map(|permit| Arc::new(permit).explanation())
                .collect()
        };
        let (one, two) = (explain("10.0.0.1"), explain("10.0.0.2"));
        assert_eq!((one.len(), two.len()), (2, 1));
        drop(one);
        assert_eq!(explain("10.0.0.2").len(), 1);
    }

    #[tokio::test]
    async fn each_peer_has_one_turn_at_a_time() {
        let gate = gate();
        let (one, other) = (take(&gate, "10.0.0.1", 2), take(&gate, "10.0.0.2", 1));
        let turn = one[0].turn().await;
        let mut next = Box::pin(one[1].turn());
        let is_waiting =
            std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending()))
                .await;
        assert!(is_waiting);
        drop(other[0].turn().await);
        drop(turn);
        drop(next.await);
        // Nothing is remembered of those who left, nor of those who were sent away.
        let sent_away = open(&gate, "10.0.0.3", 5).remove(0);
        assert!(sent_away.leave.is_cancelled());
        drop((one, other));
        drop(sent_away.turn().await);
        assert!(lock(&gate.open).turns.is_empty());
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
        let others: Vec<Vec<Permit>> =
            (3..10).map(|n| take(&gate, &format!("10.0.0.{n}"), 2)).collect();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn nothing_is_remembered_of_peers_that_left() {
        let gate = gate();
        for n in 0..1000 {
            let held = take(&gate, &format!("10.0.{}.{}", n / 256, n % 256), 3);
            let streams: Vec<_> =
                held.into_iter().filter_map(|permit| Arc::new(permit).stream()).collect();
            assert_eq!(streams.len(), 3);
        }
        let open = lock(&gate.open);
        assert_eq!((open.all.connections, open.all.streams, open.peers.len()), (0, 0, 0));
    }

    #[test]
    fn streams_leave_room_for_who_asks_and_goes() {
        let gate = gate();
        let streams = |address: &str| -> Vec<StayPermit> {
            take(&gate, address, 4)
                .into_iter()
                .filter_map(|permit| Arc::new(permit).stream())
                .collect()
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

    /// It has a patience of its own with clients that do not read.
    #[test]
    fn a_stream_keeps_its_place_however_slowly_it_is_read() {
        let gate = gate();
        let permits: Vec<_> = open(&gate, "10.0.0.1", 4).into_iter().map(Arc::new).collect();
        let endless = |permit: &Arc<Permit>| {
            let stay = Stay::new(CancellationToken::new(), permit.stream()?);
            Some(permit.serving.watch_endless((), stay))
        };
        let streams: Vec<_> = permits.iter().filter_map(endless).collect();
        assert_eq!((streams.len(), open(&gate, "10.0.0.1", 1).len()), (3, 1));
        let stays: Vec<_> = permits.iter().map(|permit| !permit.leave.is_cancelled()).collect();
        assert_eq!(stays, [true, true, true, false]);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_a_mapped_address_is_its_ipv4_peer() {
        assert_eq!(
            peer("2001:db8:1:2::1".parse().unwrap()),
            peer("2001:db8:1:2:ffff::9".parse().unwrap())
        );
        assert_ne!(
            peer("2001:db8:1:2::1".parse().unwrap()),
            peer("2001:db8:1:3::1".parse().unwrap())
        );
        assert_eq!(peer("::ffff:10.0.0.1".parse().unwrap()), peer("10.0.0.1".parse().unwrap()));
    }
}
