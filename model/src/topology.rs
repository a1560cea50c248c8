//! Which servers belong together and which of them decides, as told by Sentinels, by a cluster, or by the servers' own
//! roles. Pure: what was answered goes in, and nothing here dials anybody.
//!
//! Whoever answers may lie. An address that no client could dial is not taken, lists are limited, and of Sentinels only a
//! majority of the configured ones is believed.

use alloc::string::String;
use alloc::sync::Arc;

use crate::accept;
use crate::reply::Reply;

pub mod cluster;
pub mod replicated;
pub mod sentinel;

/// Longest host name of the domain name system.
const HOST_BYTES_MAX: usize = 253;

/// A server's address as others announce it; they may know it by one that is of no use here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Announced {
    /// Host name or address, in lower case; an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Announced {
    /// An address that could be dialled; `None` for any other text.
    pub fn new(host: &str, port: u16) -> Option<Announced> {
        // Only what host names and addresses consist of: this text gets into labels, pages and logs.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:%".contains(&byte);
        let dialable = !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(fits) && port != 0;
        dialable.then(|| Announced { host: host.to_ascii_lowercase(), port })
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> Arc<str> {
        accept::address(&self.host, self.port).into()
    }

    /// From the replies that name host and port.
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

/// The value of `name` in a map that is flattened to a list; `None` also where the list is no such map.
fn map_field<'a>(map: &'a [Reply], name: &str) -> Option<&'a Reply> {
    map.chunks_exact(2).find_map(|pair| match pair {
        [Reply::Bytes(field), value] if field == name.as_bytes() => Some(value),
        _ => None,
    })
}
