//! The beginning of a connection: TLS where the web file asks for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client that was turned away may take to read why.
const LINGER: Duration = Duration::from_secs(1);
/// The first byte of a client that speaks TLS.
const TLS_RECORD: u8 = 0x16;
/// What is said to a client that does not.
const NOT_PLAIN: &str = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nThis port speaks TLS: use https:// instead of http://.\n";

/// A connection that may be served.
pub(super) enum Entrance {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Makes the handshake, if there is to be one.
pub(super) async fn enter(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
) -> io::Result<Entrance> {
    match tls {
        None => Ok(Entrance::Plain(stream)),
        Some(tls) => timeout(HANDSHAKE, protect(stream, tls)).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"))
        }),
    }
}

async fn protect(mut stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<Entrance> {
    let mut first = [0];
    if stream.peek(&mut first).await? > 0 && first != [TLS_RECORD] {
        stream.write_all(NOT_PLAIN.as_bytes()).await?;
        end(stream).await?;
        return Err(io::Error::other("it speaks plain HTTP"));
    }
    match TlsAcceptor::from(tls).accept(stream).into_fallible().await {
        Ok(stream) => Ok(Entrance::Tls(Box::new(stream))),
        Err((error, stream)) => {
            end(stream).await?;
            Err(error)
        }
    }
}

/// Closes a connection so that the client sees the response: one that is closed before all is
/// read that the client has sent would be reset.
async fn end(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut bytes = [0; 1024];
    let rest = async { while stream.read(&mut bytes).await.is_ok_and(|length| length > 0) {} };
    // A client that goes on sending is not waited for.
    let _ended = timeout(LINGER, rest).await;
    Ok(())
}
