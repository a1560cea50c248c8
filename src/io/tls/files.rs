//! The files of a block `tls`, read at every connect. If they cannot be used because somebody is
//! just replacing them, those that were read before stay in use, and the log says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore};
use tokio::time::timeout;

use super::check::{Check, Identity};
use crate::blocking;
use crate::config::TlsFiles;
use crate::pem::{self, Pem};

/// How long the system's authorities are taken from memory.
const SYSTEM_GOOD_FOR: Duration = Duration::from_secs(60);

/// For how many sets of files settings are kept: more than a configuration may have stores.
const KEPT_MAX: usize = 2_000;

/// What all connections with the same files have in common.
#[derive(Debug)]
pub(super) struct Settings {
    check: Arc<Check>,
    /// The client's own certificate.
    pub(super) own: Option<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
}

/// The settings for a connection that begins now.
pub(super) async fn settings(files: &TlsFiles, limit: Duration) -> Result<Arc<Settings>, Failure> {
    let failed = |what: String| Failure::new(Unknown::TlsFiles, what);
    let files = files.clone();
    // Done on a thread, because they may be on a network file system.
    match timeout(limit, blocking::run(move || renewed(&files))).await {
        Ok(Ok(settings)) => settings.map_err(failed),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("the files of `tls` cannot be read within {limit:?}"))),
    }
}

impl Settings {
    /// For one connection.
    pub(super) fn client(&self, identity: Arc<Identity>) -> Result<ClientConfig, Error> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .dangerous() // So rustls calls it; `Check` refuses whatever rustls' own check refuses.
            .with_custom_certificate_verifier(Arc::clone(&self.check) as _)
            .with_client_cert_resolver(identity);
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Why these files cannot be used now; `None`: they can.
pub fn unusable(files: &TlsFiles) -> Option<String> {
    Contents::read(files).and_then(|contents| Settings::of(files, &contents)).err()
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    ca: Option<Vec<u8>>,
    own: Option<(Vec<u8>, Vec<u8>)>,
}

/// What was made of the files last.
struct Kept {
    contents: Contents,
    settings: Arc<Settings>,
    at: Instant,
    /// Why newer contents cannot be used; it is logged once.
    complaint: Option<String>,
}

impl Kept {
    fn is_of(&self, contents: &Contents) -> bool {
        let is_fresh = contents.ca.is_some() || self.at.elapsed() < SYSTEM_GOOD_FOR;
        is_fresh && self.contents == *contents
    }

    fn complain(&mut self, complaint: String) {
        if self.complaint.as_ref() != Some(&complaint) {
            let what = "the files of `tls` were replaced by some that cannot be used: the earlier \
                        ones stay in use";
            tracing::warn!(complaint, "{what}");
            self.complaint = Some(complaint);
        }
    }
}

/// What was made of all files so far.
fn all() -> MutexGuard<'static, BTreeMap<TlsFiles, Kept>> {
    static ALL: Mutex<BTreeMap<TlsFiles, Kept>> = Mutex::new(BTreeMap::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the files again, and makes new settings if they have changed. Nothing is read while
/// others wait: a disk that hangs concerns only those who need it.
fn renewed(files: &TlsFiles) -> Result<Arc<Settings>, String> {
    let contents = Contents::read(files);
    if let Ok(contents) = &contents
        && let Some(settings) = unchanged(files, contents)
    {
        return Ok(settings);
    }
    let made = contents.and_then(|contents| Ok((Settings::of(files, &contents)?, contents)));
    let mut all = all();
    match (made, all.get_mut(files)) {
        (Ok((settings, contents)), before) => {
            if before.is_some_and(|before| before.contents != contents) {
                tracing::info!("the files of `tls` were replaced: new connections use them");
            }
            let settings = Arc::new(settings);
            let (kept, at) = (Arc::clone(&settings), Instant::now());
            all.insert(files.clone(), Kept { contents, settings: kept, at, complaint: None });
            drop_oldest(&mut all);
            Ok(settings)
        }
        (Err(complaint), None) => Err(complaint),
        (Err(complaint), Some(kept)) => {
            kept.complain(complaint);
            Ok(Arc::clone(&kept.settings))
        }
    }
}

/// What was made of the files, if they have these contents still.
fn unchanged(files: &TlsFiles, contents: &Contents) -> Option<Arc<Settings>> {
    let mut all = all();
    let kept = all.get_mut(files).filter(|kept| kept.is_of(contents))?;
    kept.complaint = None;
    Some(Arc::clone(&kept.settings))
}

/// Files of earlier configurations are not kept for ever.
fn drop_oldest(all: &mut BTreeMap<TlsFiles, Kept>) {
    let oldest = all.iter().min_by_key(|(_, kept)| kept.at).map(|(files, _)| files.clone());
    if all.len() > KEPT_MAX
        && let Some(oldest) = oldest
    {
        all.remove(&oldest);
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Contents, String> {
        let read = |field, path: &Path| pem::read(&pem::named(field, path), path);
        let ca = files.ca_file.as_deref().map(|path| read("ca_file", path)).transpose()?;
        let own = match (&files.cert_file, &files.key_file) {
            (Some(cert), Some(key)) => Some((read("cert_file", cert)?, read("key_file", key)?)),
            _ => None,
        };
        Ok(Contents { ca, own })
    }
}

impl Settings {
    fn of(files: &TlsFiles, contents: &Contents) -> Result<Settings, String> {
        let provider = Arc::new(ring::default_provider());
        let roots = match (&files.ca_file, &contents.ca) {
            (Some(path), Some(bytes)) => {
                pem::roots(&Pem { named: &pem::named("ca_file", path), bytes })?
            }
            _ => of_the_system()?,
        };
        let check = Check::new(roots, Arc::clone(&provider)).map_err(|error| error.to_string())?;
        let own = match (&files.cert_file, &files.key_file, &contents.own) {
            (Some(cert), Some(key), Some((chain, secret))) => {
                let (cert, key) = (pem::named("cert_file", cert), pem::named("key_file", key));
                let chain = Pem { named: &cert, bytes: chain };
                let secret = Pem { named: &key, bytes: secret };
                Some(Arc::new(own(&chain, &secret, &provider)?))
            }
            _ => None,
        };
        Ok(Settings { check: Arc::new(check), own, provider })
    }
}

fn of_the_system() -> Result<RootCertStore, String> {
    pem::system_roots().map_err(|error| {
        format!("{error}; install its package `ca-certificates`, or set `tls.ca_file`")
    })
}

fn own(
    chain: &Pem<'_>,
    secret: &Pem<'_>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let certificates = pem::certificates(chain)?;
    let key = pem::private_key(secret)?;
    pem::pair(certificates, chain.named, key, secret.named, provider)
}
