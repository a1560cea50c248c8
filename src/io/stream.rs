//! What a connection runs over: TCP, TLS over TCP, or a Unix socket. The first read may show that
//! the two sides do not speak the same; then the error says so.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::tls::Session;

/// How an alert of TLS begins: the answer of a TLS server to what is no handshake.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// An open connection, before the protocol of Redis.
#[derive(Debug)]
pub struct Stream {
    over: Over,
    /// Whether anything was received.
    heard: bool,
}

#[derive(Debug)]
enum Over {
    Tcp(TcpStream),
    Tls(Box<Session>),
    Unix(UnixStream),
}

impl Stream {
    pub(super) fn tcp(tcp: TcpStream) -> Stream {
        Stream { over: Over::Tcp(tcp), heard: false }
    }

    pub(super) fn tls(session: Session) -> Stream {
        Stream { over: Over::Tls(Box::new(session)), heard: false }
    }
}

/// Connects to a Unix socket.
pub(super) async fn socket(path: &str, limit: Duration) -> Result<Stream, Failure> {
    let failed = |what: &str| Failure::new(Unknown::Connect, format_args!("{path}: {what}"));
    match timeout(limit, UnixStream::connect(path)).await {
        Ok(Ok(unix)) => Ok(Stream { over: Over::Unix(unix), heard: false }),
        Ok(Err(error)) => Err(match error.kind() {
            io::ErrorKind::NotFound => failed(
                "there is no such socket; does Redis run with `unixsocket` set to this path?",
            ),
            io::ErrorKind::PermissionDenied => failed(
                "permission denied; let the user of lockwatch open it (`unixsocketperm 770` and \
                 the group of Redis)",
            ),
            io::ErrorKind::ConnectionRefused => failed("nobody listens on this socket any more"),
            _ => failed(&error.to_string()),
        }),
        Err(_) => Err(failed(&format!("no answer within {limit:?}"))),
    }
}

impl Over {
    /// What the first read shows of the peer, if that is the end. `fresh` is what was read.
    fn surprise(&self, read: &io::Result<()>, fresh: &[u8]) -> Option<Failure> {
        let ended = read.is_err() || fresh.is_empty();
        match self {
            Over::Tcp(_) if fresh.starts_with(&TLS_ALERT) => {
                Some(Failure::new(Unknown::NeedsTls, "this port answers with an alert of TLS"))
            }
            Over::Tcp(_) if ended => Some(Failure::new(
                Unknown::Closed,
                "the peer closed the connection before it answered anything",
            )),
            Over::Tls(session) if ended => session.refusal(read.as_ref().err()),
            _ => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = ready!(match &mut this.over {
            Over::Tcp(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Over::Tls(session) => Pin::new(&mut session.stream).poll_read(cx, buf),
            Over::Unix(unix) => Pin::new(unix).poll_read(cx, buf),
        });
        if this.heard {
            return Poll::Ready(read);
        }
        let fresh = buf.filled().get(before..).unwrap_or_default();
        match this.over.surprise(&read, fresh) {
            Some(failure) => Poll::Ready(Err(io::Error::other(failure))),
            None => {
                this.heard = true;
                Poll::Ready(read)
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.over {
            Over::Tcp(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Over::Tls(session) => Pin::new(&mut session.stream).poll_write(cx, buf),
            Over::Unix(unix) => Pin::new(unix).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.over {
            Over::Tcp(tcp) => Pin::new(tcp).poll_flush(cx),
            Over::Tls(session) => Pin::new(&mut session.stream).poll_flush(cx),
            Over::Unix(unix) => Pin::new(unix).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.over {
            Over::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Over::Tls(session) => Pin::new(&mut session.stream).poll_shutdown(cx),
            Over::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
        }
    }
}
