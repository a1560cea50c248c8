//! Reads the web file and the files that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;

use super::bucket::Bucket;
use super::tls::{self, Material, Mistakes, called};
use super::weaker::weaker;
use crate::config::ConfigErrors;
use crate::config::web::{Pem, TlsServer, WebConfig};
use crate::pem;

/// One version of the web file.
#[derive(Debug)]
pub struct Door {
    /// What it says.
    pub config: WebConfig,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    bucket: Option<Bucket>,
    loaded: Loaded,
}

impl Door {
    /// Whether one more request may be answered now.
    pub fn has_room(&self) -> bool {
        self.bucket.as_ref().is_none_or(Bucket::take)
    }
}

/// The contents that a version was made of. They have secrets, so they are never shown.
#[derive(Default, PartialEq, Eq)]
struct Loaded {
    text: String,
    /// What the files have that it names.
    named: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loaded(…)")
    }
}

/// Reads everything.
pub(super) fn load(path: &Path) -> Result<Door, ConfigErrors> {
    let text = WebConfig::text(path)?;
    let mut named = BTreeMap::new();
    let mut made = None;
    let config = WebConfig::parse(&text, path, |tls| {
        let material = Material::of(tls, |field, pem| contents(field, pem, &mut named));
        match material.and_then(|material| tls::server(tls, &material)) {
            Ok(server) => {
                made = Some(Arc::new(server));
                Vec::new()
            }
            Err(mistakes) => mistakes,
        }
    })?;
    let bucket = config.rate_limit.map(Bucket::new);
    Ok(Door { config, tls: made, bucket, loaded: Loaded { text, named } })
}

/// What is to replace `before`, if the files have other contents now.
pub(super) fn renewed(path: &Path, before: &Door) -> Result<Option<Door>, String> {
    if is_unchanged(path, &before.loaded) {
        return Ok(None);
    }
    let door = load(path).map_err(|mistakes| mistakes.to_string())?;
    if door.loaded == before.loaded {
        return Ok(None);
    }
    match weaker(&before.config, &door.config) {
        Some(protection) => Err(format!(
            "it takes off {protection}; if that is meant, restart the agent, and if not, complete \
             the file"
        )),
        None => Ok(Some(door)),
    }
}

fn is_unchanged(path: &Path, loaded: &Loaded) -> bool {
    let same_text = WebConfig::text(path).is_ok_and(|text| text == loaded.text);
    same_text
        && loaded
            .named
            .iter()
            .all(|(path, bytes)| pem::read("", path).ok().as_ref() == bytes.as_ref())
}

/// The bytes of something in PEM format; those of a file are kept in `named`.
fn contents(
    field: &str,
    pem: &Pem,
    named: &mut BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> Result<Vec<u8>, String> {
    match pem {
        Pem::Inline(text) => Ok(text.expose().as_bytes().to_vec()),
        Pem::File(path) => {
            let bytes = pem::read(&pem::named(field, path), path);
            named.insert(path.clone(), bytes.as_ref().ok().cloned());
            bytes
        }
    }
}

impl Material {
    /// Reads what the block names; each that cannot be read is reported.
    fn of(
        tls: &TlsServer,
        mut read: impl FnMut(&str, &Pem) -> Result<Vec<u8>, String>,
    ) -> Result<Material, Mistakes> {
        let mut mistakes = Mistakes::new();
        let mut bytes = |inline, file, pem: &Pem| {
            let (field, _) = called(inline, file, pem);
            read(field, pem).map_err(|message| mistakes.push((field, message))).unwrap_or_default()
        };
        let cert = bytes("cert", "cert_file", &tls.cert);
        let key = bytes("key", "key_file", &tls.key);
        let client_ca = tls.client_ca.as_ref().map(|ca| bytes("client_ca", "client_ca_file", ca));
        if mistakes.is_empty() { Ok(Material { cert, key, client_ca }) } else { Err(mistakes) }
    }
}
