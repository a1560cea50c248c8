//! The HTTP server: takes connections within limits, and ends them in time. Only this room knows
//! hyper.
//!
//! It reads what is published, has shown anew what is looked at, can ask for a reload, and can wait
//! until the sampler reads a task anyway; nothing in a request reaches Redis.

mod api;
mod badge;
pub mod client;
mod connections;
mod etag;
mod events;
mod explain;
mod live;
mod page;
mod parameters;
mod reply;
mod routes;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::output::history::History;
use crate::published::{ReloadRequest, ReloadStatus, Snapshots};
use crate::trace::Traces;
use connections::{Client, Connections};
use routes::Site;

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
    pub traces: Traces,
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
    /// Streams at a time; fewer than there are connections, so that they leave room for scrapes.
    pub streams: usize,
    /// Explanations that may be waited for at a time.
    pub explanations: usize,
    /// How long a connection may wait for a whole request.
    pub idle: Duration,
    /// How long a client may take for a whole answer; of an endless one, for anything of it. More
    /// than a heartbeat.
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
            streams: 320,
            explanations: 64,
            // Prometheus scrapes each minute unless told otherwise, over one connection.
            idle: Duration::from_secs(75),
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
    let open = Connections::new(limits);
    let site = Arc::new(Site::new(context, shutdown.clone()));
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match open.admit(peer.ip()).await {
                Some(slot) => {
                    let (site, watcher) = (Arc::clone(&site), graceful.watcher());
                    tasks.spawn(async move {
                        if let Err(error) = set_options(&stream, limits) {
                            tracing::debug!(%error, "cannot set the socket's options");
                        }
                        serve_stream(stream, site, watcher, Arc::clone(&slot.client)).await;
                        drop(slot);
                    });
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
    tasks.shutdown().await;
}

#[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "some are for Linux only"))]
fn set_options(stream: &TcpStream, limits: Limits) -> io::Result<()> {
    // Head and body are written apart: without this the body waits for the client's delayed
    // acknowledgement.
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(&stream);
        // A client that vanished does not refuse bytes, it only never acknowledges them.
        socket.set_tcp_user_timeout(Some(limits.response))?;
        socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    }
    Ok(())
}

/// Answers the requests of one client over an open stream, until either end closes it: what
/// [`serve`] does for each connection.
pub async fn serve_client<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    context: HttpContext,
) {
    let client = Arc::new(Client::new(Ipv4Addr::LOCALHOST.into(), context.limits));
    let shutdown = CancellationToken::new();
    let _ended_with_this = shutdown.clone().drop_guard();
    let site = Arc::new(Site::new(context, shutdown));
    serve_stream(stream, site, GracefulShutdown::new().watcher(), client).await;
}

async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    site: Arc<Site>,
    watcher: Watcher,
    client: Arc<Client>,
) {
    let asking = Arc::clone(&client);
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, client) = (Arc::clone(&site), Arc::clone(&asking));
        client.asks();
        async move {
            let reply = site.respond(request).await;
            Ok::<_, Infallible>(reply.map(|body| client.answer(body)))
        }
    });
    let connection = http1::Builder::new()
        // `Client` keeps the time, of answers too; hyper has a limit only for heads.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = watcher.watch(connection) => if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        },
        why = client.is_to_go() => tracing::debug!(why, "connection closed"),
    }
}
