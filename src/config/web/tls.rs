//! The block `tls_server_config`.

use std::path::{Path, PathBuf};

use serde_yaml::Value;

use super::Secret;
use super::values::{child, flag, optional, set, text};
use crate::config::block::{At, Block};
use crate::config::mistake::{Reported, quoted};
use crate::config::schema::BlockSpec;
use crate::text::nearest::nearest;

pub(super) const TLS_SERVER: BlockSpec = BlockSpec {
    path: "tls_server_config",
    fields: &[
        "cert",
        "key",
        "client_ca",
        "cert_file",
        "key_file",
        "client_ca_file",
        "client_auth_type",
        "client_allowed_sans",
        "min_version",
        "max_version",
        "cipher_suites",
        "prefer_server_cipher_suites",
        "curve_preferences",
    ],
    otherwise: &[
        ("ca_file", "write `client_ca_file`: the authority that signs the clients' certificates"),
        ("insecure_skip_verify", "is of clients; here `client_auth_type` says what they must show"),
    ],
};

/// The suites that can be chosen. Those of TLS 1.3 are always on, as in the reference.
const SUITES: [&str; 9] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
/// The suites of HTTP/2, of which the reference requires one where HTTP/2 is not switched off.
const HTTP_2_SUITES: [&str; 2] =
    ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
/// Suites of the reference that are not spoken here: their mode of encryption is weak.
const SUITES_LACKING: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];
const CURVES: [&str; 3] = ["X25519", "CurveP256", "CurveP384"];

/// What the server shows to its clients, and what it asks of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsServer {
    /// The certificate, and those between it and its authority.
    pub cert: Pem,
    /// Its private key.
    pub key: Pem,
    /// The authorities of the clients' certificates; `None`: those of the system.
    pub client_ca: Option<Pem>,
    /// What a client must show.
    pub client_auth: ClientAuth,
    /// The names of which a client's certificate must have one; `None`: any will do.
    pub client_allowed_sans: Option<Vec<String>>,
    /// Whether TLS 1.2 is spoken.
    pub tls_12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls_13: bool,
    /// The suites of TLS 1.2 in order of preference; `None`: all.
    pub suites: Option<Vec<&'static str>>,
    /// Whether the server's order of the suites counts, not the client's.
    pub prefer_server_suites: bool,
    /// The curves in order of preference; `None`: all.
    pub curves: Option<Vec<&'static str>>,
}

/// Something in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// It stands in the web file.
    Inline(Secret),
    /// It is read from this file.
    File(PathBuf),
}

/// What a client must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// Nothing, and it is not asked.
    No,
    /// It is asked, and may show any certificate or none.
    Request,
    /// Any certificate.
    RequireAny,
    /// None, or one that an authority signed.
    VerifyIfGiven,
    /// One that an authority signed.
    RequireAndVerify,
}

impl ClientAuth {
    /// Every name of `client_auth_type`; the last one is an older spelling.
    const NAMES: [(&'static str, ClientAuth); 6] = [
        ("NoClientCert", ClientAuth::No),
        ("RequestClientCert", ClientAuth::Request),
        ("RequireAnyClientCert", ClientAuth::RequireAny),
        ("VerifyClientCertIfGiven", ClientAuth::VerifyIfGiven),
        ("RequireAndVerifyClientCert", ClientAuth::RequireAndVerify),
        ("RequireClientCert", ClientAuth::RequireAny),
    ];

    /// Whether a certificate is checked against authorities.
    pub fn verifies(self) -> bool {
        matches!(self, ClientAuth::VerifyIfGiven | ClientAuth::RequireAndVerify)
    }

    /// Whether a client without a certificate is turned away.
    pub fn requires(self) -> bool {
        matches!(self, ClientAuth::RequireAny | ClientAuth::RequireAndVerify)
    }
}

/// Reads the block; `None`: it asks for no TLS. `http_2`: the file leaves HTTP/2 on.
pub(super) fn read(
    top: &Block<'_>,
    nothing: &Value,
    dir: &Path,
    http_2: bool,
) -> Result<(Option<TlsServer>, Vec<String>), Reported> {
    let block = child(top, "tls_server_config", &TLS_SERVER, nothing)?;
    let cert = pem(&block, "cert", "cert_file", dir);
    let key = pem(&block, "key", "key_file", dir);
    let client_ca = pem(&block, "client_ca", "client_ca_file", dir);
    let client_auth = optional(&block, "client_auth_type", client_auth);
    let sans = set(&block, "client_allowed_sans").map(|at| at.list(text)).transpose();
    let min = version(&block, "min_version");
    let max = version(&block, "max_version");
    let suites = words(&block, "cipher_suites", suite);
    let prefer_server_suites = optional(&block, "prefer_server_cipher_suites", flag);
    let curves = words(&block, "curve_preferences", curve);
    let (cert, key, client_ca) = (cert?, key?, client_ca?);
    // The reference looks at these fields alone.
    let client_auth = client_auth?.flatten();
    let says_something =
        cert.is_some() || key.is_some() || client_ca.is_some() || client_auth.is_some();
    let (sans, min, max, suites, curves) = (sans?, min?, max?, suites?, curves?);
    let prefer_server_suites = prefer_server_suites?.unwrap_or(true);
    if !says_something {
        let is_written = set(top, "tls_server_config")
            .is_some_and(|at| at.value.as_mapping().is_some_and(|fields| !fields.is_empty()));
        let warning = "`tls_server_config` names no certificate, so pages are served without TLS; \
                       add `cert_file` and `key_file`";
        return Ok((None, is_written.then(|| warning.to_owned()).into_iter().collect()));
    }
    let missing = |field: &str, inline: &str, what: &str| {
        let message = format!(
            "has no `{field}`; name the file with the {what} (or write it here \
                               as `{inline}`)"
        );
        block.report_whole(message)
    };
    let cert = cert.ok_or_else(|| missing("cert_file", "cert", "server's certificate"));
    let key = key.ok_or_else(|| missing("key_file", "key", "certificate's private key"));
    let client_auth = client_auth.unwrap_or(ClientAuth::No);
    let asked = check_authority(&block, client_auth, client_ca.is_some());
    let versions = versions(&block, min, max, suites.as_deref(), http_2);
    let (tls_12, tls_13) = versions?;
    let (cert, key, ()) = (cert?, key?, asked?);
    let warnings = warnings(client_auth, client_ca.is_some(), sans.as_deref());
    let tls = TlsServer {
        cert,
        key,
        client_ca,
        client_auth,
        client_allowed_sans: sans,
        tls_12,
        tls_13,
        suites,
        prefer_server_suites,
        curves,
    };
    Ok((Some(tls), warnings))
}

/// Something in PEM format, from a file if both are written.
fn pem(block: &Block<'_>, inline: &str, file: &str, dir: &Path) -> Result<Option<Pem>, Reported> {
    let written = optional(block, inline, text);
    let file = optional(block, file, path);
    let written = written?.filter(|text| !text.is_empty());
    let file = file?.filter(|path| !path.as_os_str().is_empty());
    let file = file.map(|path| Pem::File(dir.join(path)));
    Ok(file.or_else(|| Some(Pem::Inline(Secret::new(written?)))))
}

fn path(value: &Value) -> Result<PathBuf, String> {
    let path = text(value)?;
    // It may be the key itself, so the message does not repeat it.
    if path.contains(['\0', '\n']) {
        return Err("is not a path; write the path of a file in PEM format".to_owned());
    }
    Ok(path.into())
}

/// An empty word says nothing.
fn client_auth(value: &Value) -> Result<Option<ClientAuth>, String> {
    let word = text(value)?;
    if word.is_empty() {
        return Ok(None);
    }
    let found = ClientAuth::NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, auth)| Some(*auth)).ok_or_else(|| {
        let (_older, names) = ClientAuth::NAMES.split_last().unzip();
        let names: Vec<&str> = names.into_iter().flatten().map(|(name, _)| *name).collect();
        format!("{} is not known; write one of {}", quoted(&word), names.join(", "))
    })
}

fn check_authority(
    block: &Block<'_>,
    auth: ClientAuth,
    has_authority: bool,
) -> Result<(), Reported> {
    if auth != ClientAuth::No || !has_authority {
        return Ok(());
    }
    let in_file = set(block, "client_ca_file").is_some();
    let field = if in_file { "client_ca_file" } else { "client_ca" };
    let message = "stands without a `client_auth_type`, so no client would be asked for a \
                   certificate; write `client_auth_type: RequireAndVerifyClientCert`";
    Err(block.report(field, message))
}

/// Whether TLS 1.2 and 1.3 are spoken.
fn versions(
    block: &Block<'_>,
    min: Option<Version>,
    max: Option<Version>,
    suites: Option<&[&'static str]>,
    http_2: bool,
) -> Result<(bool, bool), Reported> {
    let (min, max) = (min.unwrap_or(Version::Tls12), max.unwrap_or(Version::Tls13));
    if min > max {
        let message = "is above `max_version`, so no client could connect; lower it, or leave \
                       both out";
        return Err(block.report("min_version", message));
    }
    let (mut tls_12, tls_13) = (min == Version::Tls12, max == Version::Tls13);
    if let Some(suites) = suites {
        let of_12 = |suite: &&str| suite.contains("_WITH_");
        if tls_12 && http_2 && !suites.iter().any(|suite| HTTP_2_SUITES.contains(suite)) {
            let message = format!(
                "lacks the suite that HTTP/2 requires; add {} or {}, or set \
                `http_server_config: {{http2: false}}`",
                HTTP_2_SUITES[0], HTTP_2_SUITES[1]
            );
            return Err(block.report("cipher_suites", message));
        }
        tls_12 &= suites.iter().any(of_12);
        if !tls_12 && !tls_13 {
            let message = "has no suite of TLS 1.2, and `max_version` allows nothing newer; raise \
                           it, or add a suite whose name has `_WITH_`";
            return Err(block.report("cipher_suites", message));
        }
    }
    Ok((tls_12, tls_13))
}

fn warnings(auth: ClientAuth, has_authority: bool, sans: Option<&[String]>) -> Vec<String> {
    let mut warnings = Vec::new();
    if auth.verifies() && !has_authority {
        warnings.push(
            "`client_auth_type` checks certificates without a `client_ca_file`: those \
            of every public authority of this machine will do"
                .to_owned(),
        );
    }
    match sans {
        Some(_) if auth == ClientAuth::No => warnings.push(
            "`client_allowed_sans` has no effect: \
            no client is asked for a certificate; write `client_auth_type: \
            RequireAndVerifyClientCert`"
                .to_owned(),
        ),
        Some([]) => {
            warnings.push("`client_allowed_sans` is empty, so no client may connect".to_owned())
        }
        _ => {}
    }
    if matches!(auth, ClientAuth::Request | ClientAuth::RequireAny) {
        warnings.push(
            "`client_auth_type` lets in any certificate, signed by anybody; only \
            RequireAndVerifyClientCert keeps others out"
                .to_owned(),
        );
    }
    warnings
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Tls12,
    Tls13,
}

fn version(block: &Block<'_>, field: &str) -> Result<Option<Version>, Reported> {
    optional(block, field, |value| match text(value)?.as_str() {
        "TLS12" => Ok(Version::Tls12),
        "TLS13" => Ok(Version::Tls13),
        old @ ("TLS10" | "TLS11") => {
            Err(format!("{old} is broken and not spoken here; write TLS12 or TLS13"))
        }
        other => Err(format!("{} is no version of TLS; write TLS12 or TLS13", quoted(other))),
    })
}

/// A list of words; an empty one is like none.
fn words(
    block: &Block<'_>,
    field: &str,
    read: impl Fn(&Value) -> Result<&'static str, String>,
) -> Result<Option<Vec<&'static str>>, Reported> {
    let words = set(block, field).map(|at: At<'_>| at.list(read)).transpose()?;
    Ok(words.filter(|words| !words.is_empty()))
}

fn suite(value: &Value) -> Result<&'static str, String> {
    let name = text(value)?;
    if SUITES_LACKING.contains(&name.as_str()) {
        return Err(format!(
            "{name} is not spoken here, because its mode of encryption is weak; leave it out: \
             every client of TLS 1.2 since 2013 knows those with GCM"
        ));
    }
    one_of(&name, &SUITES, "cipher suite")
}

fn curve(value: &Value) -> Result<&'static str, String> {
    let name = text(value)?;
    if name == "CurveP521" {
        return Err(format!("CurveP521 is not spoken here; use {}", CURVES.join(", ")));
    }
    one_of(&name, &CURVES, "curve")
}

fn one_of(name: &str, all: &'static [&'static str], what: &str) -> Result<&'static str, String> {
    all.iter().copied().find(|known| *known == name).ok_or_else(|| {
        match nearest(name, all.iter().copied()).first() {
            Some(near) => format!("{} is no {what}; did you mean {near}?", quoted(name)),
            None => format!("{} is no {what}; use one of {}", quoted(name), all.join(", ")),
        }
    })
}
