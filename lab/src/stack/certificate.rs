//! A server's certificate, signed by an authority that is made for it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// The files, in PEM format.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// The authority's certificate.
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    /// The private key.
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Makes one for this host, and writes the files into `folder`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn issue(host: IpAddr, folder: &Path) -> anyhow::Result<Certificate> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let (authority_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let certificate = CertificateParams::new([host.to_string()])?.signed_by(&key, &issuer)?;
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write {}", file.display()))?;
            anyhow::Ok(file)
        };
        Ok(Certificate {
            authority: write("authority.pem", authority_pem)?,
            certificate: write("certificate.pem", certificate.pem())?,
            key: write("key.pem", key.serialize_pem())?,
        })
    }
}
