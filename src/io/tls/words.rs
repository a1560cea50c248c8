//! The reason and the words for a TLS connection that could not be made. Each names what is wrong,
//! on which side, and the field with which it is corrected.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

use super::check::{Identity, SelfSigned};
use crate::config::Tls;
use crate::pem;
use crate::text::instants::rfc3339;

/// Maximum number of a certificate's names that are shown, and of the characters of each.
const NAMES: usize = 5;
const NAME_CHARS: usize = 80;

/// What the words for a refused connection need.
#[derive(Debug)]
pub(super) struct Refusals {
    pub(super) tls: Tls,
    pub(super) identity: Arc<Identity>,
}

/// The configured name is none that a certificate can have.
pub(super) fn no_name(name: &str) -> Failure {
    Failure::new(
        Unknown::TlsName,
        format_args!("no certificate can be for {name}; set `tls.server_name`"),
    )
}

/// The handshake was not answered.
pub(super) fn silence(limit: Duration) -> Failure {
    Failure::new(
        Unknown::Timeout,
        format_args!(
            "no answer to the TLS handshake within {limit:?}; if this port does not speak TLS, use \
             `redis://`"
        ),
    )
}

impl Refusals {
    /// Why the handshake failed.
    pub(super) fn handshake(&self, error: &io::Error) -> Failure {
        match of_tls(error) {
            Some(error) => self.failure(error),
            None if self.lacks_certificate() => self.no_certificate("closed the connection"),
            None => Failure::new(
                Unknown::Closed,
                format_args!(
                    "the connection ended in the TLS handshake ({error}); if this port does not \
                     speak TLS, use `redis://`"
                ),
            ),
        }
    }

    /// Why the server ended the connection before it answered anything, if that is about TLS.
    pub(super) fn refusal(&self, error: Option<&io::Error>) -> Option<Failure> {
        match error.and_then(of_tls) {
            Some(error) => Some(self.failure(error)),
            None => self.lacks_certificate().then(|| self.no_certificate("closed the connection")),
        }
    }

    fn lacks_certificate(&self) -> bool {
        self.identity.is_wanted() && !self.identity.exists()
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::InvalidCertificate(error) => self.certificate(error),
            Error::AlertReceived(alert) => self.alert(*alert),
            Error::InvalidMessage(_) => Failure::new(
                Unknown::Tls,
                "the answer is no TLS; if this port does not speak TLS, use `redis://`",
            ),
            Error::PeerIncompatible(why) => Failure::new(
                Unknown::Tls,
                format_args!("the server has no TLS 1.2 or 1.3 that lockwatch accepts ({why:?})"),
            ),
            error => Failure::new(Unknown::Tls, error),
        }
    }

    /// What is wrong with the certificate of the server.
    fn certificate(&self, error: &CertificateError) -> Failure {
        let name = &self.tls.name;
        let untrusted = |what: String| Failure::new(Unknown::TlsUntrusted, what);
        let expired = |what: String| Failure::new(Unknown::TlsExpired, what);
        match error {
            CertificateError::UnknownIssuer => untrusted(format!(
                "the certificate of the server is signed by none of {}; put the authority that \
                 signed it into `tls.ca_file`",
                self.authorities()
            )),
            CertificateError::BadSignature
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                untrusted(format!(
                    "the certificate of the server is signed by another authority of the same name \
                     than the one among {}; put the authority that signed it into `tls.ca_file`",
                    self.authorities()
                ))
            }
            CertificateError::Other(OtherError(error)) if error.is::<SelfSigned>() => {
                untrusted(format!(
                    "the certificate of the server is signed by itself, and is none of {}; put it \
                     into `tls.ca_file`",
                    self.authorities()
                ))
            }
            CertificateError::ExpiredContext { not_after, .. } => expired(format!(
                "the certificate of the server expired at {}; renew it",
                instant(*not_after)
            )),
            CertificateError::NotValidYetContext { not_before, .. } => expired(format!(
                "the certificate of the server is valid only from {} on; correct it, or the clock \
                 of this machine",
                instant(*not_before)
            )),
            CertificateError::Expired => {
                expired("the certificate of the server has expired".into())
            }
            CertificateError::NotValidYet => {
                expired("the certificate of the server is not yet valid".into())
            }
            CertificateError::NotValidForNameContext { presented, .. } => Failure::new(
                Unknown::TlsName,
                format_args!(
                    "the certificate of the server is for {}, and not for {name}; connect by such \
                     a name, or set `tls.server_name`",
                    names(presented)
                ),
            ),
            CertificateError::NotValidForName => Failure::new(
                Unknown::TlsName,
                format_args!(
                    "the certificate of the server is not for {name}; set `tls.server_name`"
                ),
            ),
            other => untrusted(self.unusable(other)),
        }
    }

    fn unusable(&self, error: &CertificateError) -> String {
        if pem::is_of_version_1(error) {
            return "the certificate of the server is of X.509 version 1, which has no names; make \
                    one of version 3 with a subjectAltName"
                .to_owned();
        }
        let said = error.to_string();
        // What openssl makes by default, and most tutorials: an authority that signs itself.
        if said.contains("CaUsedAsEndEntity") {
            return "the certificate of the server is that of an authority (`CA:TRUE`), probably \
                    signed by itself; give the server one that an authority signed, or make its \
                    own again with `basicConstraints=critical,CA:FALSE` and put it into `tls.ca_file`"
                .to_owned();
        }
        format!("the certificate of the server cannot be used: {said}")
    }

    /// What the server said when it ended the connection.
    fn alert(&self, alert: AlertDescription) -> Failure {
        use AlertDescription as A;
        match alert {
            A::HandshakeFailure if self.lacks_certificate() => self.no_certificate("refused"),
            A::CertificateRequired | A::NoCertificate => self.no_certificate("refused"),
            A::BadCertificate if !self.identity.exists() => self.no_certificate("refused"),
            A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::DecryptError
                if self.identity.exists() =>
            {
                Failure::new(
                    Unknown::TlsClient,
                    format_args!(
                        "the server refused the certificate in `tls.cert_file` {} ({}); its own \
                         `tls-ca-cert-file` must have signed it",
                        self.tls.files.cert_file.as_deref().unwrap_or("".as_ref()).display(),
                        meaning(alert)
                    ),
                )
            }
            A::UnrecognisedName => Failure::new(
                Unknown::TlsName,
                format_args!(
                    "the server does not know the name {}; set `tls.server_name`",
                    self.tls.name
                ),
            ),
            _ => Failure::new(
                Unknown::Tls,
                format_args!("the server ended the TLS handshake ({})", meaning(alert)),
            ),
        }
    }

    fn no_certificate(&self, did: &str) -> Failure {
        Failure::new(
            Unknown::TlsClient,
            format_args!(
                "the server asked for a client certificate, got none, and {did}; set \
                 `tls.cert_file` and `tls.key_file`"
            ),
        )
    }

    fn authorities(&self) -> String {
        match &self.tls.files.ca_file {
            Some(path) => format!("those in `tls.ca_file` {}", path.display()),
            None => String::from("the authorities of this machine"),
        }
    }
}

/// The error of rustls in an error of the connection.
fn of_tls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn meaning(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => String::from("its authority is unknown there"),
        AlertDescription::CertificateExpired => String::from("it has expired, or is not yet valid"),
        AlertDescription::CertificateRevoked => String::from("it was revoked"),
        AlertDescription::ProtocolVersion => String::from("it accepts no TLS 1.2 or 1.3"),
        other => format!("alert {other:?}"),
    }
}

/// The names in a certificate: hostile text, and perhaps many.
fn names(presented: &[String]) -> String {
    let shown = |name: &String| name.chars().take(NAME_CHARS).collect::<String>();
    let first: Vec<String> = presented.iter().take(NAMES).map(shown).collect();
    match presented.len() {
        0 => String::from("no name at all (it has no subjectAltName)"),
        all if all > NAMES => format!("{} and {} more", first.join(", "), all - NAMES),
        _ => first.join(", "),
    }
}

fn instant(time: UnixTime) -> String {
    let ms = i64::try_from(time.as_secs()).ok().and_then(|seconds| seconds.checked_mul(1_000));
    ms.and_then(rfc3339).unwrap_or_else(|| String::from("an instant beyond all years"))
}
