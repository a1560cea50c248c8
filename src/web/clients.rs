//! The check of the clients' certificates: who signed them, and which names they have.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

use super::names;
use crate::config::web::{ClientAuth, TlsServer};

/// What checks the certificates of the clients of this block. `roots`: the authorities; `None`:
/// there are none, and a check lets in nobody.
pub(super) fn verifier(
    tls: &TlsServer,
    roots: Option<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if tls.client_auth == ClientAuth::No {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let signed = match roots {
        Some(roots) if tls.client_auth.verifies() => {
            let provider = Arc::clone(provider);
            let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            Some(signed.build().map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    // Names are no use if a client may leave them out by showing nothing.
    let mandatory = tls.client_auth.requires() || tls.client_allowed_sans.is_some();
    Ok(Arc::new(Clients {
        signed,
        verifies: tls.client_auth.verifies(),
        mandatory,
        names: tls.client_allowed_sans.clone(),
        provider: Arc::clone(provider),
    }))
}

#[derive(Debug)]
struct Clients {
    /// The check of who signed it, if there are authorities.
    signed: Option<Arc<dyn ClientCertVerifier>>,
    verifies: bool,
    mandatory: bool,
    /// The names of which it must have one.
    names: Option<Vec<String>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.as_ref().map_or(&[], |signed| signed.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.signed {
            Some(signed) => {
                let _signed = signed.verify_client_cert(end_entity, intermediates, now)?;
            }
            None if self.verifies => return Err(CertificateError::UnknownIssuer.into()),
            None => {}
        }
        if let Some(allowed) = &self.names {
            let presented = names::of(end_entity).ok_or(CertificateError::BadEncoding)?;
            if !presented.iter().any(|name| allowed.contains(name)) {
                return Err(CertificateError::Other(OtherError(Arc::new(OtherName))).into());
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate has none of the allowed names.
#[derive(Debug)]
struct OtherName;

impl fmt::Display for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client's certificate has none of the names in `client_allowed_sans`")
    }
}

impl std::error::Error for OtherName {}
