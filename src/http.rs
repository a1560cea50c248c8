//! The HTTP server: takes connections within limits, and ends them in time. Only this room knows hyper.
//!
//! It reads what is published and can ask for one thing, a reload; nothing in a request reaches Redis.

mod gate;
mod landing;
mod reply;
mod routes;
mod stream;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::published::{Published, ReloadRequest, ReloadStatus};
use gate::{Gate, Permit};
use routes::Site;
use stream::Guarded;

/// What the server reads and may ask for.
#[derive(Clone, Debug)]
pub struct HttpContext {
    /// The newest snapshot.
    pub published: watch::Receiver<Arc<Published>>,
    /// How the configuration was last loaded.
    pub reload_status: watch::Receiver<ReloadStatus>,
    /// Where a reload is asked for.
    pub reload: mpsc::Sender<ReloadRequest>,
    /// Whether a reload may be asked for over HTTP.
    pub enable_lifecycle: bool,
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
    /// A request's head must be complete this long after the connection was made or its first byte came.
    pub head: Duration,
    /// How long a connection may be idle between two requests.
    pub idle: Duration,
    /// How long a client may refuse to take any byte of a response.
    pub write_stall: Duration,
    /// How long a client may take for a whole response.
    pub response: Duration,
    /// How long open connections may go on after the shutdown began.
    pub drain: Duration,
    /// A snapshot older than this means that the engine has stopped.
    pub snapshot_age: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            connections_per_peer: 32,
            connections_for_new_peers: 16,
            head: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            write_stall: Duration::from_secs(10),
            response: Duration::from_secs(30),
            drain: Duration::from_secs(3),
            snapshot_age: Duration::from_secs(10),
        }
    }
}

/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after connections could not be taken (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Serves `listener` until `shutdown`, then lets open connections finish for a while.
pub async fn serve(listener: TcpListener, context: HttpContext, shutdown: CancellationToken) {
    let limits = context.limits;
    let gate = Gate::new(limits);
    let site = Arc::new(Site::new(context));
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
                    connections.spawn(serve_connection(stream, Arc::clone(&site), limits, graceful.watcher(), permit));
                }
                None => tracing::debug!(%peer, "connection refused: too many"),
            },
            // The client went away before it was its turn.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot take connections");
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
async fn serve_connection(stream: TcpStream, site: Arc<Site>, limits: Limits, watcher: Watcher, _permit: Permit) {
    // Head and body are written apart: without this the body waits for the client's delayed acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let (stream, serving) = Guarded::new(stream, limits);
    let service = service_fn(move |request| {
        serving.begin();
        let (site, serving) = (Arc::clone(&site), serving.clone());
        async move { Ok::<_, Infallible>(site.respond(request).await.map(|body| serving.watch(body))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The stream keeps the time: hyper's own limit would also end idle connections between two scrapes.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended");
    }
}
