//! TLS over a TCP connection. Before the server's certificate has been checked, nothing but the
//! handshake is sent: no command and no password. Sessions are not resumed, so that each connection
//! checks the certificate again.

mod check;
mod files;
mod words;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::check::Identity;
use self::words::Refusals;
use crate::config::Tls;

pub use self::files::unusable;

/// A connection whose server has proved its name.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) stream: TlsStream<TcpStream>,
    refusals: Refusals,
}

/// Makes the handshake, and checks the server's certificate.
pub(super) async fn protect(
    tcp: TcpStream,
    tls: &Tls,
    limit: Duration,
) -> Result<Session, Failure> {
    let settings = files::settings(&tls.files, limit).await?;
    let name = ServerName::try_from(tls.name.clone()).map_err(|_| words::no_name(&tls.name))?;
    let identity = Arc::new(Identity::new(settings.own.clone()));
    let config = settings.client(Arc::clone(&identity));
    let config = config.map_err(|error| Failure::new(Unknown::TlsFiles, error))?;
    let refusals = Refusals { tls: tls.clone(), identity };
    match timeout(limit, TlsConnector::from(Arc::new(config)).connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(Session { stream, refusals }),
        Ok(Err(error)) => Err(refusals.handshake(&error)),
        Err(_) => Err(words::silence(limit)),
    }
}

impl Session {
    /// Why the server ended the connection before it answered anything, if that is about TLS. In
    /// TLS 1.3 it checks the client's certificate only after the handshake.
    pub(super) fn refusal(&self, error: Option<&io::Error>) -> Option<Failure> {
        self.refusals.refusal(error)
    }
}
