//! rustls' settings for a block `tls_server_config`.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};

use super::clients;
use crate::config::web;
use crate::config::web::TlsServer;
use crate::pem::{self, Pem};

/// The bytes in PEM format that a block names.
pub(super) struct Material {
    pub(super) cert: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) client_ca: Option<Vec<u8>>,
}

/// The name of the field that has this, and what messages call its contents.
pub(super) fn called(
    inline: &'static str,
    file: &'static str,
    pem: &web::Pem,
) -> (&'static str, String) {
    match pem {
        web::Pem::Inline(_) => (inline, format!("`{inline}`")),
        web::Pem::File(path) => (file, pem::named(file, path)),
    }
}

/// What is wrong, each with its field.
pub(super) type Mistakes = Vec<(&'static str, String)>;

/// The settings; or all that is wrong, each with its field.
pub(super) fn server(tls: &TlsServer, material: &Material) -> Result<ServerConfig, Mistakes> {
    let provider = Arc::new(provider(tls));
    let own = own(tls, material, &provider);
    let roots = roots(tls, material);
    let (own, roots) = match (own, roots) {
        (Ok(own), Ok(roots)) => (own, roots),
        (own, roots) => {
            return Err([own.err().unwrap_or_default(), roots.err().unwrap_or_default()].concat());
        }
    };
    let versions: Vec<&'static SupportedProtocolVersion> =
        [(tls.tls_13, &TLS13), (tls.tls_12, &TLS12)]
            .into_iter()
            .filter_map(|(spoken, version)| spoken.then_some(version))
            .collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| vec![("cipher_suites", error.to_string())])?;
    let clients =
        clients::verifier(tls, roots, &provider).map_err(|error| vec![(called_ca(tls), error)])?;
    let mut config = builder
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    config.ignore_client_order = tls.prefer_server_suites;
    // A session that is resumed would not show its certificate to a newer version of the file.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// What may be spoken.
fn provider(tls: &TlsServer) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if let Some(chosen) = &tls.suites {
        let named = |suite: &SupportedCipherSuite| format!("{:?}", suite.suite());
        let (new, old): (Vec<_>, Vec<_>) = provider
            .cipher_suites
            .into_iter()
            .partition(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
        let of_12 = chosen.iter().filter_map(|name| old.iter().find(|suite| named(suite) == *name));
        provider.cipher_suites = new.iter().chain(of_12).copied().collect();
    }
    if let Some(chosen) = &tls.curves {
        let curve = |name: &&str| match *name {
            "CurveP256" => NamedGroup::secp256r1,
            "CurveP384" => NamedGroup::secp384r1,
            _ => NamedGroup::X25519,
        };
        let all = provider.kx_groups;
        let group = |name| all.iter().copied().find(|group| group.name() == curve(name));
        provider.kx_groups = chosen.iter().filter_map(group).collect();
    }
    provider
}

fn own(
    tls: &TlsServer,
    material: &Material,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Mistakes> {
    let (cert_field, cert) = called("cert", "cert_file", &tls.cert);
    let (key_field, key) = called("key", "key_file", &tls.key);
    let chain = pem::certificates(&Pem { named: &cert, bytes: &material.cert });
    let secret = pem::private_key(&Pem { named: &key, bytes: &material.key });
    match (chain, secret) {
        (Ok(chain), Ok(secret)) => pem::pair(chain, &cert, secret, &key, provider)
            .map_err(|message| vec![(key_field, message)]),
        (chain, secret) => {
            let wrong = [(cert_field, chain.err()), (key_field, secret.err())];
            Err(wrong.into_iter().filter_map(|(field, error)| Some((field, error?))).collect())
        }
    }
}

/// The authorities of the clients' certificates, where they are checked.
fn roots(tls: &TlsServer, material: &Material) -> Result<Option<RootCertStore>, Mistakes> {
    match (&tls.client_ca, &material.client_ca) {
        (Some(ca), Some(bytes)) => {
            let (field, named) = called("client_ca", "client_ca_file", ca);
            let roots = pem::roots(&Pem { named: &named, bytes });
            roots.map(Some).map_err(|message| vec![(field, message)])
        }
        // As in the reference, none on this machine means that nobody is let in by one.
        _ if tls.client_auth.verifies() => Ok(pem::system_roots().ok()),
        _ => Ok(None),
    }
}

fn called_ca(tls: &TlsServer) -> &'static str {
    tls.client_ca
        .as_ref()
        .map_or("client_auth_type", |ca| called("client_ca", "client_ca_file", ca).0)
}
