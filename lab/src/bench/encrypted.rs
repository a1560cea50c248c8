//! A second, encrypted door to a server that is already there: same data, same process.

use std::path::Path;

use anyhow::Context;
use tempfile::TempDir;

use super::wire::Wire;
use crate::stack::{Certificate, Redis, free_address};

/// How the agent's configuration names it. The files live as long as this does.
pub(super) struct Encrypted {
    /// Fields of a `redis:` block.
    pub(super) servers: String,
    _files: TempDir,
}

/// Lets `redis` listen with TLS too.
///
/// # Errors
/// When the files cannot be written, or Redis refuses: it may be built without TLS.
pub(super) fn encrypt(redis: &Redis) -> anyhow::Result<Encrypted> {
    let files = tempfile::tempdir()?;
    let address = free_address()?;
    let certificate = Certificate::issue(address.ip(), files.path())?;
    let file = |path: &Path| path.display().to_string();
    let (ca_file, cert_file) = (file(&certificate.authority), file(&certificate.certificate));
    let key_file = file(&certificate.key);

    let port = address.port().to_string();
    let settings = [
        ["tls-auth-clients", "no"],
        ["tls-cert-file", &cert_file],
        ["tls-key-file", &key_file],
        ["tls-ca-cert-file", &ca_file],
        ["tls-port", &port],
    ];
    // Redis loads them together, or refuses each one alone.
    let words = ["CONFIG", "SET"].into_iter().chain(settings.into_iter().flatten());
    Wire::connect(redis.address())?
        .ask(&words.collect::<Vec<_>>())
        .context("Redis does not speak TLS")?;
    let servers = format!("url: \"rediss://{address}\", tls: {{ca_file: \"{ca_file}\"}}");
    Ok(Encrypted { servers, _files: files })
}
