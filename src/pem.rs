//! Certificates and keys in PEM format, read from files. Each message names the field and the file,
//! and none repeats what a file contains.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

use crate::text::marks::{IS_UTF_16, after_mark};

/// Maximum size of a file in bytes; all authorities of a system take a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A text in PEM format, and what messages call it.
#[derive(Clone, Copy)]
pub(crate) struct Pem<'a> {
    pub(crate) named: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// What messages call the file of a field.
pub(crate) fn named(field: &str, path: &Path) -> String {
    format!("`{field}` {}", path.display())
}

/// The bytes of a file.
pub(crate) fn read(named: &str, path: &Path) -> Result<Vec<u8>, String> {
    let refused = |what: &str| Err(format!("{named} {what}"));
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(0) => refused("is empty"),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => refused("is larger than 1 MiB"),
        Ok(_) => after_mark(&bytes).map(<[u8]>::to_vec).ok_or(format!("{named} {IS_UTF_16}")),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => refused("does not exist"),
            io::ErrorKind::PermissionDenied => {
                refused("may not be read; let the user of lockwatch read it")
            }
            _ => refused(&format!("cannot be read: {error}")),
        },
    }
}

/// The certificates, at least one.
pub(crate) fn certificates(pem: &Pem<'_>) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = pem.named;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem.bytes).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err(format!("{named} has no certificate in PEM format (`-----BEGIN CERTIFICATE-----`)"))
        }
        Ok(all) => Ok(all),
        Err(_) => Err(format!("{named} is damaged, or only half written")),
    }
}

/// The certificates as authorities.
pub(crate) fn roots(pem: &Pem<'_>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (nth, certificate) in certificates(pem)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            format!("{}: its certificate {} cannot be used: {error}", pem.named, nth + 1)
        })?;
    }
    Ok(roots)
}

/// The authorities of this machine, at least one.
pub(crate) fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A system may have old ones that no check can use.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let errors: String =
            found.errors.iter().take(1).map(|error| format!(" ({error})")).collect();
        return Err(format!("this machine has no certificates of authorities{errors}"));
    }
    Ok(roots)
}

/// The private key.
pub(crate) fn private_key(pem: &Pem<'_>) -> Result<PrivateKeyDer<'static>, String> {
    let named = pem.named;
    PrivateKeyDer::from_pem_slice(pem.bytes).map_err(|error| match error {
        _ if has_passphrase(pem.bytes) => {
            format!("{named} has a passphrase; write the key without one (`openssl pkey`)")
        }
        pem::Error::NoItemsFound => format!("{named} has no private key in PEM format"),
        _ => format!("{named} is damaged, or only half written"),
    })
}

/// Both formats of encrypted keys say so in words before the key.
fn has_passphrase(pem: &[u8]) -> bool {
    let says = |word: &[u8]| pem.windows(word.len()).any(|window| window == word);
    says(b"BEGIN ENCRYPTED PRIVATE KEY") || says(b"Proc-Type: 4,ENCRYPTED")
}

/// A certificate with the key that belongs to it. `cert` and `key` are what messages call them.
pub(crate) fn pair(
    certificates: Vec<CertificateDer<'static>>,
    cert: &str,
    private_key: PrivateKeyDer<'static>,
    key: &str,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let own = match CertifiedKey::from_der(certificates.clone(), private_key.clone_key(), provider)
    {
        Err(Error::InvalidCertificate(error)) if is_of_version_1(&error) => {
            pair_of_version_1(certificates, private_key, provider)
        }
        own => own,
    };
    own.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            format!("the key in {key} does not belong to {cert}")
        }
        Error::InvalidCertificate(error) => {
            format!("the certificate in {cert} cannot be used: {error}")
        }
        // The library does not say what it misses in a key.
        _ => format!(
            "the key in {key} cannot be used: it must be one of RSA with 2048 bits or more, of \
             ECDSA with P-256 or P-384, or of Ed25519"
        ),
    })
}

/// Whether a certificate is refused because it is of X.509 version 1, which has no names. Many
/// clients have such ones: `openssl x509 -req` makes them unless it is refused an extension.
pub(crate) fn is_of_version_1(error: &CertificateError) -> bool {
    error.to_string().contains("UnsupportedCertVersion")
}

/// One that rustls shows to servers, but does not compare with its key.
fn pair_of_version_1(
    certificates: Vec<CertificateDer<'static>>,
    private_key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(private_key)?;
    let certifies = |public: &[u8]| {
        certificates.first().is_some_and(|own| own.windows(public.len()).any(|part| part == public))
    };
    if key.public_key().is_some_and(|public| !certifies(&public)) {
        return Err(InconsistentKeys::KeyMismatch.into());
    }
    Ok(CertifiedKey::new(certificates, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Editors of Windows write these marks.
    #[test]
    fn a_mark_before_the_text_is_skipped_and_utf_16_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        for (bytes, expected) in [
            (&b"\xef\xbb\xbf-----BEGIN"[..], Ok(b"-----BEGIN".to_vec())),
            (b"-----BEGIN", Ok(b"-----BEGIN".to_vec())),
            (b"\xff\xfe-\0", Err("`ca_file` is UTF-16 text; save it as UTF-8".to_owned())),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read("`ca_file`", &path), expected);
        }
    }
}
