//! The HTTP server: takes connections within limits, and ends them in time. Only this room knows
//! hyper.
//!
//! It reads what is published, has shown anew what is looked at, can ask for a reload, and can wait
//! until the sampler reads a task anyway; nothing in a request reaches Redis.

mod api;
mod badge;
pub mod client;
mod etag;
mod events;
mod explain;
mod gate;
mod live;
mod page;
mod parameters;
mod reply;
mod routes;
mod stream;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exchange::Desk;
use crate::output::history::History;
use crate::published::{ReloadRequest, ReloadStatus, Snapshots};
use gate::{Gate, Permit};
use reply::too_many_streams;
use routes::Site;
use stream::{Guarded, Stay};

/// What the server reads and may ask for.
#[derive(Clone, Debug)]
pub struct HttpContext {
    /// What the engine publishes.
    pub snapshots: Snapshots,
    /// How the configuration was last loaded.
    pub reload_status: watch::Receiver<ReloadStatus>,
    /// Where a reload is asked for.
    pub reload: mpsc::Sender<ReloadRequest>,
    /// Whether a reload may be asked for over HTTP.
    pub enable_lifecycle: bool,
    /// The newest events.
    pub history: History,
    /// Where to wait for what is said about a task.
    pub desk: Desk,
    /// Sites that may show a task's page in a frame.
    pub frame_ancestors: Arc<[String]>,
    /// How much clients may take.
    pub limits: Limits,
}

/// How much clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Of them, those from one address (of IPv6: one /64 network).
    pub connections_per_peer: usize,
    /// Connections kept for addresses that have none, so that no address can lock the others out.
    pub connections_for_new_peers: usize,
    /// Connections that may be busy with a stream at a time; fewer than there are connections.
    pub streams: usize,
    /// Of them, those from one address.
    pub streams_per_peer: usize,
    /// Explanations that may be waited for at a time.
    pub explanations: usize,
    /// Of them, those from one address.
    pub explanations_per_peer: usize,
    /// A request's head must be complete this long after the connection was made or its first byte
    /// came.
    pub head: Duration,
    /// How long a connection may be idle between two requests.
    pub idle: Duration,
    /// How long a client may refuse to take any byte of a response.
    pub write_stall: Duration,
    /// How long a client may take for a whole response; of an endless one, to catch up with what
    /// there is.
    pub response: Duration,
    /// How long open connections may go on after the shutdown began.
    pub drain: Duration,
    /// A snapshot older than this means that the engine has stopped.
    pub snapshot_age: Duration,
    /// A stream that has nothing to say says so this often: many a proxy ends one that is silent
    /// for 30 s.
    pub heartbeat: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // All of them, and Redis, fit into 1,024 file descriptors; and a proxy with 200 open
            // pages is one address.
            connections: 512,
            connections_per_peer: 384,
            connections_for_new_peers: 16,
            streams: 320,
            streams_per_peer: 256,
            explanations: 64,
            explanations_per_peer: 32,
            head: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            write_stall: Duration::from_secs(10),
            response: Duration::from_secs(30),
            drain: Duration::from_secs(3),
            snapshot_age: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after connections could not be taken (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Most connections that may wait to be taken; the system may allow fewer. Of those beyond it, who
/// scrapes waits a second at least: that is when a client asks again.
const BACKLOG: u32 = 4096;

/// Bytes that the kernel takes of an answer ahead of what it can send, for a client that does not
/// read; what is under way to one that reads is not counted. Much less of it would keep in our
/// memory what lists and old pages are made from.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 1 << 20;

/// Listens on `address`.
///
/// # Errors
/// It is taken, or not one of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // After a restart the connections of the one before must not keep the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `listener` until `shutdown`, then lets open connections finish for a while.
pub async fn serve(listener: TcpListener, context: HttpContext, shutdown: CancellationToken) {
    let limits = context.limits;
    let gate = Gate::new(limits);
    let site = Arc::new(Site::new(context, shutdown.clone()));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match gate.admit(peer.ip()) {
                Some(permit) => {
                    connections.spawn(serve_connection(
                        stream,
                        Arc::clone(&site),
                        limits,
                        graceful.watcher(),
                        permit,
                    ));
                }
                None => tracing::debug!(%peer, "connection refused: too many"),
            },
            // The client went away before it was its turn.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let remedy = "With too many open files: let the agent open 1024 (`ulimit -n`, \
                    `LimitNOFILE`).";
                tracing::warn!(%error, remedy, "cannot take connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::info!("ending connections that are still open");
    }
    connections.shutdown().await;
}

/// Answers the requests of one connection; holds its permit until the end.
async fn serve_connection(
    stream: TcpStream,
    site: Arc<Site>,
    limits: Limits,
    watcher: Watcher,
    permit: Permit,
) {
    // Head and body are written apart: without this the body waits for the client's delayed
    // acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(&stream);
        // A client that vanished does not refuse bytes, it only never acknowledges them.
        if let Err(error) = socket.set_tcp_user_timeout(Some(limits.response)) {
            tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT");
        }
        if let Err(error) = socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
            tracing::debug!(%error, "cannot set TCP_NOTSENT_LOWAT");
        }
    }
    serve_stream(stream, site, limits, watcher, permit).await;
}

/// Answers the requests of one client over an open stream, until either end closes it: what
/// [`serve`] does for each connection.
pub async fn serve_client<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    context: HttpContext,
) {
    let limits = context.limits;
    let Some(permit) = Gate::new(limits).admit(Ipv4Addr::LOCALHOST.into()) else { return };
    let shutdown = CancellationToken::new();
    let _ended_with_this = shutdown.clone().drop_guard();
    let site = Arc::new(Site::new(context, shutdown));
    serve_stream(stream, site, limits, GracefulShutdown::new().watcher(), permit).await;
}

async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    site: Arc<Site>,
    limits: Limits,
    watcher: Watcher,
    permit: Permit,
) {
    let (serving, leave) = (permit.serving.clone(), permit.leave.clone());
    let stream = Guarded::new(stream, limits, serving.clone());
    let permit = Arc::new(permit);
    let service = service_fn(move |request: Request<Incoming>| {
        serving.begin();
        let (site, serving, permit) = (Arc::clone(&site), serving.clone(), Arc::clone(&permit));
        async move {
            let wants_body = request.method() != Method::HEAD;
            let reply = site.respond(request, &permit).await;
            if !(wants_body && reply.body().is_endless()) {
                return Ok(reply.map(|body| serving.watch(body)));
            }
            Ok::<_, Infallible>(match permit.stream() {
                None => too_many_streams().map(|body| serving.watch(body)),
                Some(permit) => reply.map(|body| {
                    serving.watch_endless(body, Stay::new(site.shutdown.clone(), permit))
                }),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The stream keeps the time: hyper's own limit would also end idle connections between two
        // scrapes.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = watcher.watch(connection) => if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        },
        () = leave.cancelled() => tracing::debug!("connection ended: its client kept the server \
            waiting, and others came"),
    }
}
