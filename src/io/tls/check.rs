//! The check of a server's certificate, which rustls makes; and the client's own certificate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::VerifierBuilderError;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

/// The check of rustls, unchanged. A certificate that it refuses because nobody signed it is only
/// told apart from one that signed itself, which people correct in another way.
#[derive(Debug)]
pub(super) struct Check {
    verifier: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

impl Check {
    /// With these authorities.
    pub(super) fn new(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Check, VerifierBuilderError> {
        let verifier = verifier(roots, &provider)?;
        Ok(Check { verifier, provider })
    }

    /// Whether the certificate could prove itself.
    fn signs_itself(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
        let mut roots = RootCertStore::empty();
        let added = roots.add(certificate.clone().into_owned());
        let Ok(verifier) = verifier(roots, &self.provider) else { return false };
        let checked = verifier.verify_server_cert(certificate, &[], name, &[], UnixTime::now());
        added.is_ok()
            && !matches!(checked, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)))
    }
}

fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, VerifierBuilderError> {
    let provider = Arc::clone(provider);
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match checked {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if self.signs_itself(end_entity, server_name) =>
            {
                Err(CertificateError::Other(OtherError(Arc::new(SelfSigned))).into())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The certificate is signed by itself, and not one of those that are trusted.
#[derive(Debug)]
pub(super) struct SelfSigned;

impl fmt::Display for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the certificate is signed by itself")
    }
}

impl std::error::Error for SelfSigned {}

/// The client's own certificate for one connection, if it has one.
#[derive(Debug)]
pub(super) struct Identity {
    own: Option<Arc<CertifiedKey>>,
    wanted: AtomicBool,
}

impl Identity {
    pub(super) fn new(own: Option<Arc<CertifiedKey>>) -> Identity {
        Identity { own, wanted: AtomicBool::new(false) }
    }

    /// Whether the server asked for a certificate.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether there is a certificate.
    pub(super) fn exists(&self) -> bool {
        self.own.is_some()
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.wanted.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        self.own.is_some()
    }
}
