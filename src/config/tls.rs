//! The block `tls` of a Redis store: which certificates its connections use. It holds for every
//! server of the store, found ones and Sentinels too.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lockwatch_watch::redis::store::{HostPort, Servers};
use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::schema::TLS;
use super::servers::Transports;
use super::url;
use super::values::text;

/// How the connections to the servers of a store are protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The files with certificates.
    pub files: TlsFiles,
    /// The name that every server's certificate must have; `None`: that of its address.
    pub server_name: Option<String>,
}

/// The files that TLS needs. They are read at every connect, so that replaced ones take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TlsFiles {
    /// The authorities that may sign a server's certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that the agent shows, and those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// Its private key.
    pub key_file: Option<PathBuf>,
}

/// How the connection to one server is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The files with certificates.
    pub files: TlsFiles,
    /// The host name or address that its certificate must have.
    pub name: String,
}

impl TlsConfig {
    /// For one of `servers`. Its name is the one that was announced, because the server's own
    /// certificate has it, also where `announce_map` says to connect elsewhere.
    pub(super) fn of(&self, at: &HostPort, servers: &Servers) -> Tls {
        let peers = match servers {
            Servers::Sentinel(sentinels) => Some(&sentinels.peers),
            Servers::Cluster(cluster) => Some(&cluster.peers),
            Servers::One(_) | Servers::Nodes(_) => None,
        };
        let announced = || {
            let mut map = peers?.announce_map.iter();
            Some(&map.find(|(_, reachable)| reachable.is_same(at))?.0.host)
        };
        let name = self.server_name.as_ref().or_else(announced).unwrap_or(&at.host);
        Tls { files: self.files.clone(), name: name.clone() }
    }
}

/// Reads the block of a store whose addresses say `transports`. `dir` is the base of relative
/// paths.
pub(super) fn read(
    redis: &Block<'_>,
    transports: Transports,
    dir: &Path,
) -> Result<Option<TlsConfig>, Reported> {
    let Some(block) = redis.child("tls", &TLS)? else {
        return Ok(transports.tls.then(TlsConfig::default));
    };
    let file = |field| block.optional(field, |value| path(value, dir));
    let (ca_file, cert_file, key_file) = (file("ca_file"), file("cert_file"), file("key_file"));
    let server_name = block.optional("server_name", server_name);
    if transports.plain {
        let message = "contradicts an address that says plain TCP; write `rediss://` instead of \
                       `redis://`, or leave `tls` out";
        return Err(redis.report("tls", message));
    }
    if transports.socket {
        let message = "contradicts a Unix socket, which never leaves this machine and has no \
                       TLS; leave it out";
        return Err(redis.report("tls", message));
    }
    let files = TlsFiles { ca_file: ca_file?, cert_file: cert_file?, key_file: key_file? };
    match (&files.cert_file, &files.key_file) {
        (Some(_), None) => {
            Err(block.report("cert_file", "has no `key_file`; name its private key"))
        }
        (None, Some(_)) => {
            Err(block.report("key_file", "has no `cert_file`; name its certificate"))
        }
        _ => Ok(Some(TlsConfig { files, server_name: server_name? })),
    }
}

fn path(value: &Value, dir: &Path) -> Result<PathBuf, String> {
    let path = text(value)?;
    // It may be the certificate or the key itself, so the message does not repeat it.
    if path.is_empty() || path.contains(['\0', '\n']) {
        return Err("is not a path; write the path of a file in PEM format".to_owned());
    }
    Ok(dir.join(path))
}

fn server_name(value: &Value) -> Result<String, String> {
    const SHAPE: &str = "write the host name, or the address, that the certificates have";
    let name = text(value)?;
    match name.parse::<IpAddr>() {
        Ok(_) => Ok(name),
        Err(_) => url::host(&name, SHAPE).map(str::to_owned),
    }
}
