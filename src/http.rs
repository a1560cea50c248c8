//! The HTTP server: accepts connections within limits, and closes them in time. Only this module
//! uses hyper.
//!
//! It reads published snapshots, requests refreshed ones, can request a reload, and can wait until
//! the watcher reads a task in its normal cycle. Nothing in a request reaches Redis.

mod age;
mod api;
mod body;
pub mod client;
mod connections;
mod context;
mod drill;
mod etag;
mod events;
mod explain;
mod gate;
mod live;
mod origin;
mod pages;
mod parameters;
mod reply;
mod routes;
mod secure;
mod site;
mod switch;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use connections::{Client, Connections};
pub use context::{HttpContext, Limits};
use secure::Entrance;
use site::Site;

/// Maximum size of a request's head in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after connections could not be accepted, usually because file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How often that is logged, at most.
const SAID_EACH: Duration = Duration::from_secs(60);

/// Maximum number of connections that wait to be accepted; the system may lower it. Beyond it, the
/// kernel drops a client's SYN, so that a scrape waits at least one second for its retransmission.
const BACKLOG: u32 = 4096;

/// Maximum bytes of a response that the kernel buffers beyond what is in flight, for a client that
/// does not read. With much less, lists and old snapshots would stay in the process's memory for
/// longer.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 1 << 20;

/// Listens on `address`; `[::]` stands for all addresses of this machine, also where it has none of
/// IPv6.
///
/// # Errors
/// The address is in use, or not one of this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
    match listen_on(address) {
        Err(error) if address == all && has_no_ipv6(&error) => {
            listen_on((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        listener => listener,
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(Errno::AFNOSUPPORT) || is(Errno::ADDRNOTAVAIL)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.is_ipv6() {
        // Whatever the machine's default is, `[::]` means all addresses.
        socket2::SockRef::from(&socket).set_only_v6(false)?;
    }
    // After a restart, connections of the previous process must not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The next connection of any of them.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let mut polled = listeners.iter().map(|listener| listener.poll_accept(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Serves these listeners until `shutdown`, then lets open connections finish within
/// [`Limits::drain`].
pub async fn serve(listeners: Vec<TcpListener>, context: HttpContext, shutdown: CancellationToken) {
    let limits = context.limits;
    let open = Connections::new(limits);
    let site = Arc::new(Site::new(context, shutdown.clone()));
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    let mut said: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listeners) => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match open.admit(peer.ip()) {
                Some(slot) => {
                    let (site, watcher) = (Arc::clone(&site), graceful.watcher());
                    tasks.spawn(async move {
                        if let Err(error) = set_options(&stream, limits) {
                            tracing::debug!(%error, "cannot set the socket's options");
                        }
                        serve_connection(stream, site, watcher, Arc::clone(&slot.client)).await;
                        drop(slot);
                    });
                }
                None => tracing::debug!(%peer, "connection refused: too many"),
            },
            // The client closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let remedy = "With too many open files: let the agent open 1024 (`ulimit -n`, \
                    `LimitNOFILE`).";
                if said.is_none_or(|said| said.elapsed() >= SAID_EACH) {
                    tracing::warn!(%error, remedy, "cannot take connections");
                    said = Some(Instant::now());
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listeners);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::info!("ending connections that are still open");
    }
    tasks.shutdown().await;
}

#[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "some are for Linux only"))]
fn set_options(stream: &TcpStream, limits: Limits) -> io::Result<()> {
    // Head and body are written separately: without this, the body would wait for the client's
    // delayed acknowledgement.
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

/// Answers the requests of one client over an open stream, until either side closes it. [`serve`]
/// calls this for each connection.
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

/// Serves a connection as the web file says: the client leaves when it may not come in, and when
/// what let it in is in force no longer.
async fn serve_connection(
    stream: TcpStream,
    site: Arc<Site>,
    watcher: Watcher,
    client: Arc<Client>,
) {
    let Some(web) = site.context.web.clone() else {
        return serve_stream(stream, site, watcher, client).await;
    };
    let door = web.door();
    let entered = tokio::select! {
        entered = secure::enter(stream, door.tls.clone()) => entered,
        why = client.is_to_go() => return tracing::debug!(why, "connection closed"),
    };
    let served = async {
        match entered {
            Ok(Entrance::Plain(stream)) => {
                serve_stream(stream, site, watcher, Arc::clone(&client)).await
            }
            Ok(Entrance::Tls(stream)) => {
                serve_stream(stream, site, watcher, Arc::clone(&client)).await
            }
            Err(error) => tracing::debug!(%error, "a client could not begin TLS"),
        }
    };
    let outdated = async {
        web.replaced(&door).await;
        client.is_idle().await;
    };
    tokio::select! {
        () = served => {}
        () = outdated => tracing::debug!("connection closed: the web file was replaced"),
    }
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
            let reply = site.admit(request, client.peer()).await;
            Ok::<_, Infallible>(reply.map(|body| client.answer(body)))
        }
    });
    let connection = http1::Builder::new()
        // `Client` enforces the time limits, for responses too; hyper only has one for heads.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_addresses_are_those_of_both_families() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let listeners = [listen("127.0.0.1:0".parse().unwrap()).unwrap(), listener];
        let mut ways = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))];
        // A machine may have no IPv6.
        ways.extend(
            address.is_ipv6().then(|| SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()))),
        );
        ways.push(listeners[0].local_addr().unwrap());
        for way in ways {
            let (client, accepted) = tokio::join!(TcpStream::connect(way), accept(&listeners));
            assert_eq!(client.unwrap().local_addr().unwrap().port(), accepted.unwrap().1.port());
        }
    }
}
