//! Determines the servers of a store and which of them decide, from the reports of Sentinels, of a
//! cluster, or of the servers themselves. Pure: replies go in, and nothing here opens a connection.
//!
//! Replies are not trusted. An address that no client could dial is dropped, lists are limited, and
//! Sentinels count only with a majority of the configured ones.

use alloc::string::String;
use alloc::sync::Arc;
use core::net::Ipv6Addr;

use crate::redis::accept;
use crate::redis::reply::Reply;

pub mod cluster;
pub mod replicated;
pub mod sentinel;

/// Maximum length of a DNS host name in bytes.
const HOST_BYTES_MAX: usize = 253;

/// A server's address as announced by others. It may be unreachable from here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Announced {
    /// Host name or address, in lower case; an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Announced {
    /// An address that can be dialled; `None` for any other text.
    pub fn new(host: &str, port: u16) -> Option<Announced> {
        let dialable =
            host.len() <= HOST_BYTES_MAX && (is_name(host) || is_ipv6(host)) && port != 0;
        dialable.then(|| Announced { host: host.to_ascii_lowercase(), port })
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> Arc<str> {
        accept::address(&self.host, self.port).into()
    }

    /// Reads an address from the replies for host and port.
    fn from_replies(host: &Reply, port: &Reply) -> Option<Announced> {
        let host = core::str::from_utf8(host.as_bytes()?).ok()?;
        Announced::new(host, u16::try_from(port.as_int()?).ok()?)
    }
}

impl core::fmt::Display for Announced {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.address())
    }
}

/// Whether the text has only characters of host names and IPv4 addresses. It appears in labels,
/// alerts and logs.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Also accepts a zone after the address: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, interface) = text.split_once('%').unwrap_or((text, "0"));
    address.parse::<Ipv6Addr>().is_ok() && is_name(interface)
}

/// The value of `name` in a map that is flattened to a list; `None` also if the list is no such
/// map.
fn map_field<'a>(map: &'a [Reply], name: &str) -> Option<&'a Reply> {
    map.chunks_exact(2).find_map(|pair| match pair {
        [Reply::Bytes(field), value] if field == name.as_bytes() => Some(value),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_could_be_dialled_are_taken() {
        for (host, wanted) in [
            ("10.0.0.5", Some("10.0.0.5:6379")),
            ("Redis-A_1.shop.example", Some("redis-a_1.shop.example:6379")),
            ("FD00::5", Some("[fd00::5]:6379")),
            ("fe80::1%eth0", Some("[fe80::1%eth0]:6379")),
            ("fe80::1%", None),
            ("eth0%fe80", None),
            ("10.0.0.5:6379", None),
            ("[fd00::5]", None),
            ("", None),
            ("?", None),
            ("a/b", None),
            ("a@b", None),
            ("käse", None),
            ("a\u{0}", None),
        ] {
            let announced = Announced::new(host, 6379).map(|announced| announced.address());
            assert_eq!(announced.as_deref(), wanted, "{host}");
        }
        assert_eq!(Announced::new("a", 0), None);
    }
}
