//! The beginning of a connection: TLS where the web file asks for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first byte of a client that speaks TLS.
const TLS_RECORD: u8 = 0x16;
/// What a client is told that does not.
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
        stream.shutdown().await?;
        drain(stream).await;
        return Err(io::Error::other("it speaks plain HTTP"));
    }
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    Ok(Entrance::Tls(Box::new(stream)))
}

/// Reads what the client still sends: a connection that is closed before would be reset, and the
/// client might not see what it was told.
async fn drain(stream: TcpStream) {
    let mut bytes = [0; 1024];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
