//! A TCP proxy that simulates network faults on command.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What happens to the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Replies are delayed by this time.
    Delay(Duration),
    /// Replies arrive byte by byte, with this pause after each.
    Dribble(Duration),
    /// Drops the reply to every second batch. Batches are recognized by their `ECHO`, which
    /// greetings lack.
    DropEverySecondReply,
    /// Drops the reply to every second request, greetings included.
    DropEverySecondAnswer,
    /// Replies are cut off after this many bytes of each connection, and the connection is closed.
    Truncate(usize),
    /// Requests pass, replies do not.
    SwallowReplies,
    /// Replies pass, requests do not.
    SwallowRequests,
    /// Nothing passes on connections with `CLIENT TRACKING`; everything passes on the others.
    SwallowTracking,
}

/// How many bytes of each connection are kept for tests that look at them.
const KEPT: usize = 64 << 10;
/// Polling interval of held bytes.
const HELD_LOOK: Duration = Duration::from_millis(2);

/// A proxy to one address. Dropping it closes all connections.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    upstream: SocketAddr,
    fault: Mutex<Fault>,
    /// Addresses whose bytes are held in both directions.
    held: Mutex<HashSet<IpAddr>>,
    ended: AtomicBool,
    /// Number of connections so far.
    connections: AtomicUsize,
    /// Number of batches so far.
    batches: AtomicUsize,
    /// Number of requests while every second reply is dropped.
    requests: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    /// What each connection sent so far, up to [`KEPT`] bytes.
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Proxy {
    /// A proxy to `127.0.0.1:port` without any fault.
    pub(crate) fn start(port: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            upstream: SocketAddr::from(([127, 0, 0, 1], port)),
            fault: Mutex::new(Fault::None),
            held: Mutex::default(),
            ended: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            open: Mutex::new(Vec::new()),
            sent: Mutex::default(),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Proxy { port: own_port, shared, accepting: Some(accepting) }
    }

    /// Sets the fault from now on.
    pub(crate) fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
    }

    /// Holds all bytes between this source address and the server in both directions, as a network
    /// without a route: nothing is closed, and bytes in flight wait.
    pub(crate) fn hold(&self, source: IpAddr) {
        self.shared.held.lock().unwrap().insert(source);
    }

    /// Ends `hold`: waiting bytes arrive now.
    pub(crate) fn let_go(&self, source: IpAddr) {
        self.shared.held.lock().unwrap().remove(&source);
    }

    /// Closes all connections, but accepts new ones.
    pub(crate) fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _closed_before = stream.shutdown(Shutdown::Both);
        }
    }

    /// What each connection sent to the server, at least its beginning.
    pub(crate) fn requests(&self) -> Vec<Vec<u8>> {
        self.shared.sent.lock().unwrap().clone()
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// The number of a new connection.
    fn sent_by_another(&self) -> usize {
        let mut sent = self.sent.lock().unwrap();
        sent.push(Vec::new());
        sent.len() - 1
    }

    fn keep(&self, number: usize, bytes: &[u8]) {
        let kept = &mut self.sent.lock().unwrap()[number];
        let room = KEPT.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
    }

    /// Waits until bytes from or to this address may pass.
    fn wait_while_held(&self, source: IpAddr) {
        while self.held.lock().unwrap().contains(&source) && !self.has_ended() {
            std::thread::sleep(HELD_LOOK);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _wakes_the_acceptor = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
        self.cut();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.has_ended() {
            return;
        }
        let Ok(client) = client else { continue };
        let Ok(source) = client.peer_addr() else { continue };
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let Ok(server) = TcpStream::connect(shared.upstream) else { continue };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            shared.open.lock().unwrap().push(stream.try_clone().unwrap());
        }
        // Whether the newest request on this connection is an even batch.
        let even = Arc::new(AtomicBool::new(false));
        // Whether this connection uses `CLIENT TRACKING`.
        let tracks = Arc::new(AtomicBool::new(false));
        let pairs = [
            (client.try_clone(), server.try_clone(), Way::Requests),
            (Ok(server), Ok(client), Way::Replies),
        ];
        for (from, to, way) in pairs {
            let (from, to) = (from.unwrap(), to.unwrap());
            let (shared, even, tracks) =
                (Arc::clone(shared), Arc::clone(&even), Arc::clone(&tracks));
            std::thread::spawn(move || {
                let _closed = pump(&from, &to, way, source.ip(), &shared, (&even, &tracks));
                let _closed_before = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Requests,
    Replies,
}

fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    way: Way,
    source: IpAddr,
    shared: &Shared,
    (even, tracks): (&AtomicBool, &AtomicBool),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut passed = 0;
    let number = (way == Way::Requests).then(|| shared.sent_by_another());
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        if let Some(number) = number {
            shared.keep(number, &buffer[..count]);
        }
        shared.wait_while_held(source);
        let bytes = &buffer[..count];
        let fault = *shared.fault.lock().unwrap();
        if way == Way::Requests {
            let is_batch = bytes.windows(4).any(|word| word == b"ECHO");
            let is_even = match fault {
                Fault::DropEverySecondAnswer => {
                    shared.requests.fetch_add(1, Ordering::SeqCst) % 2 == 1
                }
                _ => is_batch && shared.batches.fetch_add(1, Ordering::SeqCst) % 2 == 1,
            };
            even.store(is_even, Ordering::SeqCst);
            if bytes.windows(8).any(|word| word == b"TRACKING") {
                tracks.store(true, Ordering::SeqCst);
            }
            let is_lost = fault == Fault::SwallowTracking && tracks.load(Ordering::SeqCst);
            if fault != Fault::SwallowRequests && !is_lost {
                to.write_all(bytes)?;
            }
            continue;
        }
        match fault {
            Fault::SwallowTracking if tracks.load(Ordering::SeqCst) => {}
            Fault::None | Fault::SwallowRequests | Fault::SwallowTracking => to.write_all(bytes)?,
            Fault::SwallowReplies => {}
            Fault::DropEverySecondReply | Fault::DropEverySecondAnswer
                if even.load(Ordering::SeqCst) => {}
            Fault::DropEverySecondReply | Fault::DropEverySecondAnswer => to.write_all(bytes)?,
            Fault::Delay(pause) => {
                std::thread::sleep(pause);
                to.write_all(bytes)?;
            }
            Fault::Dribble(pause) => {
                for byte in bytes {
                    to.write_all(&[*byte])?;
                    std::thread::sleep(pause);
                }
            }
            Fault::Truncate(limit) => {
                let allowed = bytes.len().min(limit.saturating_sub(passed));
                to.write_all(&bytes[..allowed])?;
                passed += allowed;
                if passed >= limit {
                    return Ok(());
                }
            }
        }
    }
}
