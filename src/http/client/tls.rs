//! TLS to a server, and the words when it fails.

use std::io;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::Server;
use crate::pem::{self, Pem};

/// Makes the handshake, and checks the server's certificate.
pub(super) async fn protect(
    server: &Server,
    host: &str,
    stream: TcpStream,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let config = config(server).map_err(anyhow::Error::msg)?;
    let name = ServerName::try_from(host.to_owned()).context("its host is no name for TLS")?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    connected.map_err(|error| explained(server, error.into()))
}

fn config(server: &Server) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let roots = match &server.ca_file {
        Some(path) => {
            let named = pem::named(&format!("{}.ca-file", server.flags), path);
            pem::roots(&Pem { named: &named, bytes: &pem::read(&named, path)? })?
        }
        None => pem::system_roots().map_err(|error| {
            format!("{error}; name the authority with {}.ca-file", server.flags)
        })?,
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((cert, key)) = &server.own else { return Ok(config.with_no_client_auth()) };
    let cert_named = pem::named(&format!("{}.cert-file", server.flags), cert);
    let key_named = pem::named(&format!("{}.key-file", server.flags), key);
    let (cert, key) = (pem::read(&cert_named, cert)?, pem::read(&key_named, key)?);
    let chain = pem::certificates(&Pem { named: &cert_named, bytes: &cert })?;
    let secret = pem::private_key(&Pem { named: &key_named, bytes: &key })?;
    let own = pem::pair(chain, &cert_named, secret, &key_named, &provider)?;
    Ok(config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))))
}

/// The same failure in words that help, if it is about TLS. In TLS 1.3 the server checks the
/// client's certificate only after the handshake.
pub(super) fn explained(server: &Server, error: anyhow::Error) -> anyhow::Error {
    match cause(&error).and_then(|cause| words(server, cause)) {
        Some(words) => anyhow!(words),
        None => error,
    }
}

/// What rustls says, somewhere below.
fn cause(error: &anyhow::Error) -> Option<&Error> {
    error.chain().find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| {
            inner.downcast_ref::<Error>().or_else(|| inner.source()?.downcast_ref())
        });
        inner.or_else(|| cause.downcast_ref())
    })
}

fn words(server: &Server, error: &Error) -> Option<String> {
    let flags = server.flags;
    let words = match error {
        Error::InvalidCertificate(error) => return Some(certificate(server, error)),
        Error::InvalidMessage(_) => {
            "it speaks no TLS on this port: write http:// instead of https://".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            format!(
                "it asks for a certificate: name one with {flags}.cert-file and {flags}.key-file"
            )
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError
            | AlertDescription::CertificateUnknown),
        ) => format!(
            "it refuses the certificate of {flags}.cert-file ({alert:?}): `client_ca_file` and \
             `client_allowed_sans` of its web file say which it takes"
        ),
        Error::AlertReceived(
            alert @ (AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion),
        ) => format!("it agrees to no version or suite of TLS ({alert:?}): see its web file"),
        _ => return None,
    };
    Some(words)
}

fn certificate(server: &Server, error: &CertificateError) -> String {
    let flags = server.flags;
    let trusted = match &server.ca_file {
        Some(path) => format!("by no authority in {flags}.ca-file {}", path.display()),
        None => "by no authority that this machine knows".to_owned(),
    };
    match error {
        CertificateError::UnknownIssuer => {
            format!("its certificate is signed {trusted}; name the right one with {flags}.ca-file")
        }
        error if pem::is_of_version_1(error) => {
            "its certificate is of X.509 version 1, which has no names; make one of version 3 with \
             a subjectAltName"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "its certificate has another name ({error}); write a name that it has into \
                     {flags}.url"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!(
                "its certificate is out of date ({error}); renew it, or set this machine's clock"
            )
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("its certificate is not valid yet ({error}); check this machine's clock")
        }
        other => format!("its certificate cannot be used: {other}"),
    }
}
