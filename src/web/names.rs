//! The alternative names of a certificate: host names, mail addresses, URIs and IP addresses. The
//! library that checks certificates shows only some of them.

use std::net::{Ipv4Addr, Ipv6Addr};

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
/// The extensions in the signed part of a certificate.
const EXTENSIONS: u8 = 0xa3;
/// The object id of the extension: 2.5.29.17.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];
const MAIL: u8 = 0x81;
const HOST: u8 = 0x82;
const URI: u8 = 0x86;
const ADDRESS: u8 = 0x87;

/// The names as text; `None`: the certificate is damaged.
pub(super) fn of(certificate: &[u8]) -> Option<Vec<String>> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (mut signed, _) = value(certificate, SEQUENCE)?;
    while !signed.is_empty() {
        let (tag, fields, rest) = element(signed)?;
        if tag == EXTENSIONS {
            let (extensions, _) = value(fields, SEQUENCE)?;
            return names_in(extensions);
        }
        signed = rest;
    }
    Some(Vec::new())
}

fn names_in(mut extensions: &[u8]) -> Option<Vec<String>> {
    while !extensions.is_empty() {
        let (extension, rest) = value(extensions, SEQUENCE)?;
        let (id, fields) = value(extension, OBJECT_ID)?;
        if id == ALTERNATIVE_NAMES {
            // Whether it is critical may stand before its value.
            let fields = value(fields, BOOLEAN).map_or(fields, |(_, fields)| fields);
            let (octets, _) = value(fields, OCTETS)?;
            let (names, _) = value(octets, SEQUENCE)?;
            return texts(names);
        }
        extensions = rest;
    }
    Some(Vec::new())
}

fn texts(mut names: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !names.is_empty() {
        let (tag, name, rest) = element(names)?;
        texts.extend(match tag {
            MAIL | HOST | URI => String::from_utf8(name.to_vec()).ok(),
            ADDRESS => address(name),
            _ => None,
        });
        names = rest;
    }
    Some(texts)
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string())
}

/// The contents of an element that has this tag, and what follows it.
fn value(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, contents, rest) = element(bytes)?;
    (tag == expected).then_some((contents, rest))
}

/// The first element of a list in DER: its tag, its contents, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], after) = bytes.split_first_chunk::<2>()?;
    let (length, after) = match first {
        0..=0x7f => (usize::from(first), after),
        // Two and three bytes are enough for any certificate.
        0x81..=0x83 => {
            let (digits, after) = after.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), after)
        }
        _ => return None,
    };
    let (contents, rest) = after.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn every_kind_of_name_is_read() {
        let text = |text: &str| text.try_into().unwrap();
        let der = certificate(vec![
            SanType::DnsName(text("scraper.example.com")),
            SanType::Rfc822Name(text("ops@example.com")),
            SanType::URI(text("spiffe://example.com/prometheus")),
            SanType::IpAddress("10.0.0.7".parse().unwrap()),
            SanType::IpAddress("2001:db8::7".parse().unwrap()),
        ]);
        assert_eq!(
            of(&der).unwrap(),
            [
                "scraper.example.com",
                "ops@example.com",
                "spiffe://example.com/prometheus",
                "10.0.0.7",
                "2001:db8::7"
            ]
        );
        assert_eq!(of(&certificate(Vec::new())), Some(Vec::new()), "a certificate without names");
    }

    #[test]
    fn a_damaged_certificate_has_no_names_and_ends_nothing() {
        let der = certificate(vec![SanType::DnsName("a".try_into().unwrap())]);
        for end in 0..der.len() {
            assert_eq!(of(&der[..end]), None, "{end}");
        }
        for at in 0..der.len() {
            let mut damaged = der.clone();
            damaged[at] ^= 0xff;
            let _any = of(&damaged);
        }
    }
}
