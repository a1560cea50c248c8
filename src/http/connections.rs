//! Which connections are accepted, and how long each may keep the server waiting.
//!
//! There is a limit for all connections and one for each address, and some places are kept for
//! addresses with few connections. When a limit is reached, one connection is closed for the new
//! one: the one that has waited longest for its client, either for a request or for the client to
//! read a response. It is one of the same address, or else of the address with the most
//! connections. So neither idle connections nor slow readers lock others out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::context::Limits;
use super::reply::ReplyBody;

/// How long a client may keep the server waiting for a request before its connection can be closed
/// for another.
const REQUEST_GRACE: Duration = Duration::from_millis(20);
/// The same while the client reads a response.
const READING_GRACE: Duration = Duration::from_millis(100);
/// A connection that waits for this long has probably no request on its way.
const IDLE_GRACE: Duration = Duration::from_millis(500);
/// After this time a connection is closed between any two requests.
const IDLE_PATIENCE: Duration = Duration::from_secs(5);
/// An address with fewer connections than this has few. A scraper has one or two.
const FEW: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Connections {
    limits: Limits,
    places: Arc<Mutex<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    /// The connections that were not asked to close.
    open: Vec<Arc<Client>>,
    /// The number of those that were asked to close and have not ended yet.
    closing: usize,
}

/// The permit for one connection, released on drop.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) client: Arc<Client>,
    places: Arc<Mutex<Places>>,
}

/// The client side of a connection.
#[derive(Debug)]
pub(super) struct Client {
    peer: IpAddr,
    limits: Limits,
    progress: Mutex<Progress>,
    /// Cancelled when the connection must make room for another.
    closing: CancellationToken,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug)]
struct Progress {
    phase: Phase,
    began: Instant,
    /// When the client last read a part of the response; initially, when the phase began.
    taken: Instant,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits for a request, or for its client to read the end of a response.
    Waiting,
    /// A response is being prepared.
    Making,
    Sending,
    /// A response without an end is being sent.
    Streaming,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Connections {
        Connections { limits, places: Arc::default() }
    }

    /// Accepts a connection from `address`, unless a limit is reached and no connection can be
    /// closed for it.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Slot> {
        let peer = peer(address);
        let mut places = lock(&self.places);
        places.make_room(peer, self.limits)?;
        let client = Arc::new(Client::new(peer, self.limits));
        places.open.push(Arc::clone(&client));
        Some(Slot { client, places: Arc::clone(&self.places) })
    }
}

impl Places {
    /// Makes sure that `peer` may have another connection, if necessary by closing one.
    fn make_room(&mut self, peer: IpAddr, limits: Limits) -> Option<()> {
        let of_peer = self.open.iter().filter(|client| client.peer == peer).count();
        let kept = if of_peer < FEW { 0 } else { limits.connections_for_small_peers };
        let has_its_share = of_peer >= limits.connections_per_peer;
        if !has_its_share && self.open.len() + kept < limits.connections {
            return Some(());
        }
        if self.closing >= limits.closing {
            return None;
        }
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for client in &self.open {
            *counts.entry(client.peer).or_default() += 1;
        }
        let waiting = self.open.iter().enumerate().filter_map(|(at, client)| {
            let since = client.kept_waiting_since()?;
            let may_close = !has_its_share || client.peer == peer;
            may_close.then_some(((counts.get(&client.peer), Reverse(since)), at))
        });
        let (_, longest) = waiting.max()?;
        self.open.remove(longest).closing.cancel();
        self.closing += 1;
        Some(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut places = lock(&self.places);
        match places.open.iter().position(|client| Arc::ptr_eq(client, &self.client)) {
            Some(at) => drop(places.open.swap_remove(at)),
            None => places.closing = places.closing.saturating_sub(1),
        }
    }
}

impl Client {
    pub(super) fn new(peer: IpAddr, limits: Limits) -> Client {
        let progress = Mutex::new(Progress::now(Phase::Waiting));
        Client { peer, limits, progress, closing: CancellationToken::new() }
    }

    pub(super) fn asks(&self) {
        *lock(&self.progress) = Progress::now(Phase::Making);
    }

    pub(super) fn answer(self: Arc<Client>, body: ReplyBody) -> Answer {
        let phase = if body.is_endless() { Phase::Streaming } else { Phase::Sending };
        *lock(&self.progress) = Progress::now(phase);
        Answer { body, client: self }
    }

    /// Returns when the connection has to be closed, with the reason.
    pub(super) async fn is_to_go(&self) -> &'static str {
        // A phase that begins later has at least this long, so checking at this interval misses no
        // deadline.
        let longest = self.limits.idle.min(self.limits.response);
        loop {
            let now = Instant::now();
            let deadline = self.deadline().unwrap_or(now + longest);
            if deadline <= now {
                return "the client took too long";
            }
            tokio::select! {
                () = self.closing.cancelled() => return "its client kept the server waiting, and others came",
                () = sleep_until(deadline.min(now + longest)) => {}
            }
        }
    }

    /// The address of the client; of IPv6 its network.
    pub(super) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Returns when the connection may be closed without a loss: it has waited for a request for a
    /// while, or sends an endless response. One that always asks is only waited for a while.
    pub(super) async fn is_idle(&self) {
        let patience = Instant::now() + IDLE_PATIENCE;
        loop {
            let Progress { phase, began, .. } = *lock(&self.progress);
            let has_waited = began.elapsed() >= IDLE_GRACE || Instant::now() >= patience;
            if phase == Phase::Streaming || phase == Phase::Waiting && has_waited {
                return;
            }
            sleep_until(Instant::now() + READING_GRACE).await;
        }
    }

    /// When the client has kept the server waiting for too long.
    fn deadline(&self) -> Option<Instant> {
        let Progress { phase, began, taken } = *lock(&self.progress);
        match phase {
            Phase::Waiting => Some(began + self.limits.idle),
            // Handlers have time limits of their own.
            Phase::Making => None,
            Phase::Sending => Some(began + self.limits.response),
            // Each heartbeat gives the client something to read.
            Phase::Streaming => Some(taken + self.limits.response),
        }
    }

    /// Since when the client has kept the server waiting, if the connection may be closed for that.
    fn kept_waiting_since(&self) -> Option<Instant> {
        let Progress { phase, taken, .. } = *lock(&self.progress);
        let grace = match phase {
            Phase::Waiting => REQUEST_GRACE,
            Phase::Sending => READING_GRACE,
            Phase::Making | Phase::Streaming => return None,
        };
        (taken.elapsed() >= grace).then_some(taken)
    }
}

impl Progress {
    fn now(phase: Phase) -> Progress {
        let now = Instant::now();
        Progress { phase, began: now, taken: now }
    }
}

/// The body of a response, which records how its client reads it.
pub(super) struct Answer {
    body: ReplyBody,
    client: Arc<Client>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = <ReplyBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // Hyper polls for more once the client has read enough of what was sent.
        lock(&self.client.progress).taken = Instant::now();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body was handed over, or the response was aborted.
impl Drop for Answer {
    fn drop(&mut self) {
        *lock(&self.client.progress) = Progress::now(Phase::Waiting);
    }
}

/// The peer that an address counts as: for IPv6 its /64 network, since one client usually has all
/// of it.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

/// Each critical section is one assignment or one call, so the data are consistent even after a
/// panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn connections() -> Connections {
        Connections::new(Limits {
            connections: 7,
            connections_per_peer: FEW,
            connections_for_small_peers: 1,
            ..Limits::default()
        })
    }

    fn open(connections: &Connections, address: &str) -> Option<Slot> {
        connections.admit(address.parse().unwrap())
    }

    /// Accepts connections, then lets them be idle past the grace.
    async fn waiting(connections: &Connections, addresses: &[&str]) -> Vec<Slot> {
        let mut slots = Vec::new();
        for address in addresses {
            slots.push(open(connections, address).unwrap());
        }
        sleep(READING_GRACE).await;
        slots
    }

    /// Drops the slots that were asked to close, and returns which they were.
    fn end_closed(slots: &mut Vec<Slot>) -> Vec<bool> {
        let closed: Vec<bool> =
            slots.iter().map(|slot| slot.client.closing.is_cancelled()).collect();
        slots.retain(|slot| !slot.client.closing.is_cancelled());
        closed
    }

    #[tokio::test]
    async fn at_the_bound_of_an_address_its_longest_waiting_makes_room() {
        let connections = connections();
        let mut slots = waiting(&connections, &["10.0.0.2", "10.0.0.1"]).await;
        slots.extend(waiting(&connections, &["10.0.0.1"; 3]).await);
        slots[1].client.asks();
        let newest = open(&connections, "10.0.0.1").unwrap();
        assert_eq!(end_closed(&mut slots), [false, false, true, false, false]);
        slots.iter().for_each(|slot| slot.client.asks());
        newest.client.asks();
        assert!(open(&connections, "10.0.0.1").is_none(), "all of its connections are busy");
        assert!(open(&connections, "10.0.0.3").is_some(), "another address has room");
    }

    #[tokio::test]
    async fn at_the_bound_of_all_the_address_with_the_most_makes_room() {
        let connections = connections();
        let mut slots = waiting(&connections, &["10.0.0.2", "10.0.0.3"]).await;
        slots.extend(waiting(&connections, &["10.0.0.1"; 4]).await);
        let _new_peer = open(&connections, "10.0.0.4").unwrap();
        assert!(open(&connections, "10.0.0.2").is_some());
        assert_eq!(end_closed(&mut slots), [false, false, true, false, false, false]);
    }

    #[test]
    fn the_last_places_are_for_addresses_with_few_connections() {
        let connections = Connections::new(Limits {
            connections: 7,
            connections_for_small_peers: 1,
            ..Limits::default()
        });
        let mut slots: Vec<Slot> =
            (0..6).map(|_| open(&connections, "10.0.0.1").unwrap()).collect();
        assert!(open(&connections, "10.0.0.1").is_none(), "nobody has waited for long");
        slots.push(open(&connections, "10.0.0.2").unwrap());
        assert!(open(&connections, "10.0.0.3").is_none(), "no place is left");
    }

    #[tokio::test]
    async fn connections_that_do_not_end_are_bounded() {
        let limits = Limits { connections: 128, ..Limits::default() };
        let connections = Connections::new(limits);
        let addresses = vec!["10.0.0.1"; limits.connections - limits.connections_for_small_peers];
        let mut slots = waiting(&connections, &addresses).await;
        let _newer: Vec<Slot> =
            (0..limits.closing).map(|_| open(&connections, "10.0.0.1").unwrap()).collect();
        assert!(open(&connections, "10.0.0.1").is_none());
        let closed = end_closed(&mut slots).iter().filter(|closed| **closed).count();
        assert_eq!(closed, limits.closing);
        assert!(open(&connections, "10.0.0.1").is_some());
    }

    #[tokio::test]
    async fn a_stream_keeps_its_place_and_a_slow_reader_does_not() {
        let connections = connections();
        let slots = waiting(&connections, &["10.0.0.1"; 2]).await;
        let progress = |phase| Mutex::new(Progress::now(phase));
        for (phase, may_close) in [
            (Phase::Waiting, true),
            (Phase::Making, false),
            (Phase::Sending, true),
            (Phase::Streaming, false),
        ] {
            let client = Client {
                peer: slots[0].client.peer,
                limits: Limits::default(),
                progress: progress(phase),
                closing: CancellationToken::new(),
            };
            assert_eq!(client.kept_waiting_since(), None, "{phase:?}: not for long");
            sleep(READING_GRACE).await;
            assert_eq!(client.kept_waiting_since().is_some(), may_close, "{phase:?}");
        }
    }

    #[test]
    fn few_files_leave_room_for_redis() {
        let of = |files| Limits::within(files);
        assert_eq!([None, Some(1_024), Some(65_536)].map(of), [Limits::default(); 3]);
        let few = of(Some(48));
        assert_eq!((few.connections, few.connections_per_peer, few.closing), (24, 18, 3));
        assert!(few.streams < few.connections && few.connections_for_small_peers == 1);
        assert_eq!(of(Some(0)).connections, 1);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_a_mapped_address_is_its_ipv4_peer() {
        let peer = |address: &str| super::peer(address.parse().unwrap());
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    }
}
