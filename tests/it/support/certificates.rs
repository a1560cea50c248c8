//! Certificates of servers and clients, made for one test.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SigningKey as _, date_time_ymd,
};

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Now,
    Over,
    Later,
}

/// A certificate with its key, in PEM format.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        Authority::with_key(name, KeyPair::generate().unwrap())
    }

    /// With a key of another type.
    pub(crate) fn of_ed25519(name: &str) -> Authority {
        Authority::with_key(name, KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap())
    }

    fn with_key(name: &str, key: KeyPair) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate, in PEM format.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these host names and addresses, for a server or a client.
    pub(crate) fn sign(&self, names: &[&str], life: Life) -> Pair {
        let key = KeyPair::generate().unwrap();
        let cert = params(names, life).signed_by(&key, &self.issuer).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// A certificate of X.509 version 1, which has no names: the fields of one of version 3 between
    /// its version and its extensions, signed anew.
    pub(crate) fn sign_version_1(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let cert = params(&[], Life::Now).signed_by(&key, &self.issuer).unwrap();
        let (fields, algorithm) = {
            let (whole, _) = contents(cert.der());
            let (fields, rest) = contents(whole);
            (fields, &rest[..whole_length(rest)])
        };
        let begin = whole_length(fields);
        let mut end = begin;
        // Serial number, algorithm, issuer, life, subject, public key.
        for _ in 0..6 {
            end += whole_length(&fields[end..]);
        }
        let signed = sequence(&fields[begin..end]);
        let signature = self.issuer.key().sign(&signed).unwrap();
        let signature = element(0x03, &[&[0], &signature[..]].concat());
        let cert = sequence(&[&signed, algorithm, &signature].concat());
        let cert = STANDARD.encode(cert);
        let cert = format!("-----BEGIN CERTIFICATE-----\n{cert}\n-----END CERTIFICATE-----\n");
        Pair { cert, key: key.serialize_pem() }
    }
}

/// What is in the first element of these bytes in DER, and what follows it.
fn contents(der: &[u8]) -> (&[u8], &[u8]) {
    let head = if der[1] < 0x80 { 2 } else { 2 + usize::from(der[1] & 0x7f) };
    let (element, rest) = der.split_at(whole_length(der));
    (&element[head..], rest)
}

/// The length of the first element with its head.
fn whole_length(der: &[u8]) -> usize {
    let digits = usize::from(der[1].saturating_sub(0x80));
    let length = |digits: &[u8]| digits.iter().fold(0, |all, digit| all << 8 | usize::from(*digit));
    2 + digits + if digits == 0 { usize::from(der[1]) } else { length(&der[2..2 + digits]) }
}

fn sequence(contents: &[u8]) -> Vec<u8> {
    element(0x30, contents)
}

fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
    let head = match length {
        [0, low] if low < 0x80 => vec![tag, low],
        [0, low] => vec![tag, 0x81, low],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [&head, contents].concat()
}

impl Pair {
    /// One that signs itself. `as_authority`: as openssl makes it unless configured otherwise.
    pub(crate) fn self_signed(names: &[&str], as_authority: bool) -> Pair {
        let mut params = params(names, Life::Now);
        if as_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Writes both to files in `folder`; their names begin with `name`.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let file = |ending: &str, text: &str| {
            let path = folder.join(format!("{name}.{ending}"));
            fs::write(&path, text).unwrap();
            path
        };
        (file("crt", &self.cert), file("key", &self.key))
    }
}

fn params(names: &[&str], life: Life) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "redis");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = match life {
        Life::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2099, 1, 1)),
        Life::Over => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
        Life::Later => (date_time_ymd(2098, 1, 1), date_time_ymd(2099, 1, 1)),
    };
    params
}

/// The arguments with which a server, a Sentinel or a node of a cluster speaks TLS only. Clients
/// need no certificate.
pub(crate) fn arguments(ca: &Path, (cert, key): (&Path, &Path)) -> Vec<String> {
    let file = |path: &Path| path.display().to_string();
    let pairs = [
        ("--tls-ca-cert-file", file(ca)),
        ("--tls-cert-file", file(cert)),
        ("--tls-key-file", file(key)),
        ("--tls-auth-clients", "no".to_owned()),
        ("--tls-replication", "yes".to_owned()),
        ("--tls-cluster", "yes".to_owned()),
    ];
    pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// Whether these bytes of a client are whole and partial records of TLS, and nothing else.
pub(crate) fn is_tls_alone(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [kind, 3, 0..=4, high, low, after @ ..] = rest {
        if !(20..=23).contains(kind) {
            return false;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        rest = after.get(length..).unwrap_or_default();
    }
    rest.len() < 5
}
